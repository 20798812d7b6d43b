"""Loaders that Lightning shares out among several processes in another way than Determined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.written_out.samplers import ADAPTED, CONTINUED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable, values_set

#: The comment on a loader that keeps the order of its data on one device alone.
ORDER = "# Lightning shuffles this in several processes"
_WHOLE = (
    "# several processes need a batch sampler that shares out, and use_distributed_sampler=False"
)
#: The comment on a loader of torch's, all of which Determined gave each process.
_EACH = "# several processes share this out, unless pl.Trainer(use_distributed_sampler=False)"
_TRAINING, _VALIDATION = "build_training_data_loader", "build_validation_data_loader"
#: Data that are only iterated over, in any order of their own; Lightning takes them as they are.
_STREAMS = words("IterableDataset IterDataPipe ChainDataset WebDataset")
#: What shares out samples, which is left to Lightning, and batches, which is not.
_SHARED = tuple(f"det_compat.pytorch.samplers.Distributed{each}Sampler" for each in ("", "Batch"))
#: Samplers that Lightning's own may take the place of.
_PLAIN = words("RandomSampler SequentialSampler")


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
    return is_ranked and paths.isdisjoint(_SHARED)


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


def with_word_of_processes(
    node: cst.ClassDef, symbols: Symbols, texts: Mapping[str, str]
) -> cst.ClassDef:
    """A trial with comments on loaders of which several processes get other batches.

    Args:
        node: the class.
        symbols: of its file.
        texts: the classes and functions that it may call, by name.
    """
    own = syntax.methods(node)
    # A validation of a whole dataset gets a loader that Lightning does not look into.
    is_whole = "evaluate_full_dataset" in own
    starts: tuple[str, ...] = (_TRAINING,) if is_whole else (_TRAINING, _VALIDATION)
    # Nor does it look into this one.
    starts = starts[CONTINUED in syntax.code(own.get(_TRAINING, node)) :]
    names = [*dict.fromkeys(reachable(own, *starts))]
    known = _Loaders(own, [own[name] for name in names], symbols, texts)
    for name in names:
        node = syntax.with_node(node, own[name], known.commented(own[name]))
    return node


def _is_drawn(call: cst.Call, method: cst.FunctionDef) -> bool:
    """Whether a loader takes its order from something that it is given, and that is not None."""
    given = (syntax.argument(call, 3, "sampler"), syntax.argument(call, 4, "batch_sampler"))
    made = [*values_set(method)]
    for value in given:
        set_to = [v for to, v in made if value is not None and to.deep_equals(value)]
        if value is not None and any(syntax.code(v) != "None" for v in set_to or [value]):
            return True
    return False


class _Loaders:
    def __init__(
        self,
        own: Mapping[str, cst.FunctionDef],
        making: Sequence[cst.FunctionDef],
        symbols: Symbols,
        texts: Mapping[str, str],
    ) -> None:
        self._own, self._making, self._symbols, self._texts = own, making, symbols, texts
        pairs = [pair for method in own.values() for pair in values_set(method)]
        self._attributes = [pair for pair in pairs if isinstance(pair[0], cst.Attribute)]

    def commented(self, method: cst.FunctionDef) -> cst.FunctionDef:
        """The method with comments on the loaders that it hands out."""
        is_training = method.name.value in reachable(self._own, _TRAINING)

        def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
            calls = [call for call in syntax.find(line, cst.Call) if self._is_loader(call)]
            if not calls or not self._is_handed_out(line, method):
                return line
            if any(self._has_own_batches(call, method) for call in calls):
                comment = _WHOLE
            elif any(self._is_given_whole(call, method) for call in calls):
                comment = _EACH
            elif is_training and any(self._keeps_order(call, method) for call in calls):
                comment = ORDER
            else:
                return line
            return above(line, [cst.EmptyLine(comment=cst.Comment(comment))])

        return syntax.each(method, cst.SimpleStatementLine, said)

    def _is_handed_out(self, line: cst.SimpleStatementLine, method: cst.FunctionDef) -> bool:
        """Whether what a statement makes may be what Lightning gets."""
        targets = [syntax.code(target) for target, _ in values_set(line)]
        # An attribute may be what another method returns.
        is_kept = any("." in target for target in targets)
        methods = self._making if is_kept else [method]
        pairs = [pair for each in methods for pair in values_set(each)]
        found: list[cst.CSTNode] = [each for one in methods for each in syntax.returns(one)]
        seen = set[int]()
        for node in found:
            made = (v for to, v in pairs if syntax.mentions(node, syntax.code(to)))
            new = [value for value in made if id(value) not in seen]
            seen |= {*map(id, new)}
            found += new
        return not targets or any(syntax.mentions(n, target) for n in found for target in targets)

    def _is_loader(self, call: cst.Call) -> bool:
        name = self._symbols.path(call.func) or syntax.code(call.func)
        is_one = name.rpartition(".")[2] == "DataLoader"
        return is_one and not any(arg.star for arg in call.args)

    def _is_given_whole(self, call: cst.Call, method: cst.FunctionDef) -> bool:
        """Whether a call makes a loader of torch's that Lightning gives a sampler of its own."""
        data = [*self._values(syntax.argument(call, 0, "dataset"), method)]
        is_stream = bool(data) and all(map(self._is_stream, data))
        is_torchs = self._symbols.path(call.func) is None
        return is_torchs and not _is_drawn(call, method) and not is_stream

    def _keeps_order(self, call: cst.Call, method: cst.FunctionDef) -> bool:
        """Whether a call makes a loader that goes through its data in the order that it is told."""
        sampler = [*self._values(syntax.argument(call, 3, "sampler"), method)]
        if sampler and all(self._name(each) in self._texts for each in sampler):
            return self._symbols.path(call.func) is not None
        shuffle, size = syntax.argument(call, 2, "shuffle"), syntax.argument(call, 1, "batch_size")
        is_off = shuffle is None or syntax.code(shuffle) == "False"
        has_batches = size is None or syntax.code(size) != "None"
        data = [*self._values(syntax.argument(call, 0, "dataset"), method)]
        is_stream = bool(data) and all(map(self._is_stream, data))
        return is_off and not _is_drawn(call, method) and has_batches and not is_stream

    def _has_own_batches(self, call: cst.Call, method: cst.FunctionDef) -> bool:
        """Whether a call makes a loader of batches that Lightning knows no way to share out.

        It makes a batch sampler anew, with a sampler that shares out: one of a class that derives
        from torch's, takes a ``sampler`` and is made where the loader is. Of one of torch's own
        class it keeps no size.
        """
        return any(
            self._symbols.path(made.func) not in _SHARED
            and self._name(made) != ADAPTED
            and (
                (place := self._place_of_sampler(made)) is None
                or any(
                    self._name(each) not in _PLAIN
                    for each in self._values(syntax.argument(made, place, "sampler"), method)
                )
            )
            for made in self._values(syntax.argument(call, 4, "batch_sampler"), method)
        )

    def _place_of_sampler(self, made: cst.Call) -> int | None:
        """Which argument of a batch sampler Lightning replaces; None if there is no such one."""
        name = self._name(made)
        is_here = any(made in syntax.find(method, cst.Call) for method in self._making)
        body = syntax.looked_at(self._texts[name]).body if name in self._texts else ()
        node = next((line for line in body if isinstance(line, cst.ClassDef)), None)
        if node is None or not is_here:
            return None
        bases = {syntax.code(base.value).rpartition(".")[2] for base in node.bases}
        init = syntax.methods(node).get("__init__")
        params = [each.name.value for each in init.params.params[1:]] if init else ["sampler"]
        return params.index("sampler") if "BatchSampler" in bases and "sampler" in params else None

    def _name(self, call: cst.Call) -> str:
        path = self._symbols.path(call.func) or syntax.code(call.func)
        return path.rpartition(".")[2]

    def _values(
        self, value: cst.BaseExpression | None, method: cst.FunctionDef
    ) -> Iterator[cst.Call]:
        """The calls that make a value, those of methods of the trial followed."""
        found: list[tuple[cst.BaseExpression, cst.FunctionDef]] = []
        found += [(value, method)] if value is not None else []
        seen = set[str]()
        for each, where in found:
            if isinstance(each, cst.IfExp):
                found += [(each.body, where), (each.orelse, where)]
            elif isinstance(each, (cst.Name, cst.Attribute)):
                code = syntax.code(each)
                pairs = self._attributes if "." in code else [*values_set(where)]
                if code not in seen:
                    found += [(v, where) for to, v in pairs if syntax.code(to) == code]
                seen.add(code)
            elif isinstance(each, cst.Call):
                owner, _, name = syntax.code(each.func).rpartition(".")
                inner = self._own.get(name) if owner == syntax.self_name(where) else None
                if inner is None:
                    yield each
                elif f"{name}()" not in seen:
                    returned = (r.value for r in syntax.returns(inner) if r.value is not None)
                    found += [(r, inner) for r in returned]
                    seen.add(f"{name}()")

    def _is_stream(self, call: cst.Call) -> bool:
        name = self._name(call)
        return "streaming=True" in syntax.code(call).replace(" ", "") or self._streams(name)

    def _streams(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a class, or what a function of this name returns, is only iterated over."""
        if name in _STREAMS:
            return True
        if name in seen or name not in self._texts:
            return False
        for line in syntax.looked_at(self._texts[name]).body:
            if isinstance(line, cst.ClassDef):
                made = [syntax.code(base.value) for base in line.bases]
            elif isinstance(line, cst.FunctionDef):
                values = (each.value for each in syntax.returns(line))
                made = [syntax.code(v.func) for v in values if isinstance(v, cst.Call)]
            else:
                continue
            if any(self._streams(each.rpartition(".")[2], seen | {name}) for each in made):
                return True
        return False
