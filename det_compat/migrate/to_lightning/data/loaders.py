"""Loaders and their batches: methods with Lightning's names, torch's loaders, batches as before."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.class_facts import WrappedModel
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.to_lightning.written_out.samplers import (
    ADAPTED_LOADER,
    repeated_when,
    sharing,
    skipping,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import attributes_changed, reachable, values_set

#: The loader methods of Determined, and of Lightning.
NAMES = {
    "build_training_data_loader": "train_dataloader",
    "build_validation_data_loader": "val_dataloader",
}
_Node = TypeVar("_Node", bound=cst.CSTNode)

#: Lightning repeats by itself, and shards samples. Of batches it would keep no size.
_UNNEEDED = re.compile(
    r"det_compat\.pytorch\."
    r"(samplers\.(RepeatBatch|Distributed|Skip(Batch)?)Sampler|adapt_batch_sampler)"
)
_CHAINED = tuple(
    f"det_compat.pytorch.samplers.{name}Sampler" for name in ("Repeat", "Distributed", "Skip")
)


#: The sampler of one process's batches, and that of batches without end.
_SHARED = "det_compat.pytorch.samplers.DistributedBatchSampler"
_REPEATED = "det_compat.pytorch.samplers.RepeatBatchSampler"
#: That of the batches behind those that a run has trained on.
_SKIPPED = "det_compat.pytorch.samplers.SkipBatchSampler"
#: What a context was asked for to shard data, and to go on where a run ended.
_OF_CONTEXT = frozenset(
    f"distributed.{name}" for name in ("size", "rank", "get_size", "get_rank")
) | {"get_initial_batch"}
#: The loader of validations, where a base has one that is not evaluated as a whole.
WHOLE_LOADER = """\
def val_dataloader(self):
    # its one batch is the loader, so that validation_step goes through all of it
    return torch.utils.data.DataLoader([super().val_dataloader()], batch_size=None)
"""


def rename_loaders(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rename loader methods wherever they are named, and drop what Lightning does by itself."""
    return syntax.transformed(tree, _Loaders(file))


