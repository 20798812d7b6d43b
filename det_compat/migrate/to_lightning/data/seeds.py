"""Data that are split or ordered by random numbers, by the trial or by Lightning.

Determined gave each process of an experiment, and each run that goes on with one, the same seed,
and kept the order of what is not shuffled.
"""

import re
from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.to_lightning.data.shared_out import with_word_of_processes
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable

_SAID = "# pl.seed_everything() first makes this the same in each process, and when a run goes on"
_DRAWING = re.compile(
    r"(?:.*\.)?(?:random_split|train_test_split|randperm|KFold|StratifiedKFold)"
    r"|(?:np|numpy)\.random\.(?:permutation|shuffle|choice)|random\.(?:shuffle|sample)"
)
_SEEDS = ("generator", "random_state")
_SEEDING = re.compile(r"seed_everything|manual_seed|random\.seed|set_\w*seed|seed_all")


def with_word_of_seeds(
    node: cst.ClassDef, symbols: Symbols, texts: Mapping[str, str]
) -> cst.ClassDef:
    """A trial with comments on what it, or Lightning, draws for its data.

    Args:
        node: the class.
        symbols: of its file.
        texts: the classes and functions that it may call, by name.
    """
    node = with_word_of_processes(node, symbols, texts)
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
