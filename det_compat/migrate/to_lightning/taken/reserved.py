"""Which names of trials a LightningModule has for something else."""

import ast
import builtins
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from det_compat.analysis.expressions import walked, words

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
#: What it keeps for itself: what a trial kept there would be taken for it, or take its place.
KEPT = words(
    """
    _apply _automatic_optimization _backward_hooks _backward_pre_hooks _buffers _call_batch_hook
    _call_impl _compiled_call_impl _compiler_ctx _current_fx_name _device _device_mesh _dtype
    _example_input_array _fabric _fabric_optimizers _forward_hooks _forward_hooks_always_called
    _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs _get_name
    _hparams _hparams_initial _hparams_name _is_full_backward_hook _jit_is_scripting
    _load_from_state_dict _load_state_dict_post_hooks _load_state_dict_pre_hooks _log_hyperparams
    _maybe_warn_non_full_backward_hook _metric_attributes _modules _named_members
    _non_persistent_buffers_set _on_before_batch_transfer _parameters _param_requires_grad_state
    _apply_batch_transfer_handler _get_backward_hooks _get_backward_pre_hooks
    _log_dict_through_fabric _register_load_state_dict_pre_hook _register_state_dict_hook
    _replicate_for_data_parallel _save_to_state_dict _set_hparams _slow_forward _state_dict_hooks
    _state_dict_pre_hooks _strict_loading _to_hparams_dict _trainer
    _verify_is_manual_optimization _version _wrapped_call_impl prepare_data_per_node
    """
)
#: What Lightning calls by itself, which nobody called of a trial.
HOOKS = words(
    """
    on_after_backward on_after_batch_transfer on_before_backward on_before_batch_transfer
    on_before_optimizer_step on_before_zero_grad on_fit_end on_fit_start on_load_checkpoint
    on_predict_batch_end on_predict_batch_start on_predict_end on_predict_epoch_end
    on_predict_epoch_start on_predict_model_eval on_predict_start on_save_checkpoint
    on_test_batch_end on_test_batch_start on_test_end on_test_epoch_end on_test_epoch_start
    on_test_model_eval on_test_model_train on_test_start on_train_batch_end on_train_batch_start
    on_train_end on_train_epoch_end on_train_epoch_start on_train_start on_validation_batch_end
    on_validation_batch_start on_validation_end on_validation_epoch_end
    on_validation_epoch_start on_validation_model_eval on_validation_model_train
    on_validation_model_zero_grad on_validation_start
    """
)
#: A module runs what a trial has under this name only where somebody calls the module.
_SHARED = "forward"
#: Dicts whose keys are attributes, as those of a module's hyperparameters are.
ATTRIBUTE_DICTS = words("AttrDict AttributeDict EasyDict edict")
_CHANGING = words("__dict__ update pop popitem setdefault clear")
#: What adds something to the hyperparameters of a module.
_SECTIONS = words("get_data_config get_experiment_config get_trial_seed")


def taken_names(
    nodes: Iterable[ast.ClassDef],
    *,
    hooked: Collection[ast.ClassDef] = (),
    nested: Callable[[], frozenset[str] | None],
    are_deep: bool = False,
) -> frozenset[str]:
    """The attributes and methods of trial classes that a LightningModule has for something else.

    Args:
        nodes: the trial classes.
        hooked: those of them that are callbacks, whose hooks are to be called.
        nested: tells which of their hyperparameters have others in them in some config; None where
            they have no config.
        are_deep: whether the dicts whose keys are attributes may make such dicts of those in them.
    """
    nodes = [*nodes]
    found = {name for node in nodes for name in _own_names(node)} & (RESERVED | KEPT)
    found |= {name for n in nodes if n not in hooked for name in _own_names(n)} & HOOKS
    wraps = any(_wraps_hparams(node) for each in nodes for node in walked(each))
    if wraps and not _are_plainly_used(nodes, nested, are_deep=are_deep):
        found.add("hparams")
    return frozenset(found)


def keeps_hparams(nodes: Iterable[ast.ClassDef]) -> bool:
    """Whether trials keep their hyperparameters, a plain dict, as modules have theirs."""
    lines = (line for node in nodes for line in walked(node))
    kept = (each for line in lines if not _wraps_hparams(line) for each in _same(line))
    return any(getattr(each, "attr", "") == "hparams" for each in kept)


