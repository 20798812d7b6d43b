"""What scripts give the trials that they make."""

import ast
from collections.abc import Sequence
from typing import Any

from det_compat.analysis.expressions import called, last_name, literal, words
from det_compat.analysis.given.values import Given, Placed


class _NotWritten(Exception):
    """A value is not in the text of the script."""


def written_hparams(trees: Sequence[ast.Module], name: str) -> dict[str, Any] | None:
    """The hyperparameters of a class that a script which makes it has written down.

    They stand in ``pytorch.init(hparams=...)``, or beside the context: a dict that is written out,
    with variables and arguments of functions that are given once, and with the defaults of the
    script's options.

    Args:
        trees: all files.
        name: of the class.

    Returns:
        None where no script says all of them.
    """
    values = _Values(Given(trees))
    for call, scope in values.given.calls.get(name, ()):
        starts = [s for s in values.given.calls.get("init", ()) if values.given.are_near(s, scope)]
        made = [(k.value, at) for each, at in (*starts, (call, scope)) for k in _hparams(each)]
        made += [(call.args[1], scope)] if len(call.args) == 2 else []
        for placed in made:
            try:
                found = values.of(placed)
            except _NotWritten:
                continue
            if isinstance(found, dict):
                return found
    return None


def objects_given(given: Given, name: str, parameters: Sequence[str]) -> frozenset[str]:
    """The parameters of a class that get more than numbers, texts, and lists and dicts of these.

    They are what other functions return, or what is gone through in a loop, wherever the class is
    made, by whichever name; variables, attributes and the arguments of functions are followed.

    Args:
        given: what is made in all files.
        name: of the class.
        parameters: of its ``__init__``, without ``self``.
    """
    objects = _Objects(given)
    return frozenset(to for to, value in given.to(name, parameters) if objects.is_one(value))


def _hparams(call: ast.Call) -> list[ast.keyword]:
    return [keyword for keyword in call.keywords if keyword.arg == "hparams"]


