"""The hyperparameters that a script has written down for the trial that it trains."""

import ast
from collections.abc import Iterable
from typing import Any

from det_compat.analysis.expressions import called, literal, walked


class _NotWritten(Exception):
    """A value is not in the text of the script."""


def written_hparams(trees: Iterable[ast.Module], name: str) -> dict[str, Any] | None:
    """What the first of some scripts that makes a trial of a class gives it.

    It is what stands in ``pytorch.init(hparams=...)``, or beside the context: a dict that is
    written out, with variables that are set once, and with the defaults of the script's options.

    Args:
        trees: the scripts.
        name: of the class.

    Returns:
        None where no script says all of it.
    """
    for tree in trees:
        calls = [node for node in walked(tree) if isinstance(node, ast.Call)]
        made = [call for call in calls if called(call) == name]
        if not made:
            continue
        starts = [call for call in calls if called(call) == "init"]
        given = [k.value for call in (*starts, *made) for k in call.keywords if k.arg == "hparams"]
        given += [call.args[1] for call in made if len(call.args) == 2]
        values = _Values(calls, tree)
        for node in given:
            try:
                found = values.of(node)
            except _NotWritten:
                continue
            if isinstance(found, dict):
                return found
    return None


class _Values:
    def __init__(self, calls: list[ast.Call], tree: ast.Module) -> None:
        self._variables: dict[str, ast.expr | None] = {}
        for node in walked(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        again = target.id in self._variables
                        self._variables[target.id] = None if again else node.value
        self._options = {_option(call): call for call in calls if called(call) == "add_argument"}
        self._open: set[str] = set()

    def of(self, node: ast.expr) -> Any:
        """The value of an expression."""
        if isinstance(node, ast.Name):
            return self._of_variable(node.id)
        if isinstance(node, ast.Attribute) and self._is_parsed(node.value):
            return self._of_option(node.attr)
        if isinstance(node, ast.Call) and called(node) in ("dict", "vars"):
            return self._of_call(node)
        if isinstance(node, ast.Dict):
            return self._of_dict(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.of(each) for each in node.elts]
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise _NotWritten from None

    def _of_dict(self, node: ast.Dict) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            found |= {self.of(key): self.of(value)} if key is not None else self._dict(value)
        return found

    def _dict(self, node: ast.expr) -> dict[Any, Any]:
        found = self.of(node)
        if not isinstance(found, dict):
            raise _NotWritten
        return found

    def _of_call(self, node: ast.Call) -> dict[Any, Any]:
        if called(node) == "vars" and len(node.args) == 1 and self._is_parsed(node.args[0]):
            return {name: self._of_option(name) for name in self._options}
        if called(node) != "dict" or len(node.args) > 1:
            raise _NotWritten
        found = self._dict(node.args[0]) if node.args else {}
        for keyword in node.keywords:
            value = keyword.value
            found |= {keyword.arg: self.of(value)} if keyword.arg else self._dict(value)
        return found

    def _of_variable(self, name: str) -> Any:
        value = self._variables.get(name)
        if value is None or name in self._open:
            raise _NotWritten
        self._open.add(name)
        try:
            return self.of(value)
        finally:
            self._open.discard(name)

    def _is_parsed(self, node: ast.expr) -> bool:
        """Whether an expression is what a script was told on its command line."""
        if isinstance(node, ast.Name):
            node = self._variables.get(node.id) or node
        return isinstance(node, ast.Call) and called(node) == "parse_args"

    def _of_option(self, name: str) -> Any:
        call = self._options.get(name)
        settings = {k.arg: k.value for k in call.keywords} if call is not None else {}
        if "default" in settings:
            return self.of(settings["default"])
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
