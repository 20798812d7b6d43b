"""The data functions of trials without loader methods: make_data_loaders and download_data."""

import ast
from dataclasses import dataclass, replace
from pathlib import Path

from det_compat.analysis.collect import positional
from det_compat.analysis.scopes import Code, Function, Scope
from det_compat.migrate.configs import config_of
from det_compat.migrate.to_context.pedl_needs import DATA_CONFIG, DATA_DIR
from det_compat.migrate.tree.facts import Analysis

_ENTRYPOINTS = {
    "make_data_loaders": "data_loaders_function",
    "download_data": "download_data_function",
}


@dataclass(frozen=True)
class DataFunction:
    """A function of the tree.

    ``statement`` imports it into the trial's file, ``""`` if it is there. ``parameters`` are the
    names of those without a default.
    """

    name: str
    statement: str
    parameters: tuple[str, ...]

    def call(self, own: str, context: str) -> str:
        """The call of the function in the trial's ``__init__``."""
        known = {DATA_DIR: f"{own}.{DATA_DIR}", DATA_CONFIG: f"{context}.get_data_config()"}
        named = [name for name in self.parameters if name in known]
        plain = [name for name in self.parameters if name not in known]
        hparams = f"{context}.get_hparams()"
        both = [f"{context}.get_experiment_config()", hparams]
        given = both if len(plain) > 1 else [hparams] * len(plain)
        return f"{self.name}({', '.join([*given, *(known[name] for name in named)])})"


def find_function(name: str, path: Path, trial: str, analysis: Analysis) -> DataFunction | None:
    """Function ``name`` of a trial, where the config's entrypoints or its module has it.

    If neither has, the one file beside the trial that has such a function.
    """
    config = config_of(path, trial)
    functions = config.entrypoint.functions if config and config.entrypoint else {}
    named = functions.get(_ENTRYPOINTS[name])
    if named is not None:
        module, _, function = named.partition(":")
        return _in_file(function, path.parent / f"{module.replace('.', '/')}.py", path, analysis)
    own = _in_file(name, path, path, analysis)
    if own is not None:
        return own
    # A package imports its trial, and cannot be imported by the file that has this.
    others = (file for file in sorted(path.parent.glob("*.py")) if file.name != "__init__.py")
    beside = [file for file in others if file != path]
    found = [made for file in beside if (made := _in_file(name, file, path, analysis))]
    if len(found) != 1:
        return None
    # A package may be imported by a name that its folder does not have here.
    code = analysis.code(path)
    names = {line.node.asname or line.node.name for line in code.imports} if code else set()
    return replace(found[0], statement="") if name in names else found[0]


def _in_file(name: str, file: Path, path: Path, analysis: Analysis) -> DataFunction | None:
    code = next((analysis.code(p) for p in (file, file.resolve()) if analysis.code(p)), None)
    if code is None:
        return None
    scope = _function(name, code.module) or _imported(name, code, analysis)
    if scope is None or not isinstance(scope.node, ast.FunctionDef):
        return None
    dots = "." if _is_inside_package(path, analysis) else ""
    statement = "" if file == path else f"from {dots}{_module(file, path)} import {name}"
    return DataFunction(name, statement, _required(scope.node))


def _function(name: str, module: Scope) -> Scope | None:
    values = module.variables.get(name, ())
    found = [value.scope for value in values if isinstance(value, Function)]
    return module.functions.get(name) or (found[0] if len(found) == 1 else None)


def _imported(name: str, code: Code, analysis: Analysis) -> Scope | None:
    """The function of another file that a file imports under this name."""
    for line in code.imports:
        if name == (line.node.asname or line.node.name):
            module = analysis.inference.project.module(line.scope, line.module or "", line.level)
            return _function(line.node.name, module) if module is not None else None
    return None


def _is_inside_package(path: Path, analysis: Analysis) -> bool:
    """Whether a file is one of a package whose files import one another as such."""
    files = [path, path.parent / "__init__.py"]
    codes = [code for file in files if (code := analysis.code(file)) is not None]
    beside = {file.stem for file in path.parent.glob("*.py")}
    is_plain = any(
        line.module in beside for code in codes for line in code.imports if not line.level
    )
    return not is_plain and any(line.level == 1 for code in codes for line in code.imports)


def _module(file: Path, path: Path) -> str:
    return ".".join(file.relative_to(path.parent).with_suffix("").parts)


def _required(node: ast.FunctionDef) -> tuple[str, ...]:
    names = [argument.arg for argument in positional(node)]
    return tuple(names[: len(names) - len(node.args.defaults)])
