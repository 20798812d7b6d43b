"""Names of a trial that mean something else on a LightningModule."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.syntax import code, find, methods

#: What ``pytorch_lightning.LightningModule`` has, but for the hooks that a migrated trial defines.
RESERVED = frozenset(
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
    """.split()  # noqa: SIM905
)
# a trial that has one means the module's
_SHARED = frozenset({"forward", "hparams_initial", "training"})


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Rename attributes and methods of trials that a LightningModule has for something else."""
    taken = {
        name
        for node in find(tree, cst.ClassDef)
        if node.name.value in file.plans
        for name in _own_names(node, file)
        if name in RESERVED - _SHARED
    }
    return tree.visit(_Renaming(file, taken)) if taken else tree


def _own_names(node: cst.ClassDef, file: File) -> set[str]:
    found = {*methods(node)}
    for target in _targets(node, file):
        parts = target.target
        elements = parts.elements if isinstance(parts, (cst.Tuple, cst.List)) else ()
        for part in (parts, *(e.value for e in elements)):
            if isinstance(part, cst.Attribute) and isinstance(part.value, cst.Name):
                found |= {part.attr.value} if part.value.value == "self" else set()
    return found


def _targets(node: cst.ClassDef, file: File) -> Iterator[cst.AssignTarget]:
    for assign in find(node, cst.Assign):
        called = file.symbols.called(assign.value)
        # a LightningModule has them under this name
        is_same = called is not None and called[1] == "get_hparams"
        for target in assign.targets:
            if not is_same or code(target.target) != "self.hparams":
                yield target


class _Renaming(cst.CSTTransformer):
    def __init__(self, file: File, taken: set[str]) -> None:
        self._file = file
        self._taken = taken
        self._in_trial = [False]

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._in_trial.append(node.name.value in self._file.plans)

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        self._in_trial.pop()
        return updated_node

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        name = updated_node.name.value
        if not self._in_trial[-1] or name not in self._taken:
            return updated_node
        return updated_node.with_changes(name=cst.Name(f"trial_{name}"))

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        name = updated_node.attr.value
        if not self._in_trial[-1] or name not in self._taken:
            return updated_node
        if not isinstance(original_node.value, cst.Name) or original_node.value.value != "self":
            return updated_node
        return updated_node.with_changes(attr=cst.Name(f"trial_{name}"))
