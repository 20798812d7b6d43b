"""Older trials that are several classes: what they share is in a base, what differs in its heirs.

The last ``__init__`` that runs wraps what a trial has built, as all that builds it needs is there
then; each class has its own methods rewritten.
"""

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.scopes import Scope
from det_compat.migrate.to_context.own_inits import with_model_last
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere

_TOO_EARLY = (
    "the model of {0} was built after its own __init__, too: set what it needs before "
    "super().__init__(), by the context and nothing else"
)
_CLIPS, _NONE = "ClipGrads", cst.Name("None")
#: What builds itself, as trials of Determined 0.12.12 may.
_WRAPS = re.compile(rb"\.(_?Model|wrap_model)\(")
#: What returns something else afterwards, which no heir may add to.
_ASKS_BASE = re.compile(r"super\([^)]*\)\.create_lr_scheduler\(")
_MODE = re.compile(r"[\w.]*\bStepMode\.\w+")
_EXTENDS = re.compile(r"super\([^)]*\)\.train_batch\(")


@dataclass(frozen=True)
class Family:
    """What a class of an older trial has from elsewhere.

    Attributes:
        relatives: the class itself, those that it derives from, and all that derive from these.
        nodes: the code of these.
        bases: the methods of each class that it derives from, the nearest first.
        trained: those of the nearest base that is a whole trial, which trains and validates by
            them; none if there is no such base.
        wraps: whether its own ``__init__`` is the last that runs.
        is_mixin: whether it is no trial and its ``__init__``, if any, takes nothing of one.
        keeps_context: whether the ``__init__`` of a base keeps the context, or what is made of it.
        clip: the method by which each class clips gradients; ``""`` if the one that trains does.
        keeps_clipping: whether callbacks clip as no method can say: they go on as callbacks.
        extends: whether an heir adds to ``train_batch`` of its base.
        steps_apart: whether the LR schedulers of its classes have different step modes, all known.
        problem: why it stays as it was.
    """

    relatives: Sequence[Scope] = ()
    nodes: Sequence[cst.ClassDef] = ()
    bases: Sequence[Mapping[str, cst.FunctionDef]] = ()
    trained: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    wraps: bool = True
    is_mixin: bool = False
    keeps_context: bool = False
    clip: str = ""
    keeps_clipping: bool = False
    extends: bool = False
    steps_apart: bool = False
    problem: str = ""

    @property
    def inherited(self) -> dict[str, cst.FunctionDef]:
        """The methods that it has from others."""
        return _together(self.bases)


class Families:
    """The classes of older trials, with what they are related to.

    Args:
        old: the classes that are older trials.
        hierarchy: of all classes.
        sources: the files that are rewritten.
        around: the code of the project.
    """

    def __init__(
        self,
        old: Collection[Scope],
        hierarchy: Hierarchy,
        sources: Mapping[Path, bytes],
        around: Elsewhere,
    ) -> None:
        self._hierarchy, self._sources, self._around = hierarchy, sources, around
        self._old = {scope for scope in old if not self._is_base(scope)}
        self._found: dict[Scope, Family] = {}

    def _is_base(self, scope: Scope) -> bool:
        """Whether heirs of a class build what it trains, or a part of that."""
        names = {name for each in self._hierarchy.ancestors(scope) for name in each.functions}
        is_built = "build_model" in names or any(
            _WRAPS.search(self._sources.get(each.source.path, b""))
            for each in self._hierarchy.ancestors(scope)
        )
        return bool(self._hierarchy.children(scope)) and (_is_abstract(scope) or not is_built)

    @cached_property
    def bases(self) -> frozenset[Scope]:
        """The classes that older trials derive from, and which are none by themselves."""
        every = (base for scope in self._old for base in self._hierarchy.ancestors(scope))
        return frozenset(every) - {*self._old}

    def of(self, scope: Scope) -> Family:
        """What a class has from others."""
        if scope not in self._found:
            self._found[scope] = self._family(scope)
        return self._found[scope]

    def _family(self, scope: Scope) -> Family:
        own, *bases = self._hierarchy.ancestors(scope)
        every = (each for base in (own, *bases) for each in self._hierarchy.relatives(base))
        relatives = {each: self._node(each) for each in dict.fromkeys(every)}
        whole = next((base for base in bases if base in self._old), None)
        return Family(
            relatives=[*relatives],
            nodes=[*relatives.values()],
            bases=[syntax.methods(relatives[base]) for base in bases],
            trained=_together(
                syntax.methods(relatives[each]) for each in self._hierarchy.ancestors(whole)
            )
            if whole
            else {},
            wraps=scope in self._old and whole is None,
            is_mixin=self._is_mixin(scope, relatives[scope]),
            keeps_context=any(
                "__init__" in syntax.methods(relatives[base])
                and not self._is_mixin(base, relatives[base])
                for base in bases
            ),
            clip=(clip := self._clip([*relatives.values()])),
            keeps_clipping=not clip and _clips_apart(relatives.values()),
            extends=any(_EXTENDS.search(syntax.code(each)) for each in relatives.values()),
            steps_apart=_step_apart([*map(syntax.methods, relatives.values())]),
            problem=self._problem(relatives) if len(relatives) > 1 else "",
        )

    def _is_mixin(self, scope: Scope, node: cst.ClassDef) -> bool:
        init = syntax.methods(node).get("__init__")
        params = [] if init is None else [each.name.value for each in init.params.params[1:]]
        is_given = any("context" in name or name == "hparams" for name in params)
        return not is_given and scope not in self._old and not self._hierarchy.is_trial(scope)

    def _node(self, scope: Scope) -> cst.ClassDef:
        tree = cst.parse_module(self._sources[scope.source.path])
        return next(n for n in syntax.find(tree, cst.ClassDef) if n.name.value == scope.name)

    def _has_old(self, bases: Sequence[Scope]) -> bool:
        return any(base in self._old for base in bases)

    def _problem(self, relatives: Mapping[Scope, cst.ClassDef]) -> str:
        for scope, node in relatives.items():
            if scope not in self._old and not self._hierarchy.children(scope):
                return f"{scope.name}, which has the same base, is no such trial"
            ancestors = [each for each in self._hierarchy.ancestors(scope) if each in relatives]
            own = [syntax.methods(relatives[each]) for each in ancestors]
            init = own[0].get("__init__") if self._has_old(ancestors[1:]) else None
            if init is not None and with_model_last(init, own, self._around) is None:
                return _TOO_EARLY.format(scope.name)
            if _ASKS_BASE.search(syntax.code(node)):
                return f"{scope.name} calls create_lr_scheduler of its base"
        return ""

    def _clip(self, nodes: Sequence[cst.ClassDef]) -> str:
        """The method by which each of some classes clips; ``""`` if the one that trains does."""
        own = [*map(syntax.methods, nodes)]
        builds = [each["build_callbacks"] for each in own if "build_callbacks" in each]
        is_plain = all(map(_clips_plainly, builds)) and not any(
            ".build_callbacks(" in syntax.code(node) for node in nodes
        )
        if not _clips_apart(nodes) or not is_plain:
            return ""
        taken = {name for each in own for name in each}
        taken |= {n.attr.value for node in nodes for n in syntax.find(node, cst.Attribute)}
        return next(name for name in ("clip_grads", "clip_trial_grads") if name not in taken)


