"""Data that may say another number of themselves than they give when a loop goes through them.

Determined took a validation's batches until there were no more of them, and went on in the
training data where an epoch of that length ended. Lightning (2.6.6) asks a loader for its length
first: it takes no more batches than that, and validates after that many batches of training, which
an epoch that ends before does not reach.
"""

import ast
import re
from collections.abc import Iterator, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.to_lightning.written_out.samplers import CONTINUED, SHARED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import parsed
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.trial_attributes import reachable

_SAID = (
    "# Lightning goes by the __len__ of {}: an epoch leaves out what there is beyond that,",
    "# and with 0, or more than there are, it never validates",
)


def with_word_of_lengths(node: cst.ClassDef, texts: Mapping[str, str]) -> cst.ClassDef:
    """A module with comments on data of its loaders of which the length may be another one.

    Args:
        node: the class.
        texts: the classes that it may call, by name.
    """
    own = syntax.methods(node)
    # One that is the only batch of another loader is not asked for its length.
    starts = [name for name in NAMES.values() if name in own and _is_asked(own[name])]
    names = reachable(own, *starts)
    read = {syntax.code(each) for name in names for each in syntax.find(own[name], cst.Attribute)}
    doubtful: dict[str, list[str]] = {}

    def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        made = (syntax.code(call.func).rpartition(".")[2] for call in syntax.find(line, cst.Call))
        found = dict.fromkeys(
            each
            for name in made
            for each in doubtful.setdefault(name, [*_doubtful_of(name, texts)])
        )
        comments = [
            cst.EmptyLine(comment=cst.Comment(each.format(name)))
            for name in found
            for each in _SAID
        ]
        return above(line, comments)

    def kept(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        return said(line) if syntax.target_of(line) in read else line

    def in_method(method: cst.FunctionDef) -> cst.FunctionDef:
        is_one = method.name.value in names
        return syntax.each(method, cst.SimpleStatementLine, said if is_one else kept)

    return syntax.each(node, cst.FunctionDef, in_method)


def _doubtful_of(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    """The classes whose length may be another one of which a call of a name makes objects.

    A function makes what the functions that it calls make.
    """
    names = [name] if name in texts else []
    for each in names:
        tree = parsed(texts[each])
        if any(isinstance(line, ast.ClassDef) for line in tree.body):
            if _is_doubtful(texts[each]):
                yield each
            continue
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        called = (getattr(func, "attr", getattr(func, "id", "")) for func in calls)
        names += [more for more in called if more in texts and more not in names]


def _is_doubtful(text: str) -> bool:
    """Whether a class may give another number than it says, which may be that of rows."""
    if not {"__len__", "__iter__"} <= _methods(text)[1].keys():
        return False
    if not _gives_batches(text):
        return may_differ(text)
    return not _counts_batches(text) and (may_differ(text) or _returns_others(text))


def _gives_batches(text: str) -> bool:
    """Whether a class gives several rows at a time, as batch samplers do."""
    cls, own = _methods(text)
    values = {
        name: node.value
        for node in ast.walk(own["__iter__"])
        if isinstance(node, ast.Assign)
        for target in node.targets
        if (name := getattr(target, "id", ""))
    }
    given = [n.value for n in ast.walk(own["__iter__"]) if isinstance(n, ast.Yield)]
    given += [values[name] for each in given if (name := getattr(each, "id", "")) in values]
    names = [cls.name, *map(ast.unparse, cls.bases), *(getattr(n, "id", "") for n in given)]
    return any("batch" in name.lower() for name in names) or any(map(_is_several, given))


def _is_several(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "list"
    is_slice = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
    return is_slice or isinstance(node, (ast.List, ast.ListComp))


def _counts_batches(text: str) -> bool:
    """Whether a class says a number of batches: it divides, or asks what has them."""
    cls, own = _methods(text)
    values: dict[str, list[ast.AST]] = {name: [method] for name, method in own.items()}
    for node in ast.walk(cls):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else targets
        for target in targets:
            if isinstance(target, ast.Attribute):
                values.setdefault(target.attr, []).append(node)
    names = ["__len__"]
    for name in names:
        for node in (each for value in values.get(name, ()) for each in ast.walk(value)):
            if _is_divided(node):
                return True
            asked = getattr(node, "attr", getattr(node, "id", ""))
            if _OF_BATCHES.search(asked):
                return True
            if isinstance(node, ast.Attribute) and asked not in names:
                names.append(asked)
    return False


def _is_divided(node: ast.AST) -> bool:
    """Whether some number is divided, and not among processes alone."""
    if not isinstance(node, (ast.BinOp, ast.AugAssign)):
        return False
    by = node.right if isinstance(node, ast.BinOp) else node.value
    return isinstance(node.op, (ast.Div, ast.FloorDiv)) and not _SHARES.search(ast.unparse(by))


_SHARES = re.compile(r"world|replica|rank|shard|process|worker|slot", re.IGNORECASE)
_OF_BATCHES = re.compile(r"batch(?!_?size)|divmod", re.IGNORECASE)


def _returns_others(text: str) -> bool:
    """Whether ``__iter__`` hands out as a whole what ``__len__`` is not the length of."""
    _, own = _methods(text)
    returned = [n.value for n in ast.walk(own["__iter__"]) if isinstance(n, ast.Return) and n.value]
    values = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.walk(own["__iter__"])
        if isinstance(node, ast.Assign)
    }
    length = ast.unparse(own["__len__"])
    for value in returned:
        if "super()" in ast.unparse(value) or ast.unparse(value) == "self":
            # Its base, or ``__next__``, says what it gives.
            continue
        found = _length_of(value)
        found += [each for line in found for each in _length_of(values.get(line[4:-1], value))]
        if not any(each in length for each in found):
            return True
    return False


def _methods(text: str) -> tuple[ast.ClassDef, dict[str, ast.FunctionDef]]:
    cls = next(line for line in parsed(text).body if isinstance(line, ast.ClassDef))
    return cls, {line.name: line for line in cls.body if isinstance(line, ast.FunctionDef)}


def _is_asked(loader: cst.FunctionDef) -> bool:
    """Whether what a method hands out is left, or begun again, by its length."""
    calls = [*syntax.find(loader.body, cst.Call)]
    return not any(syntax.code(call.func) in (CONTINUED, SHARED) for call in calls) and not any(
        syntax.code(call.args[0].value).startswith("[")
        for call in calls
        if syntax.code(call.func).endswith("DataLoader") and len(call.args) == 2
    )


def may_differ(text: str) -> bool:
    """Whether what a class yields, one by one, is not seen to be as many as it says."""
    nodes = [line for line in parsed(text).body if isinstance(line, ast.ClassDef)]
    own = {n.name: n for node in nodes for n in node.body if isinstance(n, ast.FunctionDef)}
    if not {"__len__", "__iter__"} <= own.keys():
        return False
    iterating = own["__iter__"]
    yields = [n for n in ast.walk(iterating) if isinstance(n, (ast.Yield, ast.YieldFrom))]
    if not yields or "len(self)" in ast.unparse(iterating):
        # What is handed out as a whole has the length that its maker has thought of.
        return False
    said = [n.value for n in ast.walk(own["__len__"]) if isinstance(n, ast.Return)]
    length = ast.unparse(said[0]) if len(said) == 1 and said[0] is not None else ""
    return len(yields) > 1 or length not in _counts(iterating, yields[0])


def _counts(iterating: ast.FunctionDef, given: ast.Yield | ast.YieldFrom) -> list[str]:
    """How often a method yields, as the code of a length; nothing if that is not seen."""
    for line in iterating.body:
        if isinstance(line, ast.Expr) and line.value is given and isinstance(given, ast.YieldFrom):
            return _length_of(given.value)
        ends = (ast.Continue, ast.Break, ast.Return)
        if isinstance(line, ast.For) and isinstance(given, ast.Yield):
            is_each = any(isinstance(n, ast.Expr) and n.value is given for n in line.body)
            if is_each and not any(isinstance(n, ends) for n in ast.walk(line)):
                return _length_of(line.iter)
    return []


def _length_of(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Call) and len(node.args) == 1:
        inner, name = node.args[0], ast.unparse(node.func)
        if name == "range":
            return [ast.unparse(inner)]
        if name in ("enumerate", "iter", "reversed", "sorted", "tqdm"):
            return _length_of(inner)
    return [f"len({ast.unparse(node)})"]
