"""Parameters of trials with the name of a hyperparameter, which a module has for something else."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import libcst as cst

from det_compat.analysis.expressions import last_name
from det_compat.analysis.given.again import classes_handing_on
from det_compat.analysis.scopes import Scope
from det_compat.migrate.configs import configs_of
from det_compat.migrate.target import Target
from det_compat.migrate.to_lightning.from_config.same_names import same_names
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols, new_name, resolve

#: How a docstring begins to speak of a parameter.
_SAID_OF = r"(?m)^(\s*(?::param\s+(?:\w+\s+)?)?){}(?=\s*[:(])"

_Documented = TypeVar("_Documented", cst.ClassDef, cst.FunctionDef)

#: An ``__init__`` that takes more than a context.
_TAKING = re.compile(rb"def __init__\(\s*self\s*,[^()]*,\s*\w")


class OwnParameters(Target):
    """Renames what a trial takes beside its context, where a hyperparameter of its name differs.

    Determined kept the two apart, and a module takes hyperparameters by their names.
    """

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether some trial may take more than a context."""
        return any(map(_TAKING.search, texts))

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has nothing to do with such a parameter."""
        names = {name: new for renamed in self._renamed.values() for name, new in renamed.items()}
        if not any(name.encode() in self.sources[path] for name in names):
            return None
        tree = cst.parse_module(self.sources[path])
        made = tree.visit(_Renaming(self._renamed, self._heirs)).bytes
        return None if made == self.sources[path] else made

    @cached_property
    def _trials(self) -> dict[Scope, tuple[Path, cst.ClassDef, Symbols]]:
        """The trial classes, if one of them takes what may have the name of a hyperparameter.

        Mixins that hand on what they do not name are among them.
        """
        facts = {path: self.analysis.facts(path) for path in self.sources}
        paths = {
            scope: path
            for path, each in facts.items()
            for scope in (each.classes.values() if each is not None else ())
            if each is not None and (each.is_trial(scope) or self._is_mixin(scope))
        }
        if not any(self._may_differ(scope, paths) for scope in paths):
            return {}
        found: dict[Scope, tuple[Path, cst.ClassDef, Symbols]] = {}
        for path in dict.fromkeys(paths.values()):
            known = facts[path]
            assert known is not None
            tree, symbols = resolve(self.sources[path], known)
            nodes = {node.name.value: node for node in syntax.find(tree, cst.ClassDef)}
            for scope in (each for each, at in paths.items() if at == path):
                if scope.name in nodes:
                    found[scope] = (path, nodes[scope.name], symbols)
        return found

    def _is_mixin(self, scope: Scope) -> bool:
        """Whether a class is no trial, and hands on what its ``__init__`` has no name for."""
        hierarchy = self.analysis.inference.hierarchy
        if hierarchy.is_trial(scope) or not any(map(_hands_on, getattr(scope.node, "body", ()))):
            return False
        return any(map(hierarchy.is_trial, hierarchy.relatives(scope)))

    def _may_differ(self, scope: Scope, paths: Mapping[Scope, Path]) -> bool:
        """Whether a class takes something by a name that stands for a hyperparameter, too."""
        names = {name for name in _parameters(scope.node) if "context" not in name}
        quoted = {f"{quote}{name}{quote}".encode() for name in names for quote in "\"'"}
        # This one is asked for by methods of its own.
        is_asked = any(each in text for text in self.sources.values() for each in quoted)
        if is_asked or "global_batch_size" in names:
            return True
        family = self.analysis.inference.hierarchy.relatives(scope) if names else ()
        known = ((paths[each], each.name) for each in family if each in paths)
        configs = (config for each in known for config in configs_of(*each))
        return any(not names.isdisjoint(config.hyperparameters.space) for config in configs)

    @cached_property
    def _heirs(self) -> dict[str, frozenset[str]]:
        """The names of the bases of each class that gets its parameters from one of them."""
        given = self.elsewhere.made
        found: dict[str, set[str]] = {}
        for name in self._renamed:
            for each in classes_handing_on(given, name):
                found.setdefault(each, set()).add(name)
        return {name: frozenset(bases) for name, bases in found.items()}

    @cached_property
    def _renamed(self) -> dict[str, dict[str, str]]:
        """The new names of the parameters of each class that has such ones."""
        hierarchy, given = self.analysis.inference.hierarchy, self.elsewhere.made
        found: dict[str, dict[str, str]] = {}
        for scope, (_, node, _) in self._trials.items():
            init = syntax.methods(node).get("__init__")
            least = 1 if self._is_mixin(scope) else 2
            if init is None or len([*_parameters(scope.node)]) < least:
                continue
            apart = same_names(scope, hierarchy, self._trials, given).apart
            names = {name for name in apart if _can_rename(init, name)}
            names -= self._given_otherwise(scope.name, names)
            if names:
                found[scope.name] = {name: new_name(name) for name in sorted(names)}
        return found

    def _given_otherwise(self, name: str, parameters: Collection[str]) -> set[str]:
        """The parameters that a class may get by what is no argument of a plain call."""
        given = self.elsewhere.made
        names = classes_handing_on(given, name)
        plain = set[int]()
        for calls in given.calls.values():
            for call, _ in calls:
                is_init = isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
                if is_init or last_name(call.func) in names:
                    plain.update(id(each) for each in call.args)
                    plain.update(id(each.value) for each in call.keywords if each.arg)
        placed = [pair for each in names for pair in given.to(each, [])]
        return {to for to, (value, _) in placed if to in parameters and id(value) not in plain}


def _hands_on(node: ast.AST) -> bool:
    is_init = isinstance(node, ast.FunctionDef) and node.name == "__init__"
    return isinstance(node, ast.FunctionDef) and is_init and node.args.kwarg is not None


def _parameters(node: ast.AST | None) -> Iterator[str]:
    """What ``__init__`` of a class takes, without ``self``."""
    for each in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            places = [arg.arg for arg in (*each.args.posonlyargs, *each.args.args)]
            yield from places[1:]
            yield from (arg.arg for arg in each.args.kwonlyargs)


def _can_rename(init: cst.FunctionDef, name: str) -> bool:
    """Whether a parameter is a variable of its function alone, and the new name is free."""
    names = syntax.names_in(init)
    params, loops = syntax.find(init.body, cst.Param), syntax.find(init.body, cst.CompFor)
    inner: list[cst.Param | cst.CompFor] = [*params, *loops]
    bound = {n for each in inner for n in _bound(each)}
    return name not in bound and names.isdisjoint({new_name(name), "locals", "vars"})


def _bound(node: cst.Param | cst.CompFor) -> set[str]:
    if isinstance(node, cst.Param):
        return {node.name.value}
    return {part.value for part in syntax.parts(node.target) if isinstance(part, cst.Name)}


class _Renaming(cst.CSTTransformer):
    """Renames parameters of classes, and the arguments by keyword that they are given.

    Args:
        renamed: the new names of the parameters of each class.
        heirs: the classes whose parameters each class takes as its own.
    """

    def __init__(
        self, renamed: Mapping[str, Mapping[str, str]], heirs: Mapping[str, frozenset[str]]
    ) -> None:
        super().__init__()
        self._renamed = renamed
        self._heirs = heirs
        self._classes: list[cst.ClassDef] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._classes.append(node)

    def leave_ClassDef(self, original: cst.ClassDef, updated: cst.ClassDef) -> cst.ClassDef:
        self._classes.pop()
        own = self._renamed.get(original.name.value)
        init = syntax.methods(updated).get("__init__")
        if own is None or init is None:
            return updated
        made = init.visit(_Variables(own))
        assert isinstance(made, cst.FunctionDef)
        return _with_docstring(syntax.with_node(updated, init, _with_docstring(made, own)), own)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        owner, _, last = syntax.code(original.func).rpartition(".")
        bases = set(self._heirs.get(last, ()))
        if last == "__init__" and self._classes and owner.startswith("super("):
            named = (syntax.code(base.value).rpartition(".")[2] for base in self._classes[-1].bases)
            bases = {each for name in named for each in self._heirs.get(name, ())}
        elif last == "__init__":
            bases = set(self._heirs.get(owner.rpartition(".")[2], ()))
        new = {old: to for base in bases for old, to in self._renamed[base].items()}
        args = [
            arg.with_changes(keyword=cst.Name(new[arg.keyword.value]))
            if arg.keyword is not None and arg.keyword.value in new
            else arg
            for arg in updated.args
        ]
        return updated.with_changes(args=args) if new else updated


def _with_docstring(node: _Documented, new: Mapping[str, str]) -> _Documented:
    """A class or method whose docstring says of parameters what they are called now."""
    body = [*syntax.body_of(node)]
    if not syntax.has_docstring(body):
        return node

    def renamed(text: cst.SimpleString) -> cst.SimpleString:
        value = text.value
        for old, name in new.items():
            value = re.sub(_SAID_OF.format(old), rf"\g<1>{name}", value)
        return text.with_changes(value=value)

    body[0] = syntax.each(body[0], cst.SimpleString, renamed)
    return syntax.with_body(node, body)


class _Variables(cst.CSTTransformer):
    """Renames variables of a function, and no attribute or argument by keyword."""

    def __init__(self, new: Mapping[str, str]) -> None:
        super().__init__()
        self._new = new
        self._kept = set[cst.CSTNode]()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._kept.add(node.attr)

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self._kept.add(node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        new = self._new.get(original_node.value)
        if new is None or original_node in self._kept:
            return updated_node
        return updated_node.with_changes(value=new)
