"""Whether a validation needs what making the training loader has left behind.

What counts are attributes of the trial, and variables and classes of files. Code is looked up by
name alone: a call of ``fit`` may be one of every ``fit`` that the files of a project define. What
an object of a library is told to do changes it, unless that is known not to.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.data.done_once import is_text, leave_out_shared
from det_compat.migrate.to_lightning.moving.set_first import reading_own
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import parsed, variables_of
from det_compat.migrate.tree.trial_attributes import VALIDATING, attributes_made, reachable

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TRAINING_LOADER, _VALIDATION_LOADER = "build_training_data_loader", "build_validation_data_loader"
# Methods of data, texts, dicts, loggers and contexts that leave these as they are.
_READING = words(
    """
    astype clone copy count cpu cuda debug decode encode endswith error exists float format get info
    index int is_dir is_file item items iterdir join keys len lower max mean min numpy open read
    reshape rsplit shape size split startswith std strip sum to tolist upper values view warning
    annToMask loadAnns loadCats loadImgs
    """
)
#: What these methods are called on is another thing afterwards.
_MUTATING = words(
    """
    add append appendleft clear discard extend fit fit_transform insert partial_fit pop popitem
    remove reverse seek setdefault sort update
    """
)
#: Functions of libraries that change what they are given.
_CHANGING = words("shuffle heappush heappop heapify next setattr delattr copyto put setitem at")
_KEYWORDS = ("out", "generator")


#: Making an object runs the first of these, and reading data the others.
_RUN = ("__init__", "__getitem__", "__iter__")


class Project:
    """The functions and methods of some files, by name.

    Args:
        sources: the files.
        but: classes of which the methods are looked up in another way.
    """

    def __init__(self, sources: Iterable[bytes], but: Collection[str] = ()) -> None:
        #: Each with whether it is a method.
        self.functions: dict[str, list[tuple[_Function, bool]]] = defaultdict(list)
        self.modules: set[str] = set()
        self._homes: dict[_Function, ast.ClassDef] = {}
        self._classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self._changing: dict[str, _Given] = {}
        self._computing: dict[str, bool] = {}
        #: Whether each step mode of an LR scheduler is named, and none is left to the trial.
        self.knows_modes = True
        made_here: set[str] = set()
        for source in sources:
            tree = parsed(source)
            self.knows_modes &= _OPEN_MODES.search(source) is None
            classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
            methods = {id(line): node for node in classes for line in node.body}
            for each in classes:
                self._classes[each.name].append(each)
            for node in ast.walk(tree):
                if isinstance(node, _FUNCTIONS):
                    made = methods.get(id(node))
                    if made is not None:
                        self._homes[node] = made
                    if made is None or made.name not in but:
                        self.functions[node.name].append((node, made is not None))
                    if made is not None and node.name in _RUN:
                        self.functions[made.name].append((node, True))
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    names = (it.asname or it.name.partition(".")[0] for it in node.names)
                    self.modules.update(names)
            made_here |= variables_of(tree) | {node.name for node in classes}
        self.modules -= made_here

    def changes(self, name: str) -> _Given:
        """What a function of this name changes of what it is given."""
        if name not in self._changing:
            found = self._changing[name] = _Given()  # as far as it calls itself
            for function, is_method in self.functions.get(name, ()):
                given = [arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)]
                inside = _Traces()
                for _ in _Reader(function, self, {}, inside, given).followed():
                    pass
                own = set(given[:1]) if is_method else set()
                found.owner |= not own.isdisjoint(inside.roots)
                found.arguments |= not (inside.roots & {*given}) <= own
        return self._changing[name]

    def of_super(self, function: _Function, name: str) -> Iterator[_Function]:
        """What ``super()`` in a method may find under a name: a method of a base of its class.

        A class that has others beside it may come to one of these, and code that was not read
        to any.
        """
        home = self._homes.get(function)
        if home is None or any(
            len(each.bases) > 1 and home.name in map(_last_name, each.bases)
            for found in self._classes.values()
            for each in found
        ):
            return (each for each, _ in self.functions.get(name, ()))
        return self.of_classes(map(_last_name, home.bases), name)

    def of_classes(self, classes: Iterable[str], name: str) -> Iterator[_Function]:
        """The methods of a name that some classes, or their bases, have."""
        every = [*classes]
        for cls in every:
            found = (node for node in self._classes.get(cls, ()))
            bases = (_last_name(base) for node in found for base in node.bases)
            every += [base for base in bases if base not in every]
        for each, _ in self.functions.get(name, ()):
            if each in self._homes and self._homes[each].name in every:
                yield each

    def computes(self, name: str) -> bool:
        """Whether a function of this name makes anew all that it returns.

        It hands out nothing of what it is given, such as a parameter of a model.
        """
        if name not in self._computing:
            found = self.functions.get(name, ())
            self._computing[name] = bool(found) and not any(
                True for function, _ in found for _ in _handed_out(function)
            )
        return self._computing[name]


_OPEN_MODES = re.compile(rb"MANUAL_STEP|StepMode\s*(?!\.[A-Z])\W")
#: What a model is asked for its weights by.
_WEIGHTS = words("weight bias grad parameters named_parameters buffers named_buffers state_dict")
#: What no step changes.
_LOOKS = words("device dtype shape ndim training is_cuda")
_ADDING = words("append extend insert update setdefault add")
_KEEPING = (ast.Return, ast.Yield, ast.Assign, ast.AnnAssign, ast.NamedExpr)


def _handed_out(function: _Function) -> Iterator[ast.AST]:
    """What a function may hand out of what it is given, itself or in something else."""
    given = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in _WEIGHTS:
            yield node
        values = [node.value] if isinstance(node, _KEEPING) and node.value is not None else []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _ADDING:
            values = [*node.args, *(each.value for each in node.keywords)]
        for value in values:
            leaves = (leaf for leaf in _leaves(value) if getattr(leaf, "attr", "") not in _LOOKS)
            yield from (leaf for leaf in leaves if _root(leaf) in given)


def _leaves(node: ast.AST) -> Iterator[ast.AST]:
    """What a value is, or has in it: a call or a sum is something new."""
    if isinstance(
        node, (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.IfExp, ast.BoolOp, ast.Starred)
    ):
        for child in ast.iter_child_nodes(node):
            yield from _leaves(child)
    else:
        yield node


def _last_name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@dataclass
class _Given:
    """Whether a function changes the object that it is a method of, and what else it is given."""

    owner: bool = False
    arguments: bool = False


def needs_training_loader(own: Mapping[str, cst.FunctionDef], project: Project) -> bool:
    """Whether a validation needs what making the training loader has left behind.

    Args:
        own: the methods of a trial.
        project: the code that these call.
    """
    found = ((name, parsed(syntax.code(method).strip()).body) for name, method in own.items())
    methods = {name: one for name, (one, *_) in found if isinstance(one, _FUNCTIONS)}
    leave_out_shared(methods)
    _leave_out_set_anew(project, methods)
    late = _traces(project, methods, [_TRAINING_LOADER]).changed
    # The loader of validations is made once: what it has read then is never read again.
    validating = reading_own(methods, _VALIDATION_LOADER)
    if late & _traces(project, validating, [_VALIDATION_LOADER]).read:
        return True
    # Callbacks have hooks of their own, and ask the trial for what it has.
    hooks = (f for name in VALIDATING for f, is_method in project.functions[name] if is_method)
    read = _traces(project, methods, VALIDATING, [*hooks]).read
    # What __init__ has made may be what the loader asks, but not where the loader makes it anew.
    return bool((late - (attributes_made(own, "__init__") - _made_anew(own))) & read)


def _made_anew(own: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The attributes that only making the training loader sets, by methods of its own."""
    names = {*reachable(own, _TRAINING_LOADER)} - {*reachable(own, "__init__")}
    return attributes_made({name: own[name] for name in names}, _TRAINING_LOADER)


