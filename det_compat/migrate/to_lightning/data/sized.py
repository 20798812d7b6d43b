"""Data that may say another number of themselves than they give when a loop goes through them.

Determined took a validation's batches until there were no more of them, and went on in the
training data where an epoch of that length ended. Lightning (2.6.6) asks a loader for its length
first: it takes no more batches than that, and validates after that many batches of training, which
an epoch that ends before does not reach.
"""

import ast
from collections.abc import Mapping

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
    known: dict[str, bool] = {}

    def is_doubtful(name: str) -> bool:
        if name not in known:
            text = texts.get(name, "")
            sized = text.startswith("class ") and "def __len__(" in text and "def __iter__(" in text
            known[name] = sized and may_differ(text)
        return known[name]

    def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        made = (syntax.code(call.func).rpartition(".")[2] for call in syntax.find(line, cst.Call))
        found = dict.fromkeys(name for name in made if is_doubtful(name))
        comments = [
            cst.EmptyLine(comment=cst.Comment(each.format(name)))
            for name in found
            for each in _SAID
        ]
        return above(line, comments)

    def in_method(method: cst.FunctionDef) -> cst.FunctionDef:
        is_one = method.name.value in names
        return syntax.each(method, cst.SimpleStatementLine, said) if is_one else method

    return syntax.each(node, cst.FunctionDef, in_method)


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
