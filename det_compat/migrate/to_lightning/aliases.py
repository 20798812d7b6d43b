"""A trial's own names for its context go: the module is the context now."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import call_of, code, expression, find, simple

_MODES = "det_compat.pytorch.LRScheduler.StepMode"
_IS_DROPPED = (
    "experimental.disable_auto_to_device",
    "experimental.disable_dataset_reproducibility_checks",
    "experimental.use_amp",
)


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Drop ``self.context = context`` in trials, and what has no meaning without Determined."""
    return tree.visit(_Aliases(file))


class _Aliases(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file
        self._in_trial = [False]
        self._in_module = [False]
        self._modes = 0
        self._used: set[str] = set()

    def visit_Module(self, node: cst.Module) -> None:
        paths = [self._file.symbols.path(name) for name in find(node, cst.Name)]
        self._modes = paths.count(_MODES)
        self._used = _used_names(node, self._file.symbols)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._in_trial.append(node.name.value in self._file.plans)
        self._in_module.append(any(code(base.value).endswith("nn.Module") for base in node.bases))

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        self._in_trial.pop()
        self._in_module.pop()
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.RemovalSentinel:
        small = simple(updated_node)
        if self._holds_context(small):
            return _unregistered(updated_node)
        if isinstance(small, cst.Assign) and self._in_trial[-1]:
            updated_node = self._without_aliases(updated_node, small)
        is_alias = isinstance(small, (cst.Assign, cst.AnnAssign)) and (
            self._is_alias(small) or self._is_mode(small)
        )
        return cst.RemoveFromParent() if is_alias or self._is_dropped(small) else updated_node

    def _is_alias(self, small: cst.Assign | cst.AnnAssign) -> bool:
        if not self._in_trial[-1] or small.value is None:
            return False
        target = small.targets[0].target if isinstance(small, cst.Assign) else small.target
        value = small.value
        parts = target.elements if isinstance(target, cst.Tuple) else ()
        targets = [part.value for part in parts] or [target]
        if not all(map(_is_own, targets)):
            return False
        if isinstance(value, cst.Call):
            found = self._file.symbols.called(value)
            return (
                found is not None and found[1] == "get_hparams" and code(target) == "self.hparams"
            )
        values = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
        is_followed = self._file.symbols.is_followed
        return len(targets) == len(values) and all(map(is_followed, values, targets))

    def _without_aliases(
        self, line: cst.SimpleStatementLine, small: cst.Assign
    ) -> cst.SimpleStatementLine:
        """``rows, ranks = read(), context.distributed`` without its second half."""
        target, value = small.targets[0].target, small.value
        if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
            return line
        pairs = [*zip(target.elements, value.elements, strict=False)]
        is_followed = self._file.symbols.is_followed
        kept = [(t, v) for t, v in pairs if not is_followed(v.value, t.value)]
        if len(target.elements) != len(value.elements) or len(kept) not in range(1, len(pairs)):
            return line
        targets, values = ([part.value for part in parts] for parts in zip(*kept, strict=True))
        goal = cst.AssignTarget(_one_or_tuple(targets))  # type: ignore[arg-type]
        return line.with_changes(body=[cst.Assign([goal], _one_or_tuple(values))])

    def _holds_context(self, small: cst.BaseSmallStatement | None) -> bool:
        """Whether a torch module keeps a context, which is a module now."""
        return (
            isinstance(small, cst.Assign)
            and self._in_module[-1]
            and not self._in_trial[-1]
            and isinstance(small.targets[0].target, cst.Attribute)
            and self._file.symbols.is_context(small.value)
        )

    def _is_mode(self, small: cst.Assign | cst.AnnAssign) -> bool:
        """Whether this is a short name for step modes, all uses of which are resolved."""
        path = self._file.symbols.path(small.value) or ""
        target = small.targets[0].target if isinstance(small, cst.Assign) else small.target
        is_unused = isinstance(target, cst.Name) and target.value not in self._used
        is_one = path.startswith(f"{_MODES}.") and is_unused
        return is_one or (path == _MODES and self._modes == 1)

    def _is_dropped(self, small: cst.BaseSmallStatement | None) -> bool:
        found = self._file.symbols.called(call_of(small)) if isinstance(small, cst.Expr) else None
        return found is not None and found[1] in _IS_DROPPED


def _used_names(tree: cst.Module, symbols: Symbols) -> set[str]:
    """The variables that are read, but for those whose step mode a scheduler is wrapped with."""
    wraps = [call for call in find(tree, cst.Call) if _is_schedule(call, symbols)]
    resolved = {id(name) for wrap in wraps for name in find(wrap, cst.Name) if symbols.path(name)}
    targets = {id(target.target) for target in find(tree, cst.AssignTarget)}
    targets |= {id(line.target) for line in find(tree, cst.AnnAssign)}
    keywords = {id(argument.keyword) for argument in find(tree, cst.Arg)}
    ignored = resolved | targets | keywords
    names = [name for name in find(tree, cst.Name) if id(name) not in ignored]
    symbols_of = [symbols.get(name) for name in names]
    return {
        code(symbol.original) if symbol else name.value
        for name, symbol in zip(names, symbols_of, strict=True)
    }


def _is_schedule(call: cst.Call, symbols: Symbols) -> bool:
    found = symbols.called(call)
    return found is not None and found[1] == "wrap_lr_scheduler"


def _unregistered(line: cst.SimpleStatementLine) -> cst.BaseStatement:
    """An assignment to an attribute that torch does not take for a submodule."""
    small = simple(line)
    assert isinstance(small, cst.Assign)
    target = small.targets[0].target
    assert isinstance(target, cst.Attribute)
    text = f'object.__setattr__({code(target.value)}, "{target.attr.value}", {code(small.value)})'
    comment = cst.Comment("# no submodule, since it has this one in it")
    return line.with_changes(
        body=[cst.Expr(expression(text))],
        leading_lines=[*line.leading_lines, cst.EmptyLine(comment=comment)],
    )


def _one_or_tuple(values: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    return values[0] if len(values) == 1 else cst.Tuple([cst.Element(value) for value in values])


def _is_own(target: cst.BaseExpression) -> bool:
    """Whether a target is a variable, or an attribute of the trial itself."""
    owner = target.value if isinstance(target, cst.Attribute) else target
    return isinstance(owner, cst.Name)
