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
_PACKAGE = "__init__.py"


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
        return _unless_imported(_of_config(named, path, analysis), path, analysis)
    own = _in_file(name, path, path, analysis)
    if own is not None:
        return own
    # A package imports its trial, and cannot be imported by the file that has this.
    others = (file for file in sorted(path.parent.glob("*.py")) if file.name != _PACKAGE)
    beside = [file for file in others if file != path]
    found = [made for file in beside if (made := _in_file(name, file, path, analysis))]
    # A package may be imported by a name that its folder does not have here.
    return _unless_imported(found[0], path, analysis) if len(found) == 1 else None


def _unless_imported(
    found: DataFunction | None, path: Path, analysis: Analysis
) -> DataFunction | None:
    """The function without the statement that imports it, where the file has one."""
    code = analysis.code(path)
    names = {line.node.asname or line.node.name for line in code.imports} if code else set()
    is_there = found is not None and found.name in names
    return replace(found, statement="") if found is not None and is_there else found


def _of_config(named: str, path: Path, analysis: Analysis) -> DataFunction | None:
    """The function that a config names, which is imported from where it is defined.

    A config lies in a folder above the trial, or in its own; a package that has the function may
    import the trial by itself.
    """
    module, _, function = named.partition(":")
    parts = module.split(".")
    for folder in path.parents:
        for file in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, _PACKAGE)):
            code = analysis.code(file) or analysis.code(file.resolve())
            if code is None:
                continue
            scope = _function(function, code.module) or _imported(function, code, analysis)
            if scope is None:
                return None
            home, here = scope.source.path.resolve(), path.parent.resolve()
            beside = next((f for f in (home, file) if f.resolve().parent == here), file)
            if beside.resolve().parent == here and beside.name != _PACKAGE:
                return _in_file(scope.name, path.parent / beside.name, path, analysis)
            if home == here / _PACKAGE or not home.is_relative_to(folder.resolve()):
                return None
            names = home.relative_to(folder.resolve()).with_suffix("").parts
            dotted = ".".join(names[:-1] if names[-1] == "__init__" else names)
            statement = f"from {dotted} import {scope.name}"
            return DataFunction(scope.name, statement, _required_of(scope))
    return None


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


def _required_of(scope: Scope) -> tuple[str, ...]:
    return _required(scope.node) if isinstance(scope.node, ast.FunctionDef) else ()


def _required(node: ast.FunctionDef) -> tuple[str, ...]:
    names = [argument.arg for argument in positional(node)]
    return tuple(names[: len(names) - len(node.args.defaults)])