class _Loaders(LightningTransformer):
    def __init__(self, file: LightningFile) -> None:
        super().__init__(file)
        # Whether the samplers of samples in each function around are a chain that stays one.
        self._chains: list[bool] = []
        # And of each that is one process's, when its batches are repeated; whether any are above.
        self._repeats: list[dict[cst.Call, str | None]] = []
        self._repeated: list[bool] = []

    def _is_whole(self) -> bool:
        """Whether this is where a trial makes the loader that it evaluates as a whole."""
        if not self.functions or self.plan is None or not self.plan.evaluates_whole:
            return False
        return self.functions[-1].name.value == "build_validation_data_loader"

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        calls = [*syntax.find(node, cst.Call)]
        chained = filter(self._is_chained, calls)
        self._chains.append(not all(map(self._is_unneeded, chained)))
        repeated = [call for call in calls if self.symbols.path(call.func) == _REPEATED]
        shared = [call for call in calls if self.symbols.path(call.func) == _SHARED]
        self._repeats.append({call: repeated_when(node, call, repeated) for call in shared})
        self._repeated.append(False)
        return super().visit_FunctionDef(node)

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._chains.pop()
        self._repeats.pop()
        self._repeated.pop()
        return updated if self.plan is None else updated.with_changes(name=_renamed(updated.name))

    def leave_AssignTarget(
        self, original: cst.AssignTarget, updated: cst.AssignTarget
    ) -> cst.AssignTarget:
        # A class may say `build_validation_data_loader = build_training_data_loader`.
        if self.plan is None or self.functions:
            return updated
        return updated.with_changes(target=_renamed(updated.target))

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        return updated.with_changes(value=_renamed(updated.value))

    def leave_Return(self, original: cst.Return, updated: cst.Return) -> cst.Return:
        if updated.value is None or not self._is_whole():
            return updated
        self.file.imports.new.add("import torch")
        text = f"torch.utils.data.DataLoader([{syntax.code(updated.value)}], batch_size=None)"
        return updated.with_changes(
            value=syntax.expression(text), whitespace_after_return=cst.SimpleWhitespace(" ")
        )

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(original)
        if self._is_whole() and isinstance(small, cst.Return) and small.value is not None:
            comment = cst.EmptyLine(comment=cst.Comment(_WHOLE))
            return updated.with_changes(leading_lines=[*updated.leading_lines, comment])
        was_call = updated is not original and syntax.call_of(original) is not None
        return cst.RemoveFromParent() if was_call and syntax.is_idle(updated) else updated

    def leave_If(
        self, original: cst.If, updated: cst.If
    ) -> cst.BaseStatement | cst.RemovalSentinel:
        if isinstance(updated.orelse, cst.Else) and not updated.orelse.body.body:
            updated = updated.with_changes(orelse=None)
        is_empty = not updated.body.body and bool(original.body.body) and updated.orelse is None
        is_plain = not [*syntax.find(updated.test, cst.Call)]
        return cst.RemoveFromParent() if is_empty and is_plain else updated

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        own = syntax.methods(self.classes[-1]) if self.classes and self.plan is None else {}
        # A class that is no trial keeps its methods.
        is_own = updated.attr.value in own and syntax.code(updated.value) == "self"
        return updated if is_own else updated.with_changes(attr=_renamed(updated.attr))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        stays = self._is_chained(updated) and any(self._chains[-1:])
        path = self.symbols.path(updated.func)
        if self._is_unneeded(updated) and not stays:
            if path == _SKIPPED and self._goes_on(updated):
                return skipping(updated)
            self._repeated[-1:] = [path == _REPEATED or any(self._repeated[-1:])]
            return updated.args[0].value
        if path == _SHARED:
            when = self._repeats[-1].get(original) if self._repeats else "False"
            return updated if when is None else sharing(updated, when) or updated
        func = updated.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "get_data_loader":
            return updated
        if self.file.has_own_loaders:
            # A method of the code's own, which may take and return anything.
            return updated
        repeat = syntax.argument(updated, 0, "repeat")
        is_once = repeat is None or syntax.code(repeat) == "False"
        if (
            is_once
            and all(map(self._is_lightnings, updated.args))
            and self._is_for_lightning(updated)
        ):
            return func.value
        args = [cst.Arg(func.value), *updated.args]
        return updated.with_changes(func=cst.Name(ADAPTED_LOADER), args=args)

    def _is_for_lightning(self, call: cst.Call) -> bool:
        """Whether a loader has all the data, or is one that a trial does not go through itself."""
        parts = ((2, "num_replicas"), (3, "rank"))
        has_all = all(syntax.argument(call, at, name) is None for at, name in parts)
        if has_all or self.plan is None or not self.functions:
            return True
        own = syntax.methods(self.classes[-1])
        return self.functions[0].name.value in reachable(own, *NAMES)

    def _goes_on(self, call: cst.Call) -> bool:
        """Whether what a run has trained on is left out once, of batches without end."""
        asked = len(call.args) == 2 and self.symbols.method(call.args[1].value)
        return any(self._repeated[-1:]) and asked == "get_initial_batch"

    def _is_chained(self, call: cst.Call) -> bool:
        return self.symbols.path(call.func) in _CHAINED

    def _is_unneeded(self, call: cst.Call) -> bool:
        """Whether a call wraps a sampler in one that does what Lightning does by itself."""
        is_one = _UNNEEDED.fullmatch(self.symbols.path(call.func) or "")
        return bool(is_one and call.args) and all(map(self._is_lightnings, call.args[1:]))

    def _is_lightnings(self, arg: cst.Arg) -> bool:
        """Whether an argument says nothing but what Lightning does by itself."""
        value = arg.value
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
            # So many samples in the batches that a resumed run has trained on.
            return "get_initial_batch" in map(self.symbols.method, (value.left, value.right))
        member = self.symbols.member(value.func if isinstance(value, cst.Call) else value)
        is_plain = syntax.code(value) in ("True", "False", "None", "0")
        return is_plain or (member is not None and member[1] in _OF_CONTEXT)


_WHOLE = "# its one batch is the loader: validation_step goes through all of it, on each device"


