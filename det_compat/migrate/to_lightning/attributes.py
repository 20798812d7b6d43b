"""The attributes of trials: those that a LightningModule has for something else, and aliases."""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import libcst as cst
from libcst import matchers as m
from libcst.helpers import ensure_type

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.optimization.step_modes import STEP_MODE
from det_compat.migrate.to_lightning.plan import LightningFile, LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import PRECISION, PRECISION_LINK, marked
from det_compat.migrate.tree.symbols import Symbols, new_name

#: What ``pytorch_lightning.LightningModule`` has, but for the hooks that a migrated trial defines.
RESERVED = words(
    """
    T_destination add_module all_gather allow_zero_length_dataloader_with_multiple_devices apply
    automatic_optimization backward bfloat16 buffers call_super_init children clip_gradients
    compile cpu cuda current_epoch device device_mesh double dtype dump_patches eval
    example_input_array extra_repr fabric float forward freeze from_datasets get_buffer
    get_extra_state get_parameter get_submodule global_rank global_step half hparams
    hparams_initial ipu load_from_checkpoint load_state_dict local_rank log log_dict logger loggers
    lr_scheduler_step lr_schedulers manual_backward modules mtia named_buffers named_children
    named_modules named_parameters on_gpu optimizer_step optimizer_zero_grad optimizers parameters
    predict_dataloader predict_step prepare_data print register_backward_hook register_buffer
    register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ save_hyperparameters
    set_extra_state set_submodule setup share_memory state_dict strict_loading teardown test_step
    to to_empty to_onnx to_torchscript to_tensorrt toggle_optimizer toggled_optimizer train trainer
    remove_ignored_hparams training training_step type unfreeze untoggle_optimizer validation_step
    xpu zero_grad
    transfer_batch_to_device configure_callbacks configure_optimizers train_dataloader
    val_dataloader test_dataloader configure_model configure_sharded_model
    configure_gradient_clipping
    """
)
# A trial that has one of these means what the module has.
_SHARED = words("forward hparams_initial training")
_IS_DROPPED = (
    "experimental.disable_auto_to_device",
    "experimental.disable_dataset_reproducibility_checks",
    "experimental.use_amp",
)


#: Dicts whose keys are attributes, as those of a module's hyperparameters are.
_ATTRIBUTE_DICTS = words("AttrDict AttributeDict EasyDict edict")
_CHANGING = words("__dict__ update pop popitem setdefault clear")
#: What adds something to the hyperparameters of a module.
_SECTIONS = words("get_data_config get_experiment_config get_trial_seed")


def taken_names(
    nodes: Iterable[ast.ClassDef], *, nested: Callable[[], frozenset[str] | None]
) -> frozenset[str]:
    """The attributes and methods of trial classes that a LightningModule has for something else.

    Args:
        nodes: the trial classes.
        nested: tells which of their hyperparameters have others in them in some config; None where
            they have no config.
    """
    nodes = [*nodes]
    found = {name for node in nodes for name in _own_names(node)}
    wraps = any(_wraps_hparams(node) for each in nodes for node in ast.walk(each))
    if wraps and not _are_plainly_used(nodes, nested):
        found.add("hparams")
    return frozenset(found & (RESERVED - _SHARED))


def _own_names(node: ast.ClassDef) -> Iterator[str]:
    yield from (line.name for line in node.body if isinstance(line, ast.FunctionDef))
    for assign in ast.walk(node):
        if not isinstance(assign, (ast.Assign, ast.AnnAssign)):
            continue
        # A LightningModule has the hyperparameters and the device under these names, too.
        same = ""
        value = assign.value.func if isinstance(assign.value, ast.Call) else assign.value
        if _wraps_hparams(assign) or (
            isinstance(value, ast.Attribute) and value.attr == "get_hparams"
        ):
            same = "hparams"
        elif isinstance(value, ast.Attribute) and "context" in ast.unparse(value.value):
            same = value.attr if value.attr == "device" else ""
        targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
        for part in (part for target in targets for part in ast.walk(target)):
            if isinstance(part, ast.Attribute) and _owner(part) == "self":
                yield from () if part.attr == same else [part.attr]


def _wraps_hparams(line: ast.AST) -> bool:
    """Whether this is ``self.hparams = AttrDict(context.get_hparams())``."""
    if not isinstance(line, ast.Assign) or [*map(ast.unparse, line.targets)] != ["self.hparams"]:
        return False
    call = line.value
    given = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 else None
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(given, ast.Call):
        return False
    name = ast.unparse(call.func).rpartition(".")[2]
    return name in _ATTRIBUTE_DICTS and ast.unparse(given.func).endswith(".get_hparams")


