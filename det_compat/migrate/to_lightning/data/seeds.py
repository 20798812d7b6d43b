"""Data that are split or ordered by random numbers, by the trial or by Lightning.

Determined gave each process of an experiment, and each run that goes on with one, the same seed,
and kept the order of what is not shuffled.
"""

import re
from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.metric_shapes import assigned
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable

_SAID = "# pl.seed_everything() first makes this the same in each process, and when a run goes on"
_DRAWING = re.compile(
    r"(?:.*\.)?(?:random_split|train_test_split|randperm|KFold|StratifiedKFold)"
    r"|(?:np|numpy)\.random\.(?:permutation|shuffle|choice)|random\.(?:shuffle|sample)"
)
#: The comment on a loader that keeps the order of its data on one device alone.
ORDER = "# Lightning shuffles this in several processes"
_WHOLE = (
    "# several processes need a batch sampler that shares out, and use_distributed_sampler=False"
)
_SEEDS = ("generator", "random_state")
_SEEDING = re.compile(r"seed_everything|manual_seed|random\.seed|set_\w*seed|seed_all")


def with_word_of_seeds(node: cst.ClassDef, symbols: Symbols) -> cst.ClassDef:
    """A trial with comments on what it, or Lightning, draws for its data."""
    own = syntax.methods(node)
    if (loader := own.get("build_training_data_loader")) is not None:
        node = syntax.with_node(node, loader, _ordered(loader, symbols))
        own = syntax.methods(node)
    if _SEEDING.search(syntax.code(node)):
        return node
    names = {*reachable(own, "__init__", *NAMES)}

    def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        draws = any(map(_draws, syntax.find(line, cst.Call)))
        return above(line, [cst.EmptyLine(comment=cst.Comment(_SAID))]) if draws else line

    def in_method(method: cst.FunctionDef) -> cst.FunctionDef:
        is_one = method.name.value in names
        return syntax.each(method, cst.SimpleStatementLine, said) if is_one else method

    return syntax.each(node, cst.FunctionDef, in_method)


def _draws(call: cst.Call) -> bool:
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    name = syntax.code(call.func)
    is_kept = name.endswith("KFold") and "shuffle" not in given
    return bool(_DRAWING.fullmatch(name)) and not given & {*_SEEDS} and not is_kept


def _ordered(loader: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """The method with a comment on a loader of which several processes get other batches."""

    known = assigned(loader)

    def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        calls = [*syntax.find(line, cst.Call)]
        comment = ORDER if any(_keeps_order(call, symbols) for call in calls) else ""
        comment = (
            _WHOLE if any(_has_own_batches(call, symbols, known) for call in calls) else comment
        )
        return above(line, [cst.EmptyLine(comment=cst.Comment(comment))]) if comment else line

    return syntax.each(loader, cst.SimpleStatementLine, said)


def _keeps_order(call: cst.Call, symbols: Symbols) -> bool:
    """Whether a call makes a loader that goes through its data from the first to the last."""
    if not _is_loader(call, symbols):
        return False
    shuffle, size = syntax.argument(call, 2, "shuffle"), syntax.argument(call, 1, "batch_size")
    is_off = shuffle is None or syntax.code(shuffle) == "False"
    drawn = syntax.argument(call, 3, "sampler") or syntax.argument(call, 4, "batch_sampler")
    return is_off and drawn is None and (size is None or syntax.code(size) != "None")


def _is_loader(call: cst.Call, symbols: Symbols) -> bool:
    name = symbols.path(call.func) or syntax.code(call.func)
    return name.rpartition(".")[2] == "DataLoader" and not any(arg.star for arg in call.args)


def _has_own_batches(
    call: cst.Call, symbols: Symbols, known: Mapping[str, cst.BaseExpression | None]
) -> bool:
    """Whether a call makes a loader of batches that Lightning knows no way to share out."""
    given = syntax.argument(call, 4, "batch_sampler") if _is_loader(call, symbols) else None
    given = known.get(syntax.code(given)) or given if given is not None else None
    made = given.func if isinstance(given, cst.Call) else None
    return made is not None and syntax.code(made).rpartition(".")[2] != "BatchSampler"