def _renamed(node: _Node) -> _Node:
    new = NAMES.get(node.value) if isinstance(node, cst.Name) else None
    return node if new is None else node.with_changes(value=new)


_TRAINING_LOADER = """\
if {0}.trainer.train_dataloader is None:
    # making it sets what is needed here
    {0}.train_dataloader()
"""


def after_training_loader(method: cst.FunctionDef, *, is_mixin: bool) -> cst.FunctionDef:
    """A method that makes the loader of validations, also where these come without training.

    A mixin may be used without a module, and has no Trainer then.
    """
    own = syntax.self_name(method)
    text = _TRAINING_LOADER.format(own)
    if is_mixin:
        text = text.replace(
            f"if {own}.trainer.",
            f'trainer = getattr({own}, "trainer", None)\nif trainer is not None and trainer.',
        )
    made = syntax.statements(text)
    return syntax.with_body(method, syntax.below_docstring(syntax.body_of(method), made))


def left_of_loaders(
    own: Mapping[str, cst.FunctionDef],
    models: Iterable[WrappedModel],
    symbols: Symbols,
    around: Elsewhere,
) -> list[str]:
    """What to say of the data of a trial, where Lightning's loops would go through others.

    Args:
        own: the methods of a trial.
        models: what it trains.
        symbols: what these methods name.
        around: the code that they call.
    """
    is_sharded = _sharded_again(own, symbols, around)
    return [*_read_ahead(own, models, around), *is_sharded]


def _read_ahead(
    own: Mapping[str, cst.FunctionDef], models: Iterable[WrappedModel], around: Elsewhere
) -> list[str]:
    """What to say of training data without a length that may depend on what training changes.

    Lightning asks such data for a batch before the one in front of it is trained.
    """
    names = {*own, *(model.attribute for model in models)}
    names |= {n for m in reachable(own, "train_batch") for n in attributes_changed(own[m])}
    calls = [
        (call, syntax.self_name(own[name]))
        for name in reachable(own, "build_training_data_loader")
        for call in syntax.find(own[name], cst.Call)
    ]
    return [
        _READ_AHEAD.format(name)
        for call, me in calls
        if (name := syntax.code(call.func).rpartition(".")[2])
        and "def __iter__(" in (text := around.texts.get(name, ""))
        and "def __len__(" not in text
        and any(_depends(arg.value, me, names) for arg in call.args)
    ]


_READ_AHEAD = (
    "{} has no __len__, so Lightning reads a batch of it before the one in front is trained, "
    "which it may depend on"
)


def _depends(given: cst.BaseExpression, me: str, names: Collection[str]) -> bool:
    """Whether what is given is a trial, or may be one of these that it has."""
    called = {id(call.func) for call in syntax.find(given, cst.Call)}
    attributes = [*syntax.find(given, cst.Attribute)]
    return syntax.code(given) == me or any(
        node.attr.value in names and syntax.code(node.value) == me and id(node) not in called
        for node in attributes
    )


def _sharded_again(
    own: Mapping[str, cst.FunctionDef], symbols: Symbols, around: Elsewhere
) -> list[str]:
    """What to say of data that a trial shards by itself, in a loader that Lightning shards, too.

    Determined sharded its own loaders, and none of torch's.
    """
    methods = [own[name] for start in NAMES for name in reachable(own, start)]
    read = {syntax.code(node) for each in methods for node in syntax.find(each, cst.Attribute)}
    pairs = [pair for method in own.values() for pair in values_set(method)]
    kept = [value for target, value in pairs if syntax.code(target) in read]
    asked = {name for node in (*methods, *kept) for name in _asked_of_context(node, symbols)}
    calls = [call for method in methods for call in syntax.find(method, cst.Call)]
    given = {arg.keyword.value for call in calls for arg in call.args if arg.keyword is not None}
    made = [syntax.code(call.func).rpartition(".")[2] for call in calls]
    texts = [around.texts.get(name, name) for name in made]
    handed = (t for c, t in zip(calls, texts, strict=True) if _hands_context(c, symbols))
    asked.update(name for text in handed for name in _OF_PROCESSES.findall(text))
    # Lightning shards neither these nor data that are only iterated over.
    is_left = "batch_sampler" in given or any(
        "DistributedSampler" in text
        or ("def __iter__(" in text and "def __getitem__(" not in text and "Sampler" not in text)
        for text in texts
    )
    loaders = (call for call, name in zip(calls, made, strict=True) if name == "DataLoader")
    is_torchs = any(symbols.path(call.func) is None for call in loaders)
    is_sharded = {"rank", "size"} <= {name.removeprefix("get_") for name in asked}
    return [_SHARDED_AGAIN] if is_torchs and is_sharded and not is_left else []