class _Objects:
    """Which expressions are surely objects of a class or a library, or have some in them."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._open = set[object]()

    def is_one(self, placed: Placed | None) -> bool:
        """Whether an expression is one."""
        if placed is None:
            return False
        node, scope = placed
        if isinstance(node, ast.Name):
            put = self._given.put_in(node.id, scope)
            made = self._given.of(node.id, scope)
            return self._are_some((scope, node.id), made) or any(map(self.is_one, put))
        if isinstance(node, ast.Attribute):
            return self._are_some(node, self._given.of_own(node, scope))
        if isinstance(node, ast.Lambda):
            return True
        if isinstance(node, ast.Call):
            name = called(node)
            if name in self._given.returned:
                return self._are_some(name, self._given.returned[name])
            return not _is_plain(node)
        parts: Sequence[ast.expr | None] = ()
        if isinstance(node, (ast.Subscript, ast.DictComp)):
            parts = [node.value]
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            parts = [node.elt]
        elif isinstance(node, ast.Dict):
            parts = node.values
        elif isinstance(node, (ast.List, ast.Tuple)):
            parts = node.elts
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        return any(self.is_one((part, scope)) for part in parts if part is not None)

    def _are_some(self, key: object, made: Sequence[Placed | None]) -> bool:
        """Whether all that a name may stand for are such objects."""
        if key in self._open or not made:
            return False
        self._open.add(key)
        try:
            return all(map(self.is_one, made))
        finally:
            self._open.discard(key)


def _is_plain(node: ast.Call) -> bool:
    """Whether a call returns numbers, texts, and lists and dicts of these."""
    name = called(node)
    if name.endswith(("load", "loads")):
        return isinstance(node.func, ast.Attribute) and last_name(node.func.value) in _FORMATS
    # Texts are split at a text, and data by other data.
    of_text = name == "split" and all(isinstance(each, ast.Constant) for each in node.args)
    return of_text or name in _PLAIN


#: What reads such values from a file.
_FORMATS = words("json yaml toml tomllib")
#: What does, whatever it belongs to.
_PLAIN = words(
    "int float str bool len dict list tuple vars min max sum round abs range sorted "
    "read_text get items keys values copy deepcopy getenv "
    "get_hparams get_hparam strip lower join format item tolist"
)


class _Values:
    """The values of expressions that are written out.

    Attributes:
        given: what variables may be.
    """

    def __init__(self, given: Given) -> None:
        self.given = given
        self._open = set[tuple[ast.AST, str]]()

    def of(self, placed: Placed) -> Any:
        """The value of an expression.

        Raises:
            _NotWritten: it is not in the text.
        """
        node, scope = placed
        if isinstance(node, ast.Name):
            return self._of_variable(node.id, scope)
        if isinstance(node, ast.Attribute) and self._is_parsed(node.value, scope):
            return self._of_option(node.attr, scope)
        if isinstance(node, ast.Call):
            return self._of_call(node, scope)
        if isinstance(node, ast.Dict):
            return self._of_dict(node, scope)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.of((each, scope)) for each in node.elts]
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise _NotWritten from None

    def _of_dict(self, node: ast.Dict, scope: ast.AST) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found |= self._dict(value, scope)
            else:
                found[self.of((key, scope))] = self.of((value, scope))
        return found

    def _dict(self, node: ast.expr, scope: ast.AST) -> dict[Any, Any]:
        found = self.of((node, scope))
        if not isinstance(found, dict):
            raise _NotWritten
        return found

    def _of_call(self, node: ast.Call, scope: ast.AST) -> Any:
        name = called(node)
        if name == "vars" and len(node.args) == 1 and self._is_parsed(node.args[0], scope):
            options = map(_option, self.given.of_file("add_argument", scope))
            return {option: self._of_option(option, scope) for option in options}
        if name in ("copy", "deepcopy") and isinstance(node.func, ast.Attribute):
            return self.of((node.args[0] if node.args else node.func.value, scope))
        if name != "dict" or len(node.args) > 1:
            raise _NotWritten
        found = {**self._dict(node.args[0], scope)} if node.args else {}
        for keyword in node.keywords:
            if keyword.arg:
                found[keyword.arg] = self.of((keyword.value, scope))
            else:
                found |= self._dict(keyword.value, scope)
        return found

    def _of_variable(self, name: str, scope: ast.AST) -> Any:
        made = self.given.of(name, scope)
        if len(made) != 1 or made[0] is None or (scope, name) in self._open:
            raise _NotWritten
        self._open.add((scope, name))
        try:
            return self.of(made[0])
        finally:
            self._open.discard((scope, name))

    def _is_parsed(self, node: ast.expr, scope: ast.AST) -> bool:
        """Whether an expression is what a script was told on its command line."""
        seen = set[tuple[ast.AST, str]]()
        # An argument of a function is what it was given.
        while isinstance(node, ast.Name):
            made, key = self.given.of(node.id, scope), (scope, node.id)
            if len(made) != 1 or made[0] is None or key in seen:
                return False
            seen.add(key)
            node, scope = made[0]
        return isinstance(node, ast.Call) and called(node) == "parse_args"

    def _of_option(self, name: str, scope: ast.AST) -> Any:
        calls = [c for c in self.given.of_file("add_argument", scope) if _option(c) == name]
        settings = {k.arg: k.value for call in calls for k in call.keywords}
        if "default" in settings:
            return self.of((settings["default"], scope))
        action = literal(settings["action"]) if "action" in settings else None
        if action not in ("store_true", "store_false"):
            raise _NotWritten
        return action == "store_false"


def _option(call: ast.Call) -> str:
    """The name under which a script has an option."""
    for keyword in call.keywords:
        if keyword.arg == "dest":
            return literal(keyword.value) or ""
    names = [name for arg in call.args if (name := literal(arg))]
    long = [name for name in names if name.startswith("--")]
    return (long or names or [""])[0].lstrip("-").replace("-", "_")
