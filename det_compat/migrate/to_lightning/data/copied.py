"""Data that training changes while the workers of a loader have copies of them.

Determined had one iterator over the training data, whose workers copied these once; Lightning makes
one for each epoch.
"""

from collections.abc import Iterator, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.data.loader_order import Project
from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable, values_set

#: The comment on what changes such data.
SAID = "# its workers start anew in each epoch now, and see this from the next one on"
_TRAINING = "build_training_data_loader"


def with_word_of_copies(
    node: cst.ClassDef, symbols: Symbols, texts: Mapping[str, str]
) -> cst.ClassDef:
    """A trial with comments where training changes data of which workers have copies.

    Args:
        node: the class.
        symbols: of its file.
        texts: the classes and functions that it may call, by name.
    """
    own = syntax.methods(node)
    making = [own[name] for name in reachable(own, _TRAINING)]
    data = {syntax.code(each) for method in making for each in _with_workers(method, symbols)}
    # An attribute is what the variable was that was kept in it, or has been read from it.
    for to, value in (pair for method in making for pair in values_set(method)):
        both = {syntax.code(to), syntax.code(value)}
        data |= set() if both.isdisjoint(data) else both
    before = {*reachable(own, "__init__", *NAMES)}
    data = {text.partition(".")[2] for text in data if text.startswith("self.")}
    if not data:
        return node

    def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        changes = any(_changes(call, data, texts, node) for call in syntax.find(line, cst.Call))
        return above(line, [cst.EmptyLine(comment=cst.Comment(SAID))]) if changes else line

    def in_method(method: cst.FunctionDef) -> cst.FunctionDef:
        is_late = method.name.value not in before
        return syntax.each(method, cst.SimpleStatementLine, said) if is_late else method

    return syntax.each(node, cst.FunctionDef, in_method)


def _with_workers(method: cst.FunctionDef, symbols: Symbols) -> Iterator[cst.BaseExpression]:
    """The data of the loaders that a method makes, whose workers start anew with each iterator."""
    for call in syntax.find(method, cst.Call):
        name = symbols.path(call.func) or syntax.code(call.func)
        if name.rpartition(".")[2] != "DataLoader":
            continue
        data, workers = syntax.argument(call, 0, "dataset"), syntax.argument(call, 5, "num_workers")
        stay = syntax.argument(call, 14, "persistent_workers")
        is_copied = workers is not None and syntax.code(workers) != "0"
        if data is not None and is_copied and (stay is None or syntax.code(stay) == "False"):
            yield data


def _changes(call: cst.Call, data: set[str], texts: Mapping[str, str], node: cst.ClassDef) -> bool:
    """Whether a call is that of a method of some data which changes them."""
    owner, _, name = syntax.code(call.func).rpartition(".")
    if owner.partition(".")[2] not in data:
        return False
    found = [text.encode() for text in texts.values() if f"def {name}(" in text]
    return Project(found, {node.name.value}).changes(name).owner
