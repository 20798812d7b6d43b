"""What scripts ask a context for, once the trial that was made with it is trained: the module."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.scripts.one_place import has_name
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

#: What a module answers as its context did.
_ANSWERED = words(
    """
    get_hparam get_hparams get_global_batch_size distributed.get_rank distributed.rank
    distributed.get_local_rank distributed.local_rank distributed.get_size distributed.size
    """
)


def asking_trained(
    body: Sequence[cst.BaseStatement], context: str, trials: Collection[str], symbols: Symbols
) -> list[cst.BaseStatement]:
    """The statements below ``pytorch.init()`` which ask the trial that ``fit()`` has trained.

    Before that, a module does not know of its rank. What asks for something else asks the context.
    """
    trial, lines, is_trained = "", [*body], False
    for index, line in enumerate(body):
        func = syntax.code(getattr(syntax.call_of(line), "func", cst.Pass()))
        if func.rpartition(".")[2] in trials:
            trial = syntax.target_of(line) or ""
        if is_trained and trial.isidentifier():
            lines[index] = _asking(line, context, trial, symbols)
        is_trained = is_trained or func.endswith(".fit")
    return lines


def _asking(
    line: cst.BaseStatement, context: str, trial: str, symbols: Symbols
) -> cst.BaseStatement:
    def asked(node: cst.Attribute) -> cst.Attribute:
        member, name = symbols.member(node), node
        while isinstance(name.value, cst.Attribute):
            name = name.value
        symbol = symbols.get(name.value)
        if member is None or symbol is None or member[1] not in _ANSWERED:
            return node
        if not has_name(member[0], context, symbols):
            return node
        here = cst.Name(trial)
        made = symbols.add(replace(symbol, original=here, module=here))
        return node.with_deep_changes(name, value=made)

    return syntax.each(line, cst.Attribute, asked)
