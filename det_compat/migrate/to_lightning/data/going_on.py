"""Loaders of training data that one iterator went through: of Lightning, each epoch asks for one.

A trial that said that it needs no reproducible data could hand out any loader, or any object with
batches. Determined (0.12.13 to 0.38.1) asked it for an iterator once, and an epoch was as many
batches as it has by its length. Data that never end, or keep something on themselves, would begin
again with each of Lightning's epochs. So it was with the batches of its own loaders, whose sampler
may say another number of them than it gives.
"""

import re
from collections.abc import Iterator, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.data.sized import may_differ
from det_compat.migrate.to_lightning.written_out.samplers import CONTINUED, SHARED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable, values_set

_LOADER = "build_training_data_loader"
_ENDLESS = re.compile(r"\b(?:cycle|count|repeat)\(")
_CALLED = re.compile(r"([^\W\d]\w*)\(")


def with_one_iterator(node: cst.ClassDef, symbols: Symbols, around: Elsewhere) -> cst.ClassDef:
    """A trial whose training data go on where an epoch has ended, where that is not the same.

    Args:
        node: the class.
        symbols: of its file.
        around: the code that it may call.
    """
    own = syntax.methods(node)
    if _LOADER not in own:
        return node
    methods = [own[name] for name in reachable(own, _LOADER)]
    calls = [call for method in methods for call in syntax.find(method, cst.Call)]
    determineds = [c for c in calls if (symbols.path(c.func) or "").endswith("DataLoader")]
    classes = [*_classes(own, methods, around.texts)]
    if determineds:
        # It began its sampler again within an epoch. Lightning has to see its loader, to share it
        # out, unless that has batches of its own, which Lightning shares out in no case.
        if any(syntax.argument(call, 4, "batch_sampler") is None for call in determineds):
            return node
        classes = [text for text in classes if "def __getitem__(" not in text]
    elif not _may_hand_out_any(node, around.texts):
        return node
    if not any(map(_goes_on, classes)):
        return node

    made = f"{CONTINUED}({{}})"
    if determineds:
        # It shared these out, and knew how many batches a run had trained that went on.
        me = f"{syntax.self_name(own[_LOADER])}.trainer"
        trained = f"{me}.fit_loop.total_batch_idx + 1"
        made = f"{SHARED}({{}}, {me}.global_rank, {me}.world_size, {trained})"
    for found in syntax.returns(own[_LOADER]):
        if found.value is not None:
            value = syntax.expression(made.format(syntax.code(found.value)))
            node = syntax.with_node(node, found.value, value)
    return node


def _may_hand_out_any(node: cst.ClassDef, texts: Mapping[str, str]) -> bool:
    """Whether a class, or one above it, says that its data need not be reproducible."""
    found = [syntax.code(node)]
    names = [syntax.code(base.value).rpartition(".")[2] for base in node.bases]
    for name in names:
        text = texts.get(name, "")
        found.append(text)
        head = text.partition(":")[0].partition("(")[2]
        names += [each for each in re.findall(r"\w+", head) if each not in names]
    return any("disable_dataset_reproducibility_checks" in text for text in found)


def _classes(
    own: Mapping[str, cst.FunctionDef],
    methods: list[cst.FunctionDef],
    texts: Mapping[str, str],
) -> Iterator[str]:
    """The project's classes that some methods may make objects of, and what these call."""
    codes = [syntax.code(method) for method in methods]
    read = {syntax.code(node) for each in methods for node in syntax.find(each, cst.Attribute)}
    pairs = [pair for method in own.values() for pair in values_set(method)]
    codes += [syntax.code(value) for target, value in pairs if syntax.code(target) in read]
    known = set[str]()
    for code in codes:
        names = {*_CALLED.findall(code)} & texts.keys() - known
        known |= names
        codes += [texts[name] for name in sorted(names)]
    return (texts[name] for name in sorted(known) if texts[name].startswith("class "))


def _goes_on(text: str) -> bool:
    """Whether a class may give more, or others, when a loop goes on than when it begins again."""
    if "def __iter__(" not in text or "def __len__(" not in text:
        return False
    return may_differ(text) or bool(_ENDLESS.search(text.partition("def __iter__(")[2]))