def _are_plainly_used(
    nodes: Sequence[ast.ClassDef], nested: Callable[[], frozenset[str] | None]
) -> bool:
    """Whether trials do nothing with ``self.hparams`` which those of a module are different for."""
    every = [node for each in nodes for node in ast.walk(each)]
    around = {child: node for node in every for child in ast.iter_child_nodes(node)}
    is_handed_on = False
    asked_for: set[str | None] = set()
    for node in every:
        if not isinstance(node, ast.Attribute) or (node.attr, _owner(node)) != ("hparams", "self"):
            continue
        use = around[node]
        if isinstance(use, (ast.Attribute, ast.Subscript)):
            asked = around[use]
            call = around.get(asked)
            is_called = isinstance(call, ast.Call) and call.func is asked
            if isinstance(asked, ast.Attribute) and not is_called:
                return False
            if getattr(use, "attr", "") in _CHANGING or not isinstance(use.ctx, ast.Load):
                return False
            asked_for.add(_name_asked(use))
        elif isinstance(use, ast.Call) and getattr(use.func, "id", "") == "vars":
            return False
        elif not isinstance(use, ast.Compare) and not _wraps_hparams(use):
            is_handed_on = True
    asks = any(isinstance(node, ast.Attribute) and node.attr in _SECTIONS for node in every)
    if not (is_handed_on or asked_for):
        return True
    inner = nested()
    if inner is None:
        # What is handed on with two stars is a dict, and those in it were attributes, too.
        return not (is_handed_on and asks) and not _unpacks_attributes(every)
    is_known = None not in asked_for or not inner
    return is_known and inner.isdisjoint(asked_for) and not (is_handed_on and (asks or inner))


def _name_asked(use: ast.Attribute | ast.Subscript) -> str | None:
    """The hyperparameter that is looked up; None if it is only known at run time."""
    if isinstance(use, ast.Attribute):
        return use.attr
    return str(use.slice.value) if isinstance(use.slice, ast.Constant) else None


def _unpacks_attributes(nodes: Iterable[ast.AST]) -> bool:
    """Whether some attribute of a trial other than its hyperparameters is given with two stars."""
    given = [word for node in nodes if isinstance(node, ast.Call) for word in node.keywords]
    values = [word.value for word in given if word.arg is None]
    names = [value for value in values if isinstance(value, ast.Attribute)]
    return any(ast.unparse(value) != "self.hparams" for value in names)


def _owner(node: ast.Attribute) -> str:
    return getattr(node.value, "id", "")


def with_new_methods(
    tree: cst.Module, classes: Collection[str], renamed: Collection[str]
) -> cst.Module:
    """The file with the new names of methods that trial classes define, given all new names.

    Where methods are called, they have these already.
    """

    def rewritten(node: cst.ClassDef) -> cst.ClassDef:
        body = [_with_new_name(line, renamed) for line in syntax.body_of(node)]
        return syntax.with_body(node, body) if node.name.value in classes else node

    return syntax.each(tree, cst.ClassDef, rewritten)


def _with_new_name(line: cst.BaseStatement, renamed: Collection[str]) -> cst.BaseStatement:
    if not isinstance(line, cst.FunctionDef) or line.name.value not in renamed:
        return line
    return line.with_changes(name=cst.Name(new_name(line.name.value)))


