"""The attributes of trials that are aliases of what a LightningModule has."""

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.context.ranks import RANKS
from det_compat.migrate.to_lightning.early.late_models import unregistered
from det_compat.migrate.to_lightning.optimization.step_modes import STEP_MODE
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.taken.reserved import ATTRIBUTE_DICTS
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import PRECISION, PRECISION_LINK, marked
from det_compat.migrate.tree.symbols import Symbols

_IS_DROPPED = (
    "experimental.disable_auto_to_device",
    "experimental.disable_dataset_reproducibility_checks",
    "experimental.use_amp",
)


def drop_aliases(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Drop ``self.context = context`` in trials, and what has no meaning without Determined."""
    return syntax.transformed(tree, _Aliases(file))


class _Aliases(LightningTransformer):
    def visit_Module(self, node: cst.Module) -> None:
        self._branches: set[cst.CSTNode] = set()
        self._used = _used_names(node, self.symbols)
        wraps = self.symbols.calls(node, "wrap_lr_scheduler")
        self._modes = {name for wrap in wraps for name in syntax.names_in(wrap)}
        every = [syntax.argument(wrap, 2, "frequency") for wrap in wraps]
        self._frequencies = [name for name in every if isinstance(name, cst.Name)]
        self._has_hparams = any(
            syntax.target_of(line) == "self.hparams"
            and self.symbols.method(syntax.call_of(line)) == "get_hparams"
            for line in syntax.find(node, cst.SimpleStatementLine)
        )

        self._wrapper = next(
            (
                syntax.code(call.func)
                for line in syntax.find(node, cst.SimpleStatementLine)
                if syntax.target_of(line) == "self.hparams"
                and (call := syntax.call_of(line)) is not None
                and syntax.code(call.func).rpartition(".")[2] in ATTRIBUTE_DICTS
            ),
            "",
        )

    def leave_ClassDef(self, original: cst.ClassDef, updated: cst.ClassDef) -> cst.ClassDef:
        return self.without_others(original, updated, self._wrapper)

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        is_given = self._has_hparams and self.plan is not None and not updated.star
        if self.plan is None or not is_given or syntax.code(updated.value) != "self.hparams":
            return updated
        return updated.with_changes(value=self.plain_hparams(updated.value))

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        lines = [self._as_of_module(line) for line in self._apart(updated)]
        return cst.FlattenSentinel([line for line in lines if line is not None])

    def _apart(self, line: Line) -> list[Line]:
        """``rows = read()`` and ``c = context`` for an assignment of both at once."""
        small = syntax.simple(line)
        pairs = [*syntax.pairs(small)] if isinstance(small, cst.Assign) else []
        named = pairs[0][1] if len(pairs) == 1 else None
        if isinstance(named, cst.NamedExpr):
            # ``self.context = (c := context)`` is two of them, too.
            pairs = [(named.target, named.value), (pairs[0][0], named.value.deep_clone())]
        is_one = len(pairs) < 2 or len({value for _, value in pairs}) == 1
        if is_one or not any(self.symbols.is_followed(value, target) for target, value in pairs):
            return [line]
        targets = [syntax.code(target) for target, _ in pairs]
        if any(syntax.mentions(value, each) for _, value in pairs for each in targets):
            return [line]
        lines = [cst.SimpleStatementLine([syntax.assignment(*pair)]) for pair in pairs]
        lines[0] = lines[0].with_changes(leading_lines=line.leading_lines)
        return lines

    def _as_of_module(self, line: Line) -> cst.BaseStatement | None:
        """A statement as a module has it; None for one that it does not need."""
        line = self._with_module_for_ranks(line)
        small = syntax.simple(line)
        if self._holds_module(small):
            return _unregistered(line)
        is_alias = isinstance(small, (cst.Assign, cst.AnnAssign)) and (
            self._is_alias(small) or self._is_mode(small) or self._is_frequency(small)
        )
        is_dropped = self.symbols.method(syntax.lone_call(line)) in _IS_DROPPED
        return None if is_alias or is_dropped else line

    def _with_module_for_ranks(self, line: Line) -> Line:
        """A statement that keeps the ``distributed`` it is given, which is a module by now."""
        small = syntax.simple(line)
        if not isinstance(small, cst.Assign) or self.plan is not None:
            return line
        found, value = self.symbols.member(small.value), small.value
        is_given = isinstance(value, cst.Attribute) and self.symbols.held_by(value)
        if found is None or found[1] != RANKS or not is_given:
            return line
        return line.with_changes(body=[small.with_changes(value=found[0])])

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:
        is_mixed = self.symbols.calls(original.body, "experimental.use_amp")
        return marked(updated, PRECISION, PRECISION_LINK) if is_mixed else updated

    def visit_If(self, node: cst.If) -> None:
        if node.orelse is not None:
            self._branches.add(node.orelse)

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If | cst.RemovalSentinel:
        """The statement, unless there is nothing left that it decides on."""
        before, after = original.orelse, updated.orelse
        if before is not None and after is not None and self._is_idle(before, after):
            updated = updated.with_changes(orelse=None)
        # An elif is a part of its if, which leaves it out.
        is_gone = original not in self._branches and self._is_idle(original, updated)
        return cst.RemoveFromParent() if is_gone else updated

    def _is_idle(self, before: cst.If | cst.Else, after: cst.If | cst.Else) -> bool:
        if not _is_empty(after.body) or _is_empty(before.body):
            return False
        return isinstance(after, cst.Else) or (
            after.orelse is None and self._only_reads(after.test)
        )

    def _only_reads(self, node: cst.CSTNode) -> bool:
        kinds = (cst.Await, cst.Yield, cst.NamedExpr)
        calls = [*syntax.find(node, cst.Call)]
        asking = self.symbols.calls(node, "get_hparam", "get_hparams")
        return len(calls) == len(asking) and not any(
            found for kind in kinds for found in syntax.find(node, kind)
        )

    def _is_alias(self, small: cst.Assign | cst.AnnAssign) -> bool:
        if self.plan is not None and isinstance(small, cst.AnnAssign) and small.value is None:
            # A class that says it has a context says nothing once the module is one.
            kind = self.symbols.path(small.annotation.annotation) or ""
            return not self.functions and kind.endswith("TrialContext")
        if self.plan is None or small.value is None:
            return False
        target, value = _target(small), _without_cast(small.value)
        # A variable, or an attribute of the trial itself.
        stem = target.value if isinstance(target, cst.Attribute) else target
        if not isinstance(stem, cst.Name) or self._is_shared(target):
            return False
        if isinstance(value, cst.Call):
            inner = value.args[0].value if len(value.args) == 1 else value
            name = syntax.code(value.func).rpartition(".")[2]
            asking = inner if name in ATTRIBUTE_DICTS else value
            is_hparams = self.symbols.method(asking) == "get_hparams"
            return is_hparams and syntax.code(target) == "self.hparams"
        return self.symbols.is_followed(value, target)

    def _is_shared(self, target: cst.BaseExpression) -> bool:
        """Whether it is a variable of the file, or of a function around, which others read."""
        function = self.functions[-1] if self.functions else cst.Pass()
        items = [i for found in syntax.find(function, cst.Global) for i in found.names]
        items += [i for found in syntax.find(function, cst.Nonlocal) for i in found.names]
        shared = {item.name.value for item in items}
        return isinstance(target, cst.Name) and target.value in shared

    def _holds_module(self, small: cst.BaseSmallStatement | None) -> bool:
        """Whether a torch module keeps a context, which is a module now, or a trial itself."""
        if not isinstance(small, cst.Assign) or not isinstance(
            small.targets[0].target, cst.Attribute
        ):
            return False
        if self.plan is not None:
            own = syntax.self_name(self.method) if self.method is not None else ""
            return syntax.code(small.value) == own
        # A function may set an attribute of a trial, which would be a part of itself.
        bases = [syntax.code(each.value) for node in self.classes[-1:] for each in node.bases]
        is_module = not self.classes or any(base.endswith("nn.Module") for base in bases)
        return is_module and self.symbols.is_context(small.value)

    def _is_mode(self, small: cst.Assign | cst.AnnAssign) -> bool:
        """Whether this is a short name for step modes, all uses of which are resolved."""
        value, target = small.value, _target(small)
        while isinstance(value, cst.IfExp) and self._is_one_mode(value.body):
            # One of them is chosen at run time, where the scheduler is stepped.
            value = value.orelse
        if not isinstance(target, cst.Name) or target.value in self._used:
            return False
        # Nothing here reads it: that of a class may be for a base or heir in another file.
        is_shared = bool(self.classes) and not self.functions and target.value not in self._modes
        return self.symbols.path(value) == STEP_MODE or (self._is_one_mode(value) and not is_shared)

    def _is_frequency(self, small: cst.Assign | cst.AnnAssign) -> bool:
        """Whether this is how often a scheduler steps, which stands where it steps now."""
        target, value = syntax.code(_target(small)), small.value
        if not self.functions or value is None or not self._only_reads(value):
            return False
        uses = [u for u in _variables(self.functions[-1]) if u.value == target]
        return len(uses) > 1 and all(u in self._frequencies for u in uses[1:])

    def _is_one_mode(self, node: cst.BaseExpression | None) -> bool:
        return (self.symbols.path(node) or "").startswith(f"{STEP_MODE}.")


def _is_empty(suite: cst.BaseSuite) -> bool:
    if isinstance(suite, cst.IndentedBlock):
        return all(isinstance(syntax.simple(line), cst.Pass) for line in suite.body)
    return all(isinstance(small, cst.Pass) for small in suite.body)


def _without_cast(value: cst.BaseExpression) -> cst.BaseExpression:
    is_cast = isinstance(value, cst.Call) and syntax.code(value.func) in ("cast", "typing.cast")
    return ensure_type(value, cst.Call).args[-1].value if is_cast else value


def _target(small: cst.Assign | cst.AnnAssign) -> cst.BaseExpression:
    return small.targets[0].target if isinstance(small, cst.Assign) else small.target


def _used_names(tree: cst.Module, symbols: Symbols) -> set[str]:
    """The variables that are read, but for those whose step mode a scheduler is wrapped with."""
    wraps = symbols.calls(tree, "wrap_lr_scheduler")
    # LibCST compares nodes by identity, so these are single places in the file.
    ignored: set[cst.CSTNode | None] = {
        name for wrap in wraps for name in syntax.find(wrap, cst.Name) if symbols.path(name)
    }
    modes = (syntax.argument(wrap, 1, "step_mode") for wrap in wraps)
    ignored |= {mode for mode in modes if isinstance(mode, cst.Name)}
    ignored |= {target.target for target in syntax.find(tree, cst.AssignTarget)}
    ignored |= {line.target for line in syntax.find(tree, cst.AnnAssign)}
    ignored |= {argument.keyword for argument in syntax.find(tree, cst.Arg)}
    names = [name for name in syntax.find(tree, cst.Name) if name not in ignored]
    return {
        syntax.code(symbol.original) if (symbol := symbols.get(name)) else name.value
        for name in names
    }


def _variables(function: cst.FunctionDef) -> list[cst.Name]:
    """The variables that a function sets and reads, in this order."""
    beside = {each.attr for each in syntax.find(function, cst.Attribute)}
    beside |= {each.keyword for each in syntax.find(function, cst.Arg) if each.keyword}
    return [name for name in syntax.find(function, cst.Name) if name not in beside]


def _unregistered(line: Line) -> cst.BaseStatement:
    """An assignment to an attribute that torch does not take for a submodule."""
    small = ensure_type(syntax.simple(line), cst.Assign)
    comment = cst.Comment("# no submodule, since it has this one in it")
    return line.with_changes(
        body=[unregistered(small.targets[0].target, small.value)],
        leading_lines=[*line.leading_lines, cst.EmptyLine(comment=comment)],
    )
