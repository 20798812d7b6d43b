"""Walking through the code of one function, and noting what it does."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

import libcst as cst

from det_compat.migrate.to_lightning.moving import known
from det_compat.migrate.to_lightning.moving.effects import ANYTHING, Effects
from det_compat.migrate.to_lightning.moving.names import Names, Scope, targets
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.walking import below, children

if TYPE_CHECKING:
    from det_compat.migrate.to_lightning.moving.reading import Reader


class Walk(Names):
    """Notes what some code of a function does."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        super().__init__(reader, scope)
        #: where the trial itself is given to what can be read
        self._given: set[cst.CSTNode] = set()
        #: the trial's methods that a call is given, each with all else that it is given
        self._beside: dict[cst.CSTNode, set[str]] = {}

    def go(self, node: cst.CSTNode) -> None:
        """Note what a statement or an expression does."""
        if isinstance(node, _UNREADABLE):
            self.found.may_do_anything()
            return
        if isinstance(node, (cst.Import, cst.ImportFrom, cst.Annotation)):
            return
        for target in targets(node):
            for part in syntax.parts(target):
                self._set(part, node)
        if isinstance(node, (cst.Assign, cst.AnnAssign, cst.NamedExpr)) and node.value is not None:
            self._link(node)
        elif isinstance(node, (cst.For, cst.CompFor)):
            for part in syntax.parts(node.target):
                self._join(part, self.parts_of(node.iter))
        elif isinstance(node, cst.With):
            for item in node.items:
                if not isinstance(item.item, cst.Call) or not self.path(item.item.func):
                    # What is entered and left may change what it has.
                    self.found.below |= self.parts_of(item.item)
                if item.asname is not None:
                    self._join(item.asname.name, self.parts_of(item.item))
        elif isinstance(node, cst.Call):
            self._call(node)
        elif isinstance(node, cst.Attribute):
            self._ask(node)
        elif isinstance(node, cst.Name):
            self._name(node)
        if isinstance(node, (cst.Attribute, cst.Arg)):
            self.go(node.value)
        elif isinstance(node, cst.FunctionDef):
            names = syntax.names_in(node.body) & {*self.scope.names, self.scope.me}
            roots = {"self" if n == self.scope.me else f"{n}{self.scope.tag}" for n in names}
            self.found.same |= {(f"{node.name.value}{self.scope.tag}", each) for each in roots}
            for inner in (node.params, node.body, *node.decorators):
                self.go(inner)
        elif isinstance(node, cst.Param):
            if node.default is not None:
                self.go(node.default)
        else:
            for child in children(node):
                self.go(child)

    def _set(self, target: cst.BaseExpression, node: cst.CSTNode) -> None:
        """Note that something gets another value."""
        if isinstance(target, cst.StarredElement):
            target = target.value
        if isinstance(target, cst.Name):
            self.found.bound.add(f"{target.value}{self.scope.tag}")
        elif isinstance(target, (cst.List, cst.Tuple)):
            for each in target.elements:
                self._set(each.value, node)
        elif isinstance(target, (cst.Attribute, cst.Subscript)):
            is_own = isinstance(target.value, cst.Name) and target.value.value == self.scope.me
            if is_own and self.scope.me and isinstance(target, cst.Attribute):
                name = target.attr.value
                if name in self.reader.own or name in known.WHOLE:
                    self.found.may_do_anything()
                self.found.bound.add(f"self.{name}")
            elif not _is_library_setting(self.path(target)):
                self._change(target.value)
        if isinstance(node, cst.AugAssign) and not isinstance(node.value, (cst.Integer, cst.Float)):
            # A list is the same one, and longer.
            self._change(target)

    def _change(self, node: cst.BaseExpression, *, is_deep: bool = False) -> None:
        """Note that something is changed."""
        one, held = self.value(node)
        root = self.root(node)
        is_whole = syntax.code(node) in (root.partition("@")[0], root) or not held | one
        if self.scope.me and root.startswith("self."):
            is_whole = syntax.code(node) == f"{self.scope.me}.{root.removeprefix('self.')}"
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)) and root:
            (self.found.changed if is_whole and not is_deep else self.found.below).add(root)
        elif isinstance(_owner(node), cst.Name):
            # Something of a file, of a class or of a library, which others have, too.
            self.found.below.add(ANYTHING)
        else:
            self.found.below |= one | (held if is_deep else set())

    def _link(self, node: cst.Assign | cst.AnnAssign | cst.NamedExpr) -> None:
        pairs = syntax.pairs(node) if isinstance(node, cst.Assign) else [(node.target, node.value)]
        for target, value in pairs:
            if value is None:
                continue
            one, held = self.value(value)
            root = self.root(target.value if isinstance(target, cst.StarredElement) else target)
            if root == "":
                continue
            if _is_iterator(value):
                self.found.once.add(root)
            is_part = isinstance(target, cst.Subscript) or (
                isinstance(target, cst.Attribute) and root != f"self.{target.attr.value}"
            )
            if is_part:
                self.found.holds |= {(root, each) for each in one | held}
            else:
                self.found.same |= {(root, each) for each in one}
                self.found.holds |= {(root, each) for each in held}

    def _join(self, target: cst.BaseExpression, names: set[str]) -> None:
        for part in syntax.parts(target):
            if root := self.root(part):
                self.found.same |= {(root, each) for each in names}

    def _name(self, node: cst.Name) -> None:
        if self.scope.me and node.value == self.scope.me:
            if node not in self._given:
                # What has the whole trial may ask it for anything.
                self.found.may_do_anything()
        elif root := self.known_name(node, node):
            self.found.read.add(root)

    def _ask(self, node: cst.Attribute) -> None:
        """Note what asking for an attribute does."""
        name, reader = node.attr.value, self.reader
        self.found.is_plain &= name not in known.LOOKS
        is_own = syntax.is_name(node.value, self.scope.me) and bool(self.scope.me)
        if is_own and name not in known.WHOLE:
            self._given.add(node.value)
            self.found.read.add(f"self.{name}")
            if name in reader.own:
                self.found.add(reader.of_method(name, [], {"*": self._beside.get(node, set())}))
            elif name in reader.others and not _is_literal(reader.others[name]):
                self.found.may_do_anything()
        elif name in reader.around.properties and not self.path(node):
            self.found.add(reader.of_object(name, [self.parts_of(node.value)], {}))

    def _call(self, call: cst.Call) -> None:
        symbols, func = self.reader.symbols, call.func
        if symbols.called(call) is not None:
            if symbols.method(call) == "configure_apex_amp":
                self._change_given(call)
            return
        if symbols.path(func) is not None:
            return
        self._hand_on(call)
        if isinstance(func, cst.Name):
            self._call_name(call, func.value)
        elif isinstance(func, cst.Attribute):
            self._call_attribute(call, func)
        elif isinstance(func, cst.Call) and syntax.is_name(func.func, "getattr") and func.args:
            path = self.path(func.args[0].value)
            self._library(call, f"{path}.Any" if path else "")
        else:
            self._unknown(call)

    def _unknown(self, call: cst.Call) -> None:
        """Note that a call may do anything with what it has."""
        given = set().union(*(self.parts_of(arg.value) for arg in call.args))
        self.found.may_call_anything(given | self.parts_of(call.func))

    def _call_name(self, call: cst.Call, name: str) -> None:
        scope, reader = self.scope, self.reader
        if name in scope.functions:
            self.found.add(reader.of_local(scope.functions[name], self))
        elif name in scope.names and name not in scope.imports:
            self._unknown(call)
        elif name in reader.around.texts:
            self._read_call(call, self.project_call(name, call))
        elif path := self.path(call.func):
            self._library(call, path)
        elif name in known.BUILTINS or _is_error(name):
            if name in ("getattr", "hasattr") and len(call.args) > 1:
                self._getattr(call)
        elif name in ("setattr", "delattr") and call.args:
            self._change(call.args[0].value)
        elif name in ("exec", "eval", "globals", "locals", "__import__"):
            self.found.may_do_anything()
        elif name == "next" and call.args:
            self._change(call.args[0].value)
        elif name == "super":
            pass
        elif name == "open":
            self.found.is_quiet = False
        else:
            self._unknown(call)

    def _getattr(self, call: cst.Call) -> None:
        name = call.args[1].value
        owner = call.args[0].value
        if isinstance(name, cst.SimpleString) and not self.path(owner):
            text = str(name.evaluated_value)
            self.go(cst.Attribute(owner, cst.Name(text)) if text.isidentifier() else name)
        elif not self.path(owner):
            self.found.is_quiet = False
            self._change(owner, is_deep=True)

    def _call_attribute(self, call: cst.Call, func: cst.Attribute) -> None:
        name, owner, reader = func.attr.value, func.value, self.reader
        if self.scope.me and syntax.is_name(owner, self.scope.me):
            if name in reader.own:
                self._read_call(call, self.own_call(name, call))
            else:
                self._unknown(call)
            return
        if isinstance(owner, cst.Call) and syntax.is_name(owner.func, "super"):
            self._super(call, name)
            return
        if path := self.path(func):
            self._library(call, path)
            return
        base: cst.BaseExpression = owner
        while isinstance(base, cst.Attribute):
            base = base.value
        is_module = isinstance(base, cst.Name) and not self.root(base)
        if is_module and isinstance(base, cst.Name) and not hasattr(builtins, base.value):
            if name in reader.around.texts:
                self._read_call(call, self.project_call(name, call))
            else:
                self._unknown(call)
            return
        self._method(call, name, owner)

    def _method(self, call: cst.Call, name: str, owner: cst.BaseExpression) -> None:
        """Note what a method of an object does."""
        reader, theirs = self.reader, self.parts_of(owner)
        if name in reader.around.classes_with:
            first, names = self.arguments(call)
            self._read_call(call, reader.of_object(name, [theirs, *first], names))
        given = set[str]().union(*(self.parts_of(arg.value) for arg in call.args))
        if name in known.READING:
            self.found.is_plain &= name not in known.LOOKS
        elif name in known.CHANGING:
            self._change(owner)
            self.found.holds |= {(one, each) for one in theirs for each in given}
        elif name in known.FILLING and not any(arg.keyword for arg in call.args[1:]):
            self.found.filled |= theirs
        elif name not in reader.around.classes_with:
            self.found.is_quiet = self.found.is_plain = False
            self.found.below |= theirs | given
            self._mix(theirs | given)

    def _super(self, call: cst.Call, name: str) -> None:
        """Note what a method of a base does; Determined's ``__init__`` does nothing to speak of."""
        if name != "__init__":
            self._unknown(call)
            self.found.below |= {"self"} if self.scope.me else set()
        elif not self.scope.me:
            # That of the bases of a class is read where an object of it is made.
            given, names = self.arguments(call)
            self._mix(set[str]().union(*given, *names.values()))

    def _library(self, call: cst.Call, path: str) -> None:
        """Note what a function or a class of a library does."""
        found, last = self.found, path.rpartition(".")[2]
        given = set().union(*(self.parts_of(arg.value) for arg in call.args))
        first = (path, path.partition(".")[0], ".".join(path.split(".")[:2]))
        if not path:
            self._unknown(call)
        elif path.startswith("torch.optim.") and last not in known.COPYING:
            pass
        elif last in known.MUTATING or any(
            a.keyword and a.keyword.value == "out" for a in call.args
        ):
            found.is_quiet = found.is_plain = False
            found.below |= given
        elif known.OPTIMIZERS & {*first} and (last[:1].isupper() or "sched" in last):
            found.is_plain = False
        elif path.startswith(known.QUIET):
            pass
        elif path.startswith("torch.nn.init.") or (last.endswith("_") and not last.startswith("_")):
            found.is_quiet = False
            found.filled |= self.parts_of(call.args[0].value) if call.args else set()
        else:
            found.is_quiet = found.is_plain = False
            is_torchs = path.count(".") == 1 and path.startswith("torch.") and last != "compile"
            is_made = last[:1].isupper() and path.startswith(_MAKING)
            if not (path.startswith(known.HARMLESS) or is_made or is_torchs):
                found.below |= given
                self._mix(given)

    def _read_call(self, call: cst.Call, effects: Effects) -> None:
        """Note what code does that is there to be read, and may have the trial itself."""
        self._given |= {arg.value for arg in call.args}
        if any(syntax.is_name(arg.value, self.scope.me) for arg in call.args):
            self.found.read.add("self")
        self.found.add(effects)
        self.found.is_plain = False

    def _hand_on(self, call: cst.Call) -> None:
        """Note what functions do that a call is given, with all else that it is given."""
        reader, func = self.reader, call.func
        every = set().union(*(self.parts_of(arg.value) for arg in call.args))
        every |= self.parts_of(func.value) if isinstance(func, cst.Attribute) else set()
        for arg in call.args:
            value = arg.value
            last = syntax.code(value).rpartition(".")[2]
            if isinstance(value, cst.Name) and value.value in self.scope.functions:
                self.found.add(reader.of_local(self.scope.functions[value.value], self))
                params = syntax.find(self.scope.functions[value.value].params, cst.Param)
                for param in params:
                    self.found.same |= {(f"{param.name.value}{self.scope.tag}", n) for n in every}
            elif isinstance(value, (cst.Name, cst.Attribute)) and not self.root(value):
                if last in reader.around.texts:
                    self.found.add(reader.of_project(last, [], {"*": every}))
            elif isinstance(value, cst.Attribute) and last in reader.around.classes_with:
                is_own = syntax.is_name(value.value, self.scope.me) and bool(self.scope.me)
                if is_own and last in reader.own:
                    self._beside[value] = every
                else:
                    self.found.add(reader.of_object(last, [], {"*": every}))
            elif isinstance(value, cst.Lambda):
                for param in syntax.find(value.params, cst.Param):
                    self.found.same |= {(f"{param.name.value}{self.scope.tag}", n) for n in every}

    def _change_given(self, call: cst.Call) -> None:
        for arg in call.args:
            self._change(arg.value, is_deep=True)

    def _mix(self, names: set[str]) -> None:
        """Note that some objects may have each other from now on."""
        self.found.holds |= {(a, b) for a in names for b in names if a != b}