def rename_reserved(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rename attributes of trials that a LightningModule has for something else.

    Where other code reads them of what is known to be a trial, they have their new names already.
    """
    return syntax.transformed(tree, _Renaming(file)) if file.renamed else tree


_SELF = m.Name("self")
#: A variable, or an attribute of the trial itself.
_OWN = m.OneOf(m.Name(), m.Attribute(value=m.Name()))
_KEEPING = m.Assign([m.AssignTarget(m.Attribute()), m.ZeroOrMore()])
_OWN_HPARAMS = m.Attribute(value=_SELF, attr=m.Name("hparams"))


class _Renaming(LightningTransformer):
    def _renamed(self, name: cst.Name) -> cst.Name:
        is_taken = self.plan is not None and name.value in self.file.renamed
        return cst.Name(new_name(name.value)) if is_taken else name

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        if not m.matches(original.value, _SELF):
            return updated
        return updated.with_changes(attr=self._renamed(updated.attr))


def drop_aliases(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Drop ``self.context = context`` in trials, and what has no meaning without Determined."""
    return syntax.transformed(tree, _Aliases(file))


class _Aliases(LightningTransformer):
    def visit_Module(self, node: cst.Module) -> None:
        self._branches: set[cst.CSTNode] = set()
        self._used = _used_names(node, self.symbols)
        self._has_hparams = any(
            syntax.target_of(line) == "self.hparams"
            and self.symbols.method(syntax.call_of(line)) == "get_hparams"
            for line in syntax.find(node, cst.SimpleStatementLine)
        )

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        is_given = self._has_hparams and self.plan is not None and not updated.star
        if self.plan is None or not is_given or not m.matches(updated.value, _OWN_HPARAMS):
            return updated
        return updated.with_changes(value=self.plain_hparams(updated.value))

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        if self._holds_module(small):
            return _unregistered(updated)
        if isinstance(small, cst.Assign) and self.plan is not None:
            updated = self._without_aliases(updated, small)
        is_alias = isinstance(small, (cst.Assign, cst.AnnAssign)) and (
            self._is_alias(small) or self._is_mode(small)
        )
        is_dropped = self.symbols.method(syntax.lone_call(updated)) in _IS_DROPPED
        return cst.RemoveFromParent() if is_alias or is_dropped else updated

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
        if self.plan is None or small.value is None:
            return False
        target, value = _target(small), _without_cast(small.value)
        targets, values = syntax.parts(target), syntax.parts(value)
        if not all(m.matches(part, _OWN) for part in targets) or self._are_shared(targets):
            return False
        if isinstance(value, cst.Call):
            inner = value.args[0].value if len(value.args) == 1 else value
            name = syntax.code(value.func).rpartition(".")[2]
            asking = inner if name in _ATTRIBUTE_DICTS else value
            is_hparams = self.symbols.method(asking) == "get_hparams"
            return is_hparams and syntax.code(target) == "self.hparams"
        is_followed = self.symbols.is_followed
        return len(targets) == len(values) and all(map(is_followed, values, targets))

    def _are_shared(self, targets: Sequence[cst.BaseExpression]) -> bool:
        """Whether one is a variable of the file, or of a function around, which others read."""
        function = self.functions[-1] if self.functions else cst.Pass()
        items = [i for found in syntax.find(function, cst.Global) for i in found.names]
        items += [i for found in syntax.find(function, cst.Nonlocal) for i in found.names]
        shared = {item.name.value for item in items}
        return any(isinstance(one, cst.Name) and one.value in shared for one in targets)

    def _without_aliases(self, line: Line, small: cst.Assign) -> Line:
        """What is left of ``rows, ranks = read(), context.distributed``: ``rows = read()``."""
        target, value = small.targets[0].target, small.value
        targets, values = syntax.parts(target), syntax.parts(value)
        pairs = [*zip(targets, values, strict=False)]
        kept = [(t, v) for t, v in pairs if not self.symbols.is_followed(v, t)]
        if len(targets) != len(values) or len(kept) not in range(1, len(pairs)):
            return line
        changed = syntax.assignment(*map(_one_or_tuple, zip(*kept, strict=True)))
        return line.with_changes(body=[changed])

    def _holds_module(self, small: cst.BaseSmallStatement | None) -> bool:
        """Whether a torch module keeps a context, which is a module now, or a trial itself."""
        if not m.matches(small or cst.Pass(), _KEEPING) or not isinstance(small, cst.Assign):
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
        path = self.symbols.path(value) or ""
        is_unused = isinstance(target, cst.Name) and target.value not in self._used
        return is_unused and (path == STEP_MODE or path.startswith(f"{STEP_MODE}."))

    def _is_one_mode(self, node: cst.BaseExpression) -> bool:
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


def _unregistered(line: Line) -> cst.BaseStatement:
    """An assignment to an attribute that torch does not take for a submodule."""
    small = ensure_type(syntax.simple(line), cst.Assign)
    target = ensure_type(small.targets[0].target, cst.Attribute)
    owner, value = syntax.code(target.value), syntax.code(small.value)
    text = f'object.__setattr__({owner}, "{target.attr.value}", {value})'
    comment = cst.Comment("# no submodule, since it has this one in it")
    return line.with_changes(
        body=[cst.Expr(syntax.expression(text))],
        leading_lines=[*line.leading_lines, cst.EmptyLine(comment=comment)],
    )


def _one_or_tuple(values: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    return values[0] if len(values) == 1 else cst.Tuple([cst.Element(value) for value in values])
