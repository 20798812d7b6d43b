"""What a script gives the trial that it trains."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from det_compat.analysis.expressions import called, last_name, literal, walked, words


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


def objects_given(
    trees: Sequence[ast.Module], name: str, parameters: Sequence[str]
) -> frozenset[str]:
    """The parameters of a class that get more than numbers, texts, and lists and dicts of these.

    They are what other functions return, or what is gone through in a loop, wherever the class is
    made; variables and the arguments of functions are followed.

    Args:
        trees: all files.
        name: of the class.
        parameters: of its ``__init__``, without ``self``.
    """
    if not any(called(node) == name for tree in trees for node in _calls(walked(tree))):
        return frozenset()
    objects = _Objects(trees)
    given = [
        pair for call, scope in objects.calls[name] for pair in _given(call, parameters, scope)
    ]
    return frozenset(to for to, value in given if objects.is_one(value))


#: An expression, and the function or file that it stands in.
_Placed: TypeAlias = tuple[ast.expr, ast.AST]


def _calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (node for node in nodes if isinstance(node, ast.Call))


def _given(
    call: ast.Call, parameters: Sequence[str], scope: ast.AST
) -> Iterator[tuple[str, _Placed]]:
    for to, value in zip(parameters, call.args, strict=False):
        yield to, (value, scope)
    for keyword in call.keywords:
        if keyword.arg:
            yield keyword.arg, (keyword.value, scope)


def _own(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a function or file, without those of functions in it."""
    found = [*ast.iter_child_nodes(scope)]
    for node in found:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found.extend(ast.iter_child_nodes(node))
    return found


class _Objects:
    """Which expressions are surely objects of a class or a library."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.calls: dict[str, list[tuple[ast.Call, ast.AST]]] = {}
        self._made: dict[tuple[ast.AST, str], list[_Placed | None]] = {}
        self._returned: dict[str, list[_Placed | None]] = {}
        self._file: dict[ast.AST, ast.Module] = {}
        self._open = set[object]()
        for tree in trees:
            functions = [node for node in walked(tree) if isinstance(node, ast.FunctionDef)]
            for scope in (tree, *functions):
                self._file[scope] = tree
                for node in _own(scope):
                    self._read(node, scope)
        functions = [scope for scope in self._file if isinstance(scope, ast.FunctionDef)]
        for function in functions:
            names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
            for call, scope in self.calls.get(function.name, ()):
                for to, value in _given(call, names, scope):
                    self._made.setdefault((function, to), []).append(value)

    def _read(self, node: ast.AST, scope: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self.calls.setdefault(called(node), []).append((node, scope))
        elif isinstance(node, ast.Return) and isinstance(scope, ast.FunctionDef):
            value = None if node.value is None else (node.value, scope)
            self._returned.setdefault(scope.name, []).append(value)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._keep(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._keep(node.target, node.value, scope)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._keep_each(node.target, node.iter, scope)

    def _keep_each(self, target: ast.expr, values: ast.expr, scope: ast.AST) -> None:
        """Keep what a loop gives its variables."""
        name = called(values) if isinstance(values, ast.Call) else ""
        if name == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            assert isinstance(values, ast.Call)
            self._keep(target.elts[0], None, scope)
            if values.args:
                self._keep_each(target.elts[1], values.args[0], scope)
        else:
            self._keep(target, None if name in _COUNTING else values, scope)

    def _keep(self, target: ast.expr, value: ast.expr | None, scope: ast.AST) -> None:
        if isinstance(target, ast.Name):
            found = self._made.setdefault((scope, target.id), [])
            found.append(None if value is None else (value, scope))
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else ()
            same = len(values) == len(target.elts)
            for number, part in enumerate(target.elts):
                self._keep(part, values[number] if same else value, scope)

    def is_one(self, placed: _Placed | None) -> bool:
        """Whether an expression is one."""
        if placed is None:
            return False
        node, scope = placed
        if isinstance(node, ast.Name):
            made = self._made.get((scope, node.id))
            return self._are_some(
                (scope, node.id), made or self._made.get((self._file[scope], node.id), [])
            )
        if isinstance(node, ast.Call):
            name = called(node)
            if name in self._returned:
                return self._are_some(name, self._returned[name])
            return not _is_plain(node)
        if isinstance(node, ast.DictComp):
            return self.is_one((node.value, scope))
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self.is_one((node.elt, scope))
        return isinstance(node, ast.Subscript) and self.is_one((node.value, scope))

    def _are_some(self, key: object, made: Sequence[_Placed | None]) -> bool:
        """Whether all that a name may stand for are such objects."""
        if key in self._open or not made:
            return False
        self._open.add(key)
        try:
            return all(map(self.is_one, made))
        finally:
            self._open.discard(key)


#: What a loop goes through that is as plain as what it is given.
_COUNTING = words("range zip product combinations permutations items keys values")
#: What does, whatever it belongs to.
_PLAIN = words(
    "int float str bool len dict list tuple vars min max sum round abs range sorted "
    "read_text get items keys values copy deepcopy getenv "
    "get_hparams get_hparam strip lower join format item tolist"
)


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
