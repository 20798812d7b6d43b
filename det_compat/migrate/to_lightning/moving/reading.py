"""Reading code for what it changes: that of a trial, and what that calls of the project."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from types import MappingProxyType

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.moving import known
from det_compat.migrate.to_lightning.moving.effects import GLOBAL, Effects
from det_compat.migrate.to_lightning.moving.names import Scope
from det_compat.migrate.to_lightning.moving.walk import Walk
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.symbols import Symbols


class Reader:
    """What is known of the code that a trial runs.

    Args:
        node: the class of the trial.
        around: what the project has.
        symbols: what placeholders stand for.
    """

    def __init__(self, node: cst.ClassDef, around: Elsewhere, symbols: Symbols) -> None:
        self.symbols = symbols
        self.around = around
        self.name = node.name.value
        self.own = _functions(node)
        self.others = {
            syntax.code(target): value
            for line in syntax.body_of(node)
            if isinstance(small := syntax.simple(line), cst.Assign)
            for target, value in syntax.pairs(small)
        }
        self._node = node
        self._running: set[cst.FunctionDef] = set()
        self._read: dict[cst.FunctionDef, tuple[Effects, str]] = {}

    def effects(self, init: cst.FunctionDef, *nodes: cst.CSTNode) -> Effects:
        """What some code of a method of the trial does."""
        walk = Walk(self, Scope(init, is_trial=True))
        for node in nodes:
            walk.go(node)
        return walk.found

    @cached_property
    def is_odd(self) -> bool:
        """Whether plain statements of the trial may do what they do not say."""
        bases = [base.value for base in self._node.bases]
        if self._node.keywords or self._node.decorators or not self.own.keys().isdisjoint(_ODD):
            return True
        if any(self.symbols.path(each) is None for each in bases):
            return True
        body = syntax.body_of(self._node)
        plain = (cst.Assign, cst.AnnAssign, cst.Expr, cst.Pass)
        if not all(
            isinstance(n, cst.FunctionDef) or isinstance(syntax.simple(n), plain) for n in body
        ):
            return True
        return any(
            not found.is_plain_call
            for name in _ODD
            for text in self.around.classes_with.get(name, ())
            if name not in _ITEMS or not _is_of_data(text)
            for found in [_Asked(self, text, name)]
        )

    def of_method(
        self, name: str, given: Sequence[set[str]], names: Mapping[str, set[str]]
    ) -> Effects:
        """What a method of the trial itself does."""
        made = Effects()
        for function in self.own[name]:
            made.add(self.called(function, given, names, is_trial=True))
        return made

    def of_object(
        self, name: str, given: Sequence[set[str]], names: Mapping[str, set[str]]
    ) -> Effects:
        """What a method of this name does in whichever class of the project; itself is given."""
        made = Effects()
        for text in self.around.classes_with[name]:
            for node in _classes(text):
                for function in _functions(node).get(name, ()):
                    made.add(self.called(function, given, names))
        return made

    def of_project(
        self, name: str, given: Sequence[set[str]], names: Mapping[str, set[str]]
    ) -> Effects:
        """What a function does that the project has, or the making of an object of a class."""
        made = Effects()
        lines = _parsed(self.around.texts[name])
        for line in lines:
            if isinstance(line, cst.FunctionDef):
                made.add(self.called(line, given, names))
            elif isinstance(line, cst.ClassDef):
                made.add(self._made(line, given, names))
            else:
                made.may_do_anything()
        return made

    def of_local(self, function: cst.FunctionDef, walk: Walk) -> Effects:
        """What a function does that stands in another one."""
        inner = Walk(self, walk.scope)
        if function in self._running:
            inner.found.may_call_anything(["self"] if walk.scope.me else [])
            return inner.found
        self._running.add(function)
        inner.go(function)
        self._running.discard(function)
        return inner.found

    def _made(
        self, node: cst.ClassDef, given: Sequence[set[str]], names: Mapping[str, set[str]]
    ) -> Effects:
        made, own = Effects(), _functions(node)
        decorators = [syntax.code(each.decorator).partition("(")[0] for each in node.decorators]
        is_data = [*decorators] in (["dataclass"], ["dataclasses.dataclass"])
        if node.keywords or (decorators and not is_data) or "__new__" in own:
            made.may_call_anything(set[str]().union(*given, *names.values()))
        if is_data and "__post_init__" in own:
            made.add(self.called(own["__post_init__"][0], [set()]))
        for function in own.get("__init__", ()):
            made.add(self.called(function, [set(), *given], names))
        made.add(self.of_bases(node, given, names))
        return made

    def of_bases(
        self, node: cst.ClassDef, given: Sequence[set[str]], names: Mapping[str, set[str]]
    ) -> Effects:
        """What the ``__init__`` of the bases of a class does."""
        made = Effects()
        for base in node.bases:
            last = syntax.code(base.value).rpartition(".")[2]
            if last in self.around.texts and last != node.name.value:
                made.add(self.of_project(last, given, names))
            elif last in ("object", "ABC", "Generic") or last in dir(builtins):
                continue
            elif path := self.path(base.value):
                made.is_quiet &= path.startswith(("torch.optim", "torch.nn.Module"))
                made.is_plain &= path.startswith("torch.optim") and last not in known.COPYING
            else:
                made.may_call_anything(set[str]().union(*given, *names.values()))
        return made

    def called(
        self,
        function: cst.FunctionDef,
        given: Sequence[set[str]],
        names: Mapping[str, set[str]] = MappingProxyType({}),
        *,
        is_trial: bool = False,
    ) -> Effects:
        """What a function does with what it is given."""
        made = Effects()
        every = set[str]().union(*given, *names.values())
        if function in self._running:
            made.may_call_anything(every | ({"self"} if is_trial else set()))
            return made
        if function not in self._read:
            self._running.add(function)
            self._read[function] = self._summary(function, is_trial=is_trial)
            self._running.discard(function)
        found, tag = self._read[function]
        made.add(found)
        made.bound = {name for name in made.bound if name.startswith("self.")}
        params = function.params
        order = [p.name.value for p in (*params.posonly_params, *params.params)]
        if is_trial and not _is_static(function):
            order = order[1:]
        taken = dict(zip(order, given, strict=False))
        named = [*order, *(p.name.value for p in params.kwonly_params)]
        taken |= {name: value for name, value in names.items() if name in named}
        if "*" in names:
            taken = dict.fromkeys(named, every)
        rest = (params.star_arg, params.star_kwarg)
        taken |= dict.fromkeys([p.name.value for p in rest if isinstance(p, cst.Param)], every)
        # What a function only looks at is no business of others that it looks at.
        touched = made.changed | made.below | made.filled
        touched |= {name for pair in (*made.same, *made.holds) for name in pair}
        taken = {f"{name}{tag}": roots for name, roots in taken.items()}
        made.same |= {(n, each) for n in taken.keys() & touched for each in taken[n]}
        return made

    def _summary(self, function: cst.FunctionDef, *, is_trial: bool) -> tuple[Effects, str]:
        """What a function does, and what stands behind the names of its variables."""
        scope = Scope(function, is_trial=is_trial, tag=f"@{len(self._read)}.{len(self._running)}")
        walk = Walk(self, scope)
        walk.go(function.body)
        params = [*syntax.find(function.params, cst.Param)]
        names = {f"{param.name.value}{scope.tag}" for param in params}
        if function.asynchronous is not None or not all(map(_is_known, function.decorators)):
            walk.found.may_call_anything(names)
        for param in params:
            if param.default is not None and not _is_constant(param.default):
                # What it is once is what it is for every call.
                walk.found.same.add((f"{param.name.value}{scope.tag}", GLOBAL))
                walk.found.read.add(GLOBAL)
        return walk.found, scope.tag

    def path(self, node: cst.BaseExpression) -> str:
        """The whole path of what a library has; ``""`` of anything else."""
        names: list[str] = []
        while isinstance(node, cst.Attribute):
            names.insert(0, node.attr.value)
            node = node.value
        paths = self._paths_of(node)
        roots = {path.partition(".")[0] for path in paths}
        if not roots or not roots <= known.LIBRARIES or len(paths) > 1:
            return ""
        return ".".join([*paths, *names])

    def _paths_of(self, node: cst.BaseExpression) -> frozenset[str]:
        while isinstance(node, cst.Attribute):
            node = node.value
        name = node.value if isinstance(node, cst.Name) else ""
        return self.around.imported.get(name, frozenset())


_OF_DATA = re.compile(r"(?i)data|samp|module|load|iter|coll?at")
_OF_PYTHON = re.compile(r"(?i)dict|list|tuple")
_ITEMS = ("__getitem__", "__len__", "__iter__")
#: What plain statements call.
_ODD = frozenset(
    f"__{name}__"
    for name in words(
        """
        getattr getattribute setattr delattr get set delete setitem delitem getitem len iter
        contains bool float int index eq ne lt gt le ge add radd sub rsub mul rmul truediv
        rtruediv pow neg new init_subclass class_getitem iadd imul
        """
    )
)


class _Asked:
    """A special method of a class: whether it only does what its name says."""

    def __init__(self, reader: Reader, text: str, name: str) -> None:
        self._reader, self._text, self._name = reader, text, name

    @property
    def is_plain_call(self) -> bool:
        may_set = self._name.startswith(("__set", "__del", "__i"))
        for node in _classes(self._text):
            for function in _functions(node).get(self._name, ()):
                params = [p.name.value for p in function.params.params]
                made = self._reader.called(function, [{f"given{at}"} for at in range(len(params))])
                deep = made.links.of(made.below | made.filled, deep=True)
                changed = made.links.of(made.changed, deep=False)
                changed -= {"given0"} if may_set else set()
                if made.is_anything or any(n.startswith("given") for n in deep | changed):
                    return False
        return True


def _is_of_data(text: str) -> bool:
    """Whether a class is one of data, whose parts no ``__init__`` of a trial looks at."""
    head = text.partition(":")[0]
    is_list = "__getitem__" in text and "__len__" in text and not _OF_PYTHON.search(head)
    return is_list or bool(_OF_DATA.search(head))


def _is_constant(value: cst.BaseExpression) -> bool:
    kinds = (cst.Name, cst.Integer, cst.Float, cst.SimpleString, cst.UnaryOperation, cst.Attribute)
    return isinstance(value, kinds) or (isinstance(value, cst.Tuple) and not value.elements)


def _is_static(function: cst.FunctionDef) -> bool:
    return any(syntax.code(d.decorator) == "staticmethod" for d in function.decorators)


def _is_known(decorator: cst.Decorator) -> bool:
    text = syntax.code(decorator.decorator)
    return text in known.DECORATORS or text.endswith(".setter")


def _functions(node: cst.ClassDef) -> dict[str, list[cst.FunctionDef]]:
    """All methods of a class, also several of one name."""
    found: dict[str, list[cst.FunctionDef]] = {}
    for line in syntax.body_of(node):
        if isinstance(line, cst.FunctionDef):
            found.setdefault(line.name.value, []).append(line)
    return found


def _classes(text: str) -> Iterator[cst.ClassDef]:
    return (line for line in _parsed(text) if isinstance(line, cst.ClassDef))


@lru_cache(maxsize=512)
def _parsed(text: str) -> list[cst.BaseStatement]:
    return [line for line in syntax.statements(text)]
