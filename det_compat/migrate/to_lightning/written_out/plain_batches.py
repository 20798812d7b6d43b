"""Batch samplers of torch's own class, of which Lightning keeps no size in several processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.written_out.samplers import ADAPTED, LEFT_TO_LIGHTNING
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import values_set


def without_plain_batches(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Loaders with a size of batches where they have a batch sampler of torch's own class.

    It is the same on one device, and Lightning (2.6.6) makes batches of one of it on several. Where
    data are shared out already, the batch sampler stays, in one that Lightning leaves alone.
    """
    if not any(map(_is_batches, syntax.find(tree, cst.Arg))):
        return tree

    def is_plain(node: cst.CSTNode | None) -> bool:
        func = syntax.code(node.func) if isinstance(node, cst.Call) else ""
        paths = file.elsewhere.imported.get(func.partition(".")[0], frozenset())
        is_torchs = all(path.startswith("torch") for path in paths)
        is_one = func.rpartition(".")[2] == "BatchSampler" and func not in file.elsewhere.texts
        return is_one and is_torchs

    def inlined(function: cst.FunctionDef) -> cst.FunctionDef:
        names = Counter(name.value for name in syntax.find(function, cst.Name))
        # What an argument is called is no variable.
        args = syntax.find(function, cst.Arg)
        names.subtract(arg.keyword.value for arg in args if arg.keyword is not None)
        if _shares_out(function, file.symbols):
            made = {syntax.code(to) for to, value in values_set(function) if is_plain(value)}
            return syntax.each(function, cst.Arg, partial(kept, made))
        return syntax.each(function, cst.IndentedBlock, partial(in_block, names))

    def kept(made: Collection[str], arg: cst.Arg) -> cst.Arg:
        if not _is_batches(arg) or not (is_plain(arg.value) or syntax.code(arg.value) in made):
            return arg
        return arg.with_changes(value=cst.Call(cst.Name(ADAPTED), [cst.Arg(arg.value)]))

    def in_block(names: Mapping[str, int], block: cst.IndentedBlock) -> cst.IndentedBlock:
        lines = [*block.body]
        for line in block.body:
            made, name = syntax.call_of(line), syntax.target_of(line)
            if made is None or name is None or names[name] != 2 or not is_plain(made):
                continue
            at = lines.index(line)
            if (used := _use(name, made, lines[at + 1 :])) is not None:
                given = syntax.each(used, cst.Arg, partial(_given, name, made))
                lines[lines.index(used)] = above(given, getattr(line, "leading_lines", ()))
                del lines[at]
        return block if len(lines) == len(block.body) else block.with_changes(body=lines)

    def sized(call: cst.Call) -> cst.Call:
        at = next((i for i, arg in enumerate(call.args) if _is_batches(arg)), None)
        made = call.args[at].value if at is not None else None
        if not at or not isinstance(made, cst.Call) or not is_plain(made):
            return call
        given = [syntax.argument(made, i, n) for i, n in enumerate(_BATCHES)]
        texts = [syntax.code(value) for value in given if value is not None]
        if len(texts) < len(given) or any(arg.star for arg in made.args):
            return call
        sampler, size, is_short = texts
        data = syntax.argument(call, 0, "dataset")
        whole = data is not None and f"SequentialSampler({syntax.code(data)})"
        new = [f"batch_size={size}"]
        is_whole = whole and sampler.endswith(whole)
        new += [] if is_whole else [f"sampler={sampler}"]
        new += [] if is_short == "False" else [f"drop_last={is_short}"]
        args = ensure_type(syntax.expression(f"f({', '.join(new)})"), cst.Call).args
        # The others go to lines of their own where the arguments do.
        between = call.args[at - 1].comma
        *others, last = args
        others = [arg.with_changes(comma=between) for arg in others]
        first = [*call.args[:at], *others]
        last = last.with_changes(comma=call.args[at].comma)
        return call.with_changes(args=[*first, last, *call.args[at + 1 :]])

    return syntax.each(syntax.each(tree, cst.FunctionDef, inlined), cst.Call, sized)


_BATCHES = ("sampler", "batch_size", "drop_last")
_RANKS = ("distributed.rank", "distributed.get_rank")


def _shares_out(function: cst.FunctionDef, symbols: Symbols) -> bool:
    """Whether a function shares its data out itself, and not by what is left to Lightning."""
    members = map(symbols.member, syntax.find(function, cst.Attribute))
    is_ranked = any(member is not None and member[1] in _RANKS for member in members)
    paths = {symbols.path(call.func) for call in syntax.find(function, cst.Call)}
    return is_ranked and paths.isdisjoint(LEFT_TO_LIGHTNING)


def _is_batches(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "batch_sampler"


def _given(name: str, made: cst.Call, arg: cst.Arg) -> cst.Arg:
    is_it = _is_batches(arg) and syntax.is_name(arg.value, name)
    return arg.with_changes(value=made) if is_it else arg


def _use(
    name: str, made: cst.Call, rest: Sequence[cst.BaseStatement]
) -> cst.SimpleStatementLine | None:
    """The statement that gives a loader what is made, if that is the same there."""
    for line in rest:
        args = [arg for arg in syntax.find(line, cst.Arg) if _is_batches(arg)]
        if any(syntax.is_name(arg.value, name) for arg in args):
            return line if isinstance(line, cst.SimpleStatementLine) else None
        set_to = (syntax.code(target).partition(".")[0] for target, _ in values_set(line))
        if not syntax.names_in(made).isdisjoint(set_to):
            return None
    return None