#: What data that are handed a context ask it for, to keep one process's share.
_OF_PROCESSES = re.compile(r"\bdistributed\.(?:get_)?(rank|size)\b")


def _hands_context(call: cst.Call, symbols: Symbols) -> bool:
    return any(symbols.is_context(arg.value) for arg in call.args)


def shuffled_anew(
    own: Mapping[str, cst.FunctionDef], symbols: Symbols, around: Elsewhere
) -> list[str]:
    """What to say of samplers to which Lightning says which epoch it is: Determined did not.

    Args:
        own: the methods of a trial.
        symbols: of its file.
        around: the code in the files that its own imports.
    """
    made = made_loaders(own, symbols)
    if made and not any(
        syntax.argument(call, at, name) for call in made for at, name in _SAMPLERS.items()
    ):
        return []
    is_torchs = not any("determined" in p for p in around.imported.get("DistributedSampler", ()))
    texts = around.texts.items()
    names = [name for name, text in texts if _hears_of_epochs(text)]
    if is_torchs and any("shuffle=False" not in t for n in texts for t in _SHARDING.findall(n[1])):
        names.append("DistributedSampler")
    return [_SHUFFLED_ANEW.format(name) for name in names]


def _hears_of_epochs(text: str) -> bool:
    """Whether a class is one of samplers that ask for the epoch."""
    if not text.startswith("class ") or "def set_epoch(" not in text:
        return False
    is_iterated = "def __iter__(" in text and "Dataset" not in text
    return is_iterated or "Sampler" in text.partition(":")[0]


_SHARDING = re.compile(
    r"(?<!samplers\.)\bDistributedSampler\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_SHUFFLED_ANEW = (
    "Lightning calls set_epoch() of {} for every epoch, so that each has an order of its own, and "
    "Determined never did: override it to do nothing if all epochs are to have the first one's"
)


def _asked_of_context(where: cst.CSTNode, symbols: Symbols) -> Iterable[str]:
    """What of ``context.distributed`` a method or an expression asks for."""
    for node in syntax.find(where, cst.Attribute):
        member = symbols.member(node)
        if member is not None and member[1].startswith("distributed."):
            yield member[1].removeprefix("distributed.")


_SHARDED_AGAIN = (
    "on several devices Lightning shards again what is sharded here: this needs "
    "pl.Trainer(use_distributed_sampler=False), and all other loaders samplers of their own"
)


def made_loaders(own: Mapping[str, cst.FunctionDef], symbols: Symbols) -> list[cst.Call]:
    """The calls that make the loaders of a trial; none if it may have others, or gives more."""
    made: list[cst.BaseExpression | None] = []
    for name in NAMES:
        variables = assigned(own[name]) if name in own else {}
        for found in syntax.returns(own[name]) if name in own else [cst.Return()]:
            code = syntax.code(found.value) if isinstance(found.value, cst.Name) else ""
            made.append(variables.get(code, found.value))
    calls = [value for value in made if isinstance(value, cst.Call)]
    names = {symbols.path(call.func) or syntax.code(call.func) for call in calls}
    given = [arg for call in calls for arg in call.args]
    is_all = len(calls) == len(made)
    is_all &= all(name.rpartition(".")[2] == "DataLoader" for name in names)
    return calls if is_all and not any(arg.star for arg in given) else []


#: Where DataLoader takes samplers, by position and name.
_SAMPLERS = {3: "sampler", 4: "batch_sampler"}