def _clips_apart(nodes: Iterable[cst.ClassDef]) -> bool:
    """Whether other classes than those that train clip gradients."""
    own = [*map(syntax.methods, nodes)]
    clipping = [each for each in own if clips(each)]
    return bool(clipping) and clipping != [each for each in own if "train_batch" in each]


def clips(own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether the callbacks of a class clip gradients."""
    return _CLIPS in syntax.code(own.get("build_callbacks", _NONE))


def _clips_plainly(build: cst.FunctionDef) -> bool:
    """Whether callbacks are a dict that is written out, of which one at most clips."""
    last = syntax.simple(syntax.body_of(build)[-1])
    made = last.value if isinstance(last, cst.Return) else None
    is_one = syntax.code(build).count(_CLIPS) < 2 and len(syntax.returns(build)) == 1
    return is_one and isinstance(made, cst.Dict) and not syntax.local_names(build)


def _step_apart(classes: Sequence[Mapping[str, cst.FunctionDef]]) -> bool:
    """Whether the LR schedulers of some classes have different step modes, which they say."""
    made = [each["create_lr_scheduler"] for each in classes if "create_lr_scheduler" in each]
    values = [each.value for create in made for each in syntax.returns(create)]
    calls = [each for each in values if isinstance(each, cst.Call)]
    modes = [syntax.argument(each, 1, "step_mode") for each in calls]
    texts = ["" if mode is None else syntax.code(mode) for mode in modes]
    is_said = len(made) == len(values) == len(calls) and all(map(_MODE.fullmatch, texts))
    return is_said and len({text.rpartition(".")[2] for text in texts}) > 1


def _together(classes: Iterable[Mapping[str, cst.FunctionDef]]) -> dict[str, cst.FunctionDef]:
    """The methods that some classes have together, of which the first comes before the others."""
    return {name: method for own in reversed([*classes]) for name, method in own.items()}


def _is_abstract(scope: Scope) -> bool:
    """Whether a class leaves methods to its heirs, so that it is no trial yet."""
    lines = scope.node.body if isinstance(scope.node, ast.ClassDef) else []
    return any(isinstance(line, ast.FunctionDef) and _is_left_to_heirs(line) for line in lines)


def _is_left_to_heirs(method: ast.FunctionDef) -> bool:
    marked = any(ast.unparse(each).endswith("abstractmethod") for each in method.decorator_list)
    [*before, last] = map(ast.unparse, method.body)
    is_documented = ast.get_docstring(method) is not None
    is_alone = len(before) == int(is_documented)
    return marked or (is_alone and last.startswith("raise NotImplementedError"))
