"""``--to lightning`` for trials of ``LightningAdapter``: before the other trials, and after them.

What cannot be done is refused as a whole: the file of the trial stays as it was, and so do the
files that would have been changed for it.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.analysis.scopes import Scope
from det_compat.catalog import support
from det_compat.migrate.configs import configs_of
from det_compat.migrate.from_adapter import lightning_1, steps
from det_compat.migrate.from_adapter.modules import Module, checked, imported, module_of
from det_compat.migrate.from_adapter.trial import (
    PLACE,
    Adapter,
    as_module,
    as_trial,
    clashes,
    placed,
    read,
)
from det_compat.migrate.review.project import Code, Text
from det_compat.migrate.target import Problem, Problems, Target
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import Analysis
from det_compat.migrate.tree.imports import added
from det_compat.migrate.tree.transformers import CannotRewriteError

_ADAPTER = "determined.pytorch.lightning.LightningAdapter"
_TRIAL = "from determined.pytorch import PyTorchTrial"
#: Code without any of these has all of its models in training mode.
_MODES = re.compile(rb"\.eval\(|\.freeze\(|\.train\(|from_pretrained|load_from_checkpoint")


def _code(sources: dict[Path, bytes], paths: list[Path] | None = None) -> Code:
    found = {}
    for path in sources if paths is None else paths:
        try:
            found[path] = Text(path, sources[path], ast.parse(sources[path]))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # What cannot be read is told of by the other steps.
    return Code(found)


def _refused(names: str, problem: Problem) -> Problem:
    link = support.of_name(_ADAPTER).link
    reason = f"{names} is a {_ADAPTER}, which migrate does not rewrite here: {problem.reason}"
    return Problem(f"{reason}; see {link}", problem.traceback)


class Adapters(Target):
    """Makes plain trials of the trials, and modules of Lightning 2 of what they train."""

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes], problems: Problems) -> None:
        super().__init__(analysis, sources, problems)
        self._made: dict[Path, bytes] = {}
        for path in sources:
            scopes = [*self._scopes(path)]
            with problems.of(path):
                self._made |= self._rewritten(path, scopes) if scopes else {}
            if path in problems and scopes:
                names = ", ".join(scope.name for scope in scopes)
                problems[path] = _refused(names, problems[path])

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether a file names the adapter."""
        return any(b"LightningAdapter" in text for text in texts)

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if no adapter needs another one."""
        return self._made.get(path)

    def _scopes(self, path: Path) -> Iterator[Scope]:
        facts = self.analysis.facts(path)
        hierarchy = self.analysis.inference.hierarchy
        for scope in facts.classes.values() if facts is not None else ():
            if _ADAPTER in hierarchy.determined_bases(scope):
                yield scope

    @cached_property
    def _code(self) -> Code:
        return _code(self.sources)

    def _rewritten(self, path: Path, scopes: list[Scope]) -> dict[Path, bytes]:
        """The new texts of the file of some trials, and of the files that it imports."""
        hierarchy = self.analysis.inference.hierarchy
        if any(len([*hierarchy.relatives(scope)]) > 1 for scope in scopes):
            raise CannotRewriteError("other classes derive from it, or it derives from them")
        tree = cst.parse_module(self.sources[path])
        names = {scope.name for scope in scopes}
        trials = {
            node.name.value: read(node)
            for node in syntax.find(tree, cst.ClassDef)
            if node.name.value in names
        }
        modules = {name: self._module(path, name, adapter) for name, adapter in trials.items()}
        files = imported(self._code, path)
        made = {
            file: text
            for file in files
            if (text := self._of_today(file, [*modules.values()])) != self.sources[file]
        }
        changed = [file for file in made if file != path]

        def as_plain(node: cst.ClassDef) -> cst.ClassDef:
            adapter = trials.get(node.name.value)
            return node if adapter is None else as_trial(adapter, changed)

        # The trial's own file may have been changed above, and its classes are not those any more.
        tree = cst.parse_module(made.get(path, self.sources[path]))
        trials = {
            node.name.value: read(node)
            for node in syntax.find(tree, cst.ClassDef)
            if node.name.value in names
        }
        tree = added(syntax.each(tree, cst.ClassDef, as_plain), {_TRIAL})
        return {**made, path: tree.bytes}

    def _module(self, path: Path, name: str, adapter: Adapter) -> Module:
        module = checked(self._code, path, adapter.module)
        if same := clashes(adapter, module):
            raise CannotRewriteError(f"{name} and {module.name} both have {same[0]}")
        if any(
            config.optimizations.aggregation_frequency != 1 for config in configs_of(path, name)
        ):
            raise CannotRewriteError("the adapter cleared the gradients that are aggregated")
        return module

    def _of_today(self, path: Path, modules: list[Module]) -> bytes:
        """A file in the API of Lightning 2, with modules whose optimizers step by themselves."""
        tree = lightning_1.rewritten(cst.parse_module(self.sources[path]), path, self._code)
        own = {module.name: module for module in modules if module.path == path}

        def of_today(node: cst.ClassDef) -> cst.ClassDef:
            module = own.get(node.name.value)
            if module is None:
                return node
            node = steps.with_own_hparams(node)
            return steps.with_every_optimizer(node) if module.has_several_optimizers else node

        return syntax.each(tree, cst.ClassDef, of_today).bytes


class AdaptedModules(Target):
    """Makes of the modules that were adapters those that they had made."""

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes], problems: Problems) -> None:
        super().__init__(analysis, sources, problems)
        self._made: dict[Path, bytes] = {}
        self._names: dict[Path, list[str]] = {}
        places = [path for path, text in sources.items() if PLACE.encode() in text]
        self._code = _code(sources)
        for path in places:
            with problems.of(path):
                self._made[path] = self._rewritten(path)
            if path in problems:
                problems[path] = _refused("its trial", problems[path])
                tree = cst.parse_module(sources[path])
                calls = [c for c in syntax.find(tree, cst.Call) if syntax.code(c.func) == PLACE]
                listed = ast.literal_eval(syntax.code(calls[0].args[0].value))
                reason = f"{path} is not migrated, for which this would have been changed"
                for other in filter(None, listed.split("\n")):
                    problems[Path(other)] = Problem(reason)

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether the trial of an adapter is on its way."""
        return any(PLACE.encode() in text for text in texts)

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if there was no adapter in it."""
        return self._made.get(path)

    def _rewritten(self, path: Path) -> bytes:
        tree = cst.parse_module(self.sources[path])
        texts = [self._code.files[file].source for file in imported(self._code, path)]
        defined: set[str] = set()

        def as_own(node: cst.ClassDef) -> cst.ClassDef:
            call = placed(syntax.methods(node).get("__init__"))
            if call is None:
                return node
            module = module_of(self._code, path, syntax.code(call.args[1].value))
            hooks = steps.hooks(module, are_modes_open=any(map(_MODES.search, texts)))
            defined.update(*(syntax.names_in(hook) for hook in hooks))
            spaces = (c.hyperparameters.space for c in configs_of(path, node.name.value))
            return as_module(node, module, hooks, {name for space in spaces for name in space})

        tree = syntax.each(tree, cst.ClassDef, as_own)
        return steps.with_definitions(tree, defined).bytes