def _leave_out_set_anew(project: Project, own: Mapping[str, _Function]) -> None:
    """Take away the calls that both loaders begin with, and that set the same whenever they are."""
    if not {_TRAINING_LOADER, _VALIDATION_LOADER} <= own.keys():
        return
    training, validation = (own[name] for name in (_TRAINING_LOADER, _VALIDATION_LOADER))
    at, start = (ast.get_docstring(each) is not None for each in (training, validation))
    for line in validation.body[start:]:
        shared = [*map(ast.dump, training.body[at : at + 1])]
        if [ast.dump(line)] != shared or not _sets_anew(line, project, own):
            return
        del training.body[at]


def _sets_anew(line: ast.stmt, project: Project, own: Mapping[str, _Function]) -> bool:
    """Whether a statement calls what sets some attributes, whatever these were before."""
    call = line.value if isinstance(line, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    given = [*call.args, *(each.value for each in call.keywords)]
    called = [function for function, _ in project.functions.get(call.func.attr, ())]
    called += [own[call.func.attr]] if call.func.attr in own else []
    if not called or not all(isinstance(value, ast.Constant) for value in given):
        return False
    for function in called:
        found = _traces(project, {**own, function.name: function}, [function.name])
        nodes = [*ast.walk(function)]
        calls = (node.func for node in nodes if isinstance(node, ast.Call))
        inner = (getattr(func, "attr", getattr(func, "id", "")) for func in calls)
        is_adding = any(isinstance(node, ast.AugAssign) for node in nodes)
        if is_adding or any(project.changes(name).owner for name in inner):
            return False
        if not found.changed.isdisjoint(found.read):
            return False
    return True


@dataclass
class _Traces:
    """The names of attributes and variables that some code changes, and that it reads.

    ``roots`` are the variables in front of what it changes.
    """

    changed: set[str] = field(default_factory=set)
    roots: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)