_UNREADABLE = (cst.Global, cst.ClassDef, cst.Await, cst.Yield, cst.ImportStar, cst.Decorator)
#: The libraries whose classes change nothing that their objects are made of.
_MAKING = (
    "torch.", "torchvision.", "torchmetrics.", "torchaudio.", "sklearn.", "numpy.", "transformers.",
    "determined.", "pedl.",
    "datasets.", "pathlib.", "collections.", "argparse.", "types.", "attrdict.", "easydict.",
    "omegaconf.", "timm.", "pytorch_lightning.", "lightning.", "segmentation_models_pytorch.",
)  # fmt: skip


def _owner(node: cst.BaseExpression) -> cst.BaseExpression:
    """What an attribute, or what is in brackets, is asked of."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node


def _is_library_setting(path: str) -> bool:
    """Whether this is a setting of a library, which makes no optimizer another one."""
    return bool(path) and "optim" not in path and "scheduler" not in path


def _is_error(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _is_iterator(value: cst.BaseExpression) -> bool:
    last = syntax.code(value.func).rpartition(".")[2] if isinstance(value, cst.Call) else ""
    return last in known.ITERATORS or isinstance(value, cst.GeneratorExp)


def _is_literal(value: cst.BaseExpression) -> bool:
    """Whether a value is written out."""
    return not any(
        isinstance(n, (cst.Call, cst.Name, cst.Attribute, cst.Lambda)) for n in below(value)
    )
