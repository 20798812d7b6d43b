"""Loaders that Lightning shares out among several processes in another way than Determined."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.written_out.samplers import (
    ADAPTED,
    CONTINUED,
    LEFT_TO_LIGHTNING,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable, values_set

#: The comment on a loader that keeps the order of its data on one device alone.
ORDER = "# Lightning shuffles this in several processes"
#: And where a sampler of the project's own may have put together what becomes a batch.
SAMPLES = "# in several processes Lightning shuffles single samples: no batch stays whole"
#: What several processes do otherwise without.
FLAG = "use_distributed_sampler=False"
_WHOLE = f"# several processes need a batch sampler that shares out, and {FLAG}"
#: The comment on a loader of torch's, all of which Determined gave each process.
_EACH = f"# several processes share this out, unless pl.Trainer({FLAG})"
#: The comment where data are shared out before there is a Trainer.
RANKS = "# ddp_spawn and ddp_fork make this in one process for all: move it to setup() for them"
_TRAINING, _VALIDATION = "build_training_data_loader", "build_validation_data_loader"
#: Data that are only iterated over, in any order of their own; Lightning takes them as they are.
_STREAMS = words("IterableDataset IterDataPipe ChainDataset WebDataset")
#: Samplers that Lightning's own may take the place of.
_PLAIN = words("RandomSampler SequentialSampler")
#: Whose samplers draw by chance, or share out.
_KNOWN = words("torch determined det_compat")
#: What a sampler that shares out by itself has to know.
_RANKED = re.compile(r"\brank\b")


def with_word_of_processes(node: cst.ClassDef, symbols: Symbols, around: Elsewhere) -> cst.ClassDef:
    """A trial with comments on loaders of which several processes get other batches.

    Args:
        node: the class.
        symbols: of its file.
        around: the code that it may call.
    """
    own = syntax.methods(node)
    # A validation of a whole dataset gets a loader that Lightning does not look into.
    is_whole = "evaluate_full_dataset" in own
    starts: tuple[str, ...] = (_TRAINING,) if is_whole else (_TRAINING, _VALIDATION)
    # Nor does it look into this one.
    starts = starts[CONTINUED in syntax.code(own.get(_TRAINING, node)) :]
    names = [*dict.fromkeys(reachable(own, *starts))]
    known = _Loaders(own, [own[name] for name in names], symbols, around)
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


def _handed_on(line: cst.SimpleStatementLine) -> Iterator[cst.BaseExpression]:
    """What a statement returns or keeps, itself or in a tuple, a list or a dict."""
    small = syntax.simple(line)
    value = small.value if isinstance(small, (cst.Return, cst.Assign, cst.AnnAssign)) else None
    found = [value] if value is not None else []
    for each in found:
        yield each
        if isinstance(each, (cst.Tuple, cst.List, cst.Dict)):
            found += [e.value for e in each.elements]
        elif isinstance(each, cst.IfExp):
            found += [each.body, each.orelse]
        elif isinstance(each, (cst.Subscript, cst.Attribute)):
            found.append(each.value)


class _Loaders:
    def __init__(
        self,
        own: Mapping[str, cst.FunctionDef],
        making: Sequence[cst.FunctionDef],
        symbols: Symbols,
        around: Elsewhere,
    ) -> None:
        self._own, self._making, self._symbols, self._around = own, making, symbols, around
        self._texts = around.texts
        pairs = [pair for method in own.values() for pair in values_set(method)]
        self._attributes = [pair for pair in pairs if isinstance(pair[0], cst.Attribute)]

    def commented(self, method: cst.FunctionDef) -> cst.FunctionDef:
        """The method with comments on the loaders that it hands out."""
        is_training = method.name.value in reachable(self._own, _TRAINING)

        loaders = [call for call in syntax.find(method, cst.Call) if self._is_loader(call)]

        def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
            calls = [*self._made(line, method)]
            if not calls or not self._is_handed_out(line, method):
                return line
            targets = [syntax.code(target) for target, _ in values_set(line)]
            if any(syntax.mentions(call, target) for call in loaders for target in targets):
                # Lightning gets the loader that is made of this one.
                return line
            if any(self._has_own_batches(*call) for call in calls):
                comment = _WHOLE
            elif any(self._is_given_whole(*call) for call in calls):
                comment = _EACH
            elif is_training and any(self._own_samplers(*call) for call in calls):
                comment = SAMPLES
            elif is_training and any(self._keeps_order(*call) for call in calls):
                comment = ORDER
            else:
                return line
            return above(line, [cst.EmptyLine(comment=cst.Comment(comment))])

        return syntax.each(method, cst.SimpleStatementLine, said)

    def _made(
        self,
        line: cst.SimpleStatementLine,
        where: cst.FunctionDef,
        seen: frozenset[str] = frozenset(),
    ) -> Iterator[tuple[cst.Call, cst.FunctionDef]]:
        """The loaders that a statement makes, or the functions of other classes and files for it.

        Each comes with the method or function that it is made in.
        """
        values = {*map(id, _handed_on(line))}
        for call in syntax.find(line, cst.Call):
            if self._is_loader(call):
                if not seen or id(call) in values:
                    yield call, where
                continue
            found = self._called(call, where) if id(call) in values else None
            if found is not None and found.name.value not in seen:
                lines = [*syntax.find(found, cst.SimpleStatementLine)]
                for inner in (each for each in lines if self._is_handed_out(each, found)):
                    yield from self._made(inner, found, seen | {found.name.value})

    def _called(self, call: cst.Call, where: cst.FunctionDef) -> cst.FunctionDef | None:
        """The function of the project that a call is of, with what its parameters are set to."""
        owner, _, name = syntax.code(call.func).rpartition(".")
        paths = self._around.imported.get(name, frozenset()) if not owner else frozenset()
        name = min(paths, default=name).rpartition(".")[2]
        if name in self._own:
            return None
        texts = [self._texts[name]] if name in self._texts else []
        # A method may be of any class that has one of its name.
        texts = texts or (self._around.classes_with.get(name, []) if owner else [])
        if len(texts) != 1 or "DataLoader(" not in "".join(self._around.reached(texts)):
            return None
        body = syntax.looked_at(texts[0]).body
        found = body[0] if len(body) == 1 else None
        found = syntax.methods(found).get(name) if isinstance(found, cst.ClassDef) else found
        if not isinstance(found, cst.FunctionDef):
            return None
        lines: list[cst.BaseStatement] = []
        params = [*found.params.params, *found.params.kwonly_params]
        for at, param in enumerate(params[texts[0].startswith("class ") :]):
            given = syntax.argument(call, at, param.name.value) or param.default
            values: list[cst.BaseExpression] = [*self._values(given, where)]
            values += [given] if given is not None and not values else []
            for value in values if not any(arg.star for arg in call.args) else ():
                lines += syntax.statements(f"{param.name.value} = {syntax.code(value)}")
        made = syntax.with_body(found, [*lines, *syntax.body_of(found)])

        def first(line: cst.Return) -> cst.Return:
            # Of several loaders the one for training comes first.
            parts = syntax.parts(line.value) if line.value is not None else []
            loaders = [p for p in parts if any(map(self._is_loader, self._values(p, made)))]
            return line.with_changes(value=loaders[0]) if len(loaders) > 1 else line

        return syntax.each(made, cst.Return, first)

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
        names = {name, *self._around.imported.get(name, ())}
        is_one = any(each.rpartition(".")[2] == "DataLoader" for each in names)
        return is_one and not any(arg.star for arg in call.args)

    def _is_given_whole(self, call: cst.Call, method: cst.FunctionDef) -> bool:
        """Whether a call makes a loader of torch's that Lightning gives a sampler of its own."""
        data = [*self._values(syntax.argument(call, 0, "dataset"), method)]
        is_stream = bool(data) and all(map(self._is_stream, data))
        # A sampler of its own may share out by itself.
        own = self._own_samplers(call, method)
        is_taken = bool(own) and not any(map(_RANKED.search, own))
        is_taken |= not _is_drawn(call, method)
        return is_taken and not self._is_determineds(call, method) and not is_stream

    def _is_determineds(self, call: cst.Call, method: cst.FunctionDef) -> bool:
        """Whether a loader is one of Determined's, which it shared out among processes."""
        if self._is_near(method):
            return self._symbols.path(call.func) is not None
        # Of other files it is known what their names stand for in one of them.
        paths = self._around.imported.get(syntax.code(call.func).partition(".")[0], frozenset())
        return any(path.partition(".")[0] in ("determined", "det_compat") for path in paths)

    def _is_near(self, method: cst.FunctionDef) -> bool:
        """Whether this is a method of the trial, and no function that it calls."""
        return any(method is each for each in self._own.values())

    def _own_samplers(self, call: cst.Call, method: cst.FunctionDef) -> list[str]:
        """The code of a loader's samplers, if none is torch's or shares out in Lightning."""
        samplers = [*self._values(syntax.argument(call, 3, "sampler"), method)]
        found = [f"{syntax.code(c)}\n{self._texts.get(self._name(c), '')}" for c in samplers]
        is_own = all(map(self._is_own_class, samplers))
        return found if is_own and "DistributedSampler" not in "".join(found) else []

    def _is_own_class(self, call: cst.Call) -> bool:
        if text := self._texts.get(self._name(call)):
            return text.startswith("class ")
        paths = self._around.imported.get(syntax.code(call.func).partition(".")[0], frozenset())
        return any(path.partition(".")[0] not in _KNOWN for path in paths)

    def _keeps_order(self, call: cst.Call, method: cst.FunctionDef) -> bool:
        """Whether a call makes a loader that goes through its data in the order that it is told."""
        shuffle, size = syntax.argument(call, 2, "shuffle"), syntax.argument(call, 1, "batch_size")
        values = [
            v for to, v in values_set(method) if shuffle is not None and to.deep_equals(shuffle)
        ]
        is_off = shuffle is None or {"False"} == {*map(syntax.code, values or [shuffle])}
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
            not self._is_left_to_lightning(made)
            # A plain one of a helper is gone by then.
            and self._name(made) != ADAPTED
            and (self._is_near(method) or self._name(made) != "BatchSampler")
            and (
                (place := self._place_of_sampler(made, method)) is None
                or any(
                    self._name(each) not in _PLAIN
                    for each in self._values(syntax.argument(made, place, "sampler"), method)
                )
            )
            for made in self._values(syntax.argument(call, 4, "batch_sampler"), method)
        )

    def _is_left_to_lightning(self, made: cst.Call) -> bool:
        """Whether a batch sampler was Determined's: what takes its place needs no flag."""
        known = {path.rpartition(".")[2] for path in LEFT_TO_LIGHTNING}
        # What another file calls so is Determined's, unless the project has a class of this name.
        is_far = self._symbols.path(made.func) is None and self._name(made) not in self._texts
        return self._symbols.path(made.func) in LEFT_TO_LIGHTNING or (
            is_far and self._name(made) in known
        )

    def _place_of_sampler(self, made: cst.Call, method: cst.FunctionDef) -> int | None:
        """Which argument of a batch sampler Lightning replaces; None if there is no such one."""
        name = self._name(made)
        near = self._making if self._is_near(method) else [method]
        is_here = any(made in syntax.find(each, cst.Call) for each in near)
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
                is_own = "." in code and self._is_near(where)
                pairs = self._attributes if is_own else [*values_set(where)]
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


def with_word_of_ranks(node: cst.ClassDef) -> cst.ClassDef:
    """A module with a comment where it shares out data as it is made, by the rank of its process.

    A launcher starts each process with its rank; what forks or spawns makes the module before that.
    """
    own = syntax.methods(node)

    def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        args = [arg for call in syntax.find(line, cst.Call) for arg in call.args if arg.keyword]
        texts = {syntax.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in args}
        is_shared = any("".join(text.split()) == "rank=rank_zero_only.rank" for text in texts)
        return above(line, [cst.EmptyLine(comment=cst.Comment(RANKS))]) if is_shared else line

    for name in reachable(own, "__init__"):
        node = syntax.with_node(
            node, own[name], syntax.each(own[name], cst.SimpleStatementLine, said)
        )
    return node