def _traces(
    project: Project,
    own: Mapping[str, _Function],
    starts: Iterable[str],
    others: Iterable[_Function] = (),
) -> _Traces:
    found = _Traces()
    waiting = [*(own[name] for name in starts if name in own), *others]
    seen = {*map(id, waiting)}
    for function in waiting:
        for more in _Reader(function, project, own, found).followed():
            if id(more) not in seen:
                seen.add(id(more))
                waiting.append(more)
    return found


class _Reader:
    """Reads a function for ``_traces``."""

    def __init__(
        self,
        function: _Function,
        project: Project,
        own: Mapping[str, _Function],
        found: _Traces,
        watched: Collection[str] = (),
    ) -> None:
        self._project, self._own, self._found = project, own, found
        self._function = function
        given = [*function.args.posonlyargs, *function.args.args]
        self._nodes = [*ast.walk(function)]
        names = (n for n in self._nodes if isinstance(n, ast.Name))
        shared = {
            name
            for n in self._nodes
            if isinstance(n, (ast.Global, ast.Nonlocal))
            for name in n.names
        }
        self._found.changed |= shared
        # What the first parameter stands for is an object, or a class, of which parts are known.
        first = {arg.arg for arg in given[:1]} - {*watched}
        local = {n.arg for n in self._nodes if isinstance(n, ast.arg)} - first
        self._first = first
        self._local = (local | {n.id for n in names if isinstance(n.ctx, ast.Store)}) - shared
        self._local |= {n.name for n in self._nodes if isinstance(n, _FUNCTIONS)} - {function.name}
        self._local -= {*watched}
        self._is_watched = bool(watched)
        # What others do with their own object counts where they are called.
        self._ignores_first = own.get(function.name) is not function

    def followed(self) -> Iterator[_Function]:
        """Note what this function changes and reads; gives what it calls, or may."""
        for node in self._nodes:
            if isinstance(node, (ast.Attribute, ast.Subscript)):
                if not isinstance(node.ctx, ast.Load):
                    self._change(node)
            elif isinstance(node, ast.AugAssign) and not is_text(node.value):
                self._change(node.target)
            elif isinstance(node, ast.Call):
                self._call(node)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._found.read.add(node.attr)
                of_own = isinstance(node.value, ast.Name) and node.value.id in self._first
                if of_own and node.attr in self._own:
                    yield self._own[node.attr]
                elif _is_super(node.value):
                    yield from self._project.of_super(self._function, node.attr)
                elif node.attr == "__init__" and _last_name(node.value)[:1].isupper():
                    yield from self._project.of_classes([_last_name(node.value)], node.attr)
                else:
                    yield from self._defined(node.attr)
            elif isinstance(node, ast.Name) and node.id not in self._local:
                self._found.read.add(node.id)
                yield from self._defined(node.id)

    def _defined(self, name: str) -> Iterator[_Function]:
        return (function for function, _ in self._project.functions.get(name, ()))

    def _change(self, node: ast.expr) -> None:
        """Note that an object changes, if it may be there when this function has returned."""
        names, root = self._names_of(node)
        if self._is_own_matter(root):
            return
        if root in self._local:
            parts = [self._names_of(value) for value in self._values(root)]
            parts = [each for each in parts if not self._is_own_matter(each[1])]
            names = {name for found, _ in parts for name in found}
            self._found.roots |= {of_part for _, of_part in parts}
        self._found.roots.add(root)
        self._found.changed |= names - self._first

    def _is_own_matter(self, root: str) -> bool:
        return root in self._first and self._ignores_first

    def _names_of(self, node: ast.expr) -> tuple[set[str], str]:
        """The parts of ``a.b[c].d()``, and the first of them, which is no part if it is local."""
        names = set[str]()
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            names |= {node.attr} if isinstance(node, ast.Attribute) else set()
            node = node.func if isinstance(node, ast.Call) else node.value
        root = node.id if isinstance(node, ast.Name) else ""
        return names | ({root} - self._local - self._project.modules - {""}), root

    def _values(self, name: str) -> Iterator[ast.expr]:
        """What a variable is set to that may be a part of something else."""
        lines = (node for node in self._nodes if isinstance(node, ast.Assign))
        for line in lines:
            is_part = isinstance(line.value, (ast.Attribute, ast.Subscript))
            if is_part and name in {getattr(target, "id", "") for target in line.targets}:
                yield line.value

    def _call(self, call: ast.Call) -> None:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        changed = [it.value for it in call.keywords if it.arg in _KEYWORDS]
        of_module = self._names_of(call.func)[1] in self._project.modules
        is_in_place = name in _CHANGING or (of_module and _is_in_place(name))
        if is_in_place or self._project.changes(name).arguments:
            changed += [*call.args, *(it.value for it in call.keywords)]
        if isinstance(call.func, ast.Attribute) and self._changes_owner(call.func):
            changed.append(call.func.value)
        for each in changed:
            if isinstance(each, (ast.Attribute, ast.Subscript, ast.Name)):
                self._change(each)

    def _changes_owner(self, func: ast.Attribute) -> bool:
        """Whether a method may change the object that it is called on."""
        owner, name = func.value, func.attr
        if isinstance(owner, ast.Name) and owner.id in self._first and name in self._own:
            return False
        of_module = self._names_of(owner)[1] in self._project.modules
        # ``torch.nn.init.normal_`` is a function, and changes what it is given.
        if name in _MUTATING or (_is_in_place(name) and not of_module):
            return True
        if name in self._project.functions:
            return self._project.changes(name).owner
        is_getter = re.match("get(_|[A-Z])", name) and "next" not in name.lower()
        is_reading = name in _READING or is_getter
        return not (self._is_watched or is_reading or of_module)


def _is_super(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return is_call and ast.unparse(node).startswith("super(")


def _is_in_place(name: str) -> bool:
    """Whether a tensor's method, or a function, has the name of those that change a tensor."""
    return name.endswith("_") and not name.startswith("_")