def _own_names(node: ast.ClassDef) -> Iterator[str]:
    """The methods and attributes that a class defines, or sets of its objects."""
    owners = {"self", "cls"}
    for line in node.body:
        if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from () if line.name == _SHARED else [line.name]
            given = [*line.args.posonlyargs, *line.args.args][:1]
            is_static = any(ast.unparse(each) == "staticmethod" for each in line.decorator_list)
            owners |= set() if is_static else {each.arg for each in given}
        else:
            yield from _set_by(line)
    same = {id(target) for line in walked(node) for target in _same(line)}
    for each in walked(node):
        is_set = isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        if isinstance(each, ast.Attribute) and is_set and _owner(each) in owners:
            yield from () if id(each) in same else [each.attr]
        elif isinstance(each, ast.Call) and getattr(each.func, "id", "") == "setattr":
            if not {ast.unparse(owner) for owner in each.args[:1]} <= owners:
                continue
            names = [text.value for text in each.args[1:2] if isinstance(text, ast.Constant)]
            yield from [name for name in names if isinstance(name, str)]


def _set_by(line: ast.stmt) -> Iterator[str]:
    """The variables that a statement sets."""
    if isinstance(line, ast.ClassDef):
        yield line.name
    elif not (isinstance(line, ast.AnnAssign) and line.value is None):
        for each in ast.walk(line):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                yield each.id


def _same(line: ast.AST) -> Iterator[ast.expr]:
    """What a statement sets to what a module has under this name, too: hyperparameters, device."""
    if not isinstance(line, (ast.Assign, ast.AnnAssign)):
        return
    value = line.value.func if isinstance(line.value, ast.Call) else line.value
    same = ""
    if _wraps_hparams(line) or (isinstance(value, ast.Attribute) and value.attr == "get_hparams"):
        same = "hparams"
    elif isinstance(value, ast.Attribute) and "context" in ast.unparse(value.value):
        same = value.attr if value.attr == "device" else ""
    for target in line.targets if isinstance(line, ast.Assign) else [line.target]:
        parts = (part for part in ast.walk(target) if isinstance(part, ast.Attribute))
        yield from (part for part in parts if part.attr == same)


def _wraps_hparams(line: ast.AST) -> bool:
    """Whether this is ``self.hparams = AttrDict(context.get_hparams())``."""
    if not isinstance(line, ast.Assign) or [*map(ast.unparse, line.targets)] != ["self.hparams"]:
        return False
    call = line.value
    given = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 else None
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(given, ast.Call):
        return False
    name = ast.unparse(call.func).rpartition(".")[2]
    return name in ATTRIBUTE_DICTS and ast.unparse(given.func).endswith(".get_hparams")


def _are_plainly_used(
    nodes: Sequence[ast.ClassDef],
    nested: Callable[[], frozenset[str] | None],
    *,
    are_deep: bool,
) -> bool:
    """Whether trials do nothing with ``self.hparams`` which those of a module are different for."""
    every = [node for each in nodes for node in ast.walk(each)]
    around = {child: node for node in every for child in ast.iter_child_nodes(node)}
    owners = {ast.unparse(node.value) for node in every if isinstance(node, ast.Attribute)}
    is_handed_on = is_one_handed_on = False
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
            call = around.get(asked) if isinstance(asked, ast.keyword) else asked
            is_one_handed_on |= isinstance(call, ast.Call) and not _is_of_libraries(call)
            kept = {ast.unparse(each) for each in getattr(asked, "targets", ())}
            is_one_handed_on |= not owners.isdisjoint(kept)
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
        is_other = (is_handed_on and asks) or (is_one_handed_on and are_deep)
        return not is_other and not _unpacks_attributes(every)
    is_known = None not in asked_for or not inner
    return is_known and inner.isdisjoint(asked_for) and not (is_handed_on and (asks or inner))


def _is_of_libraries(call: ast.Call) -> bool:
    """Whether what is called takes numbers and texts, and no hyperparameters with others in them.

    It is Python's, one of the libraries that everyone uses, or a method of the dict.
    """
    name = ast.unparse(call.func)
    return name.startswith("self.hparams.") or name.partition(".")[0] in _LIBRARIES


_LIBRARIES = {*dir(builtins), *words("torch nn F optim np numpy math os")}


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
