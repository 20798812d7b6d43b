from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from det_compat.catalog.members import (
    ARGUMENTS,
    MEMBERS,
    OTHERS,
    SUBCLASSED,
    TELLTALE,
    TYPES,
)
from det_compat.catalog.status import Status
from det_compat.catalog.support import of_argument, of_member
from tests.check.guide import anchors, rows

CONTEXT = "det_compat.pytorch.PyTorchTrialContext"
GOOD = (Status.SAME, Status.DIFFERENT)
# what adapters call, or set on the instance of the class
ELSEWHERE = {
    f"{CONTEXT}.model",
    f"{CONTEXT}.optimizer",
    f"{CONTEXT}.lr_scheduler",
    *(
        f"det_compat.pytorch.PyTorchCallback.{name}"
        for name in (
            "on_before_optimizer_step",
            "on_train_step_start",
            "on_train_step_end",
            "on_validation_step_start",
            "on_validation_step_end",
        )
    ),
    *(
        f"det_compat.pytorch.PyTorchTrial.{name}"
        for name in ("build_model", "optimizer", "create_lr_scheduler")
    ),
}


def load(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def has(owner: Any, name: str) -> bool:
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part)
    last = name.rpartition(".")[2]
    cls = owner if inspect.isclass(owner) else type(owner)
    inits = [vars(base).get("__init__") for base in cls.__mro__]
    annotated = {n for base in cls.__mro__ for n in getattr(base, "__annotations__", {})}
    set_there = any(last in i.__code__.co_names for i in inits if hasattr(i, "__code__"))
    return hasattr(owner, last) or set_there or last in annotated


REFUSING: dict[str, list[Any]] = {
    "from_horovod": [None],
    "from_deepspeed": [],
    "from_tf_config": [],
}


@pytest.mark.parametrize(
    "owner", sorted(set(MEMBERS) - {"det_compat.pedl.frameworks.pytorch.PyTorchTrial"})
)
def test_members_are_there_or_not(owner: str) -> None:
    cls = load(owner)
    for name, support in MEMBERS[owner].items():
        if f"{owner}.{name}" in ELSEWHERE or name.endswith(")"):
            continue
        if name in REFUSING:
            # there to raise an error that says what to do
            with pytest.raises(RuntimeError, match=r"MIGRATION\.md"):
                getattr(cls, name)(*REFUSING[name])
            continue
        assert has(cls, name) == (support.status in GOOD), name


HOROVOD = ["Compression", "DistributedOptimizer", "allgather", "broadcast", "init", "nccl_built"]
HOROVOD += ["broadcast_optimizer_state", "broadcast_parameters", "mpi_threads_supported"]
#: Of the EnvContext of Determined 0.12.3 to 0.38.1.
ENV = """
    allocation_id container_gpus container_id debug det_agent_id det_cluster_id det_experiment_id
    det_rendezvous_ports det_task_token det_trial_id det_trial_runner_network_interface
    det_trial_unique_port_offset experiment_config global_batch_size hparams initial_workload
    latest_batch latest_checkpoint managed_training master_addr master_cert_file master_cert_name
    master_port master_url on_cluster per_slot_batch_size rendezvous_ports slot_ids steps_completed
    test_mode training trial_run_id trial_seed use_gpu use_tls workload_manager_type
"""


@pytest.mark.parametrize("name", HOROVOD)
def test_what_else_horovod_has_is_refused(name: str) -> None:
    owner = "det_compat.horovod.hvd"
    assert of_member(owner, name).status is Status.REFUSED
    with pytest.raises(AttributeError, match=r"MIGRATION\.md"):
        getattr(load(owner), name)


@pytest.mark.parametrize("name", ENV.split())
def test_what_else_the_environment_had_is_refused(name: str) -> None:
    owner = "det_compat.pytorch.context.transitional.TrialEnv"
    assert of_member(owner, name).status is Status.REFUSED
    assert not has(load(owner), name)


def test_members_of_the_guide() -> None:
    short = {owner.rpartition(".")[2]: owner for owner in MEMBERS if ".pedl." not in owner}
    for row in rows():
        owner, _, name = row.name.rpartition(".")
        if owner not in short:
            continue
        if name == "distributed":
            # its own members have their own status
            continue
        assert of_member(short[owner], name).status.value == row.status, row


def test_every_row_of_the_guide_is_in_the_table() -> None:
    short = {owner.rpartition(".")[2]: owner for owner in MEMBERS if ".pedl." not in owner}
    members = {row.name for row in rows() if "." in row.name and "samplers" not in row.name}
    missing = {n for n in members if n.split(".")[1] not in MEMBERS[short[n.split(".")[0]]]}
    assert missing == set()


def test_links_lead_to_headings() -> None:
    supports = [s for members in MEMBERS.values() for s in members.values()]
    for support in (*supports, *OTHERS.values()):
        assert not support.link or support.link.partition("#")[2] in anchors(), support
        assert bool(support.note) == (support.status is not Status.SAME)


@pytest.mark.parametrize("function", ARGUMENTS)
def test_arguments_are_those_of_the_function(function: str) -> None:
    owner, _, name = function.rpartition(".")
    is_method = owner.rpartition(".")[2][:1].isupper()
    target = getattr(load(owner), name) if is_method else load(function)
    parameters = [name for name in inspect.signature(target).parameters if name != "self"]
    assert ARGUMENTS[function] == parameters


def test_types_and_telltales_are_members() -> None:
    for owner, name in TYPES:
        assert name in MEMBERS[owner] or owner in SUBCLASSED
    assert set(MEMBERS[CONTEXT]) >= set(TELLTALE)


@pytest.mark.parametrize(
    ("owner", "name", "status"),
    [
        (CONTEXT, "backward", Status.SAME),
        (CONTEXT, "_current_batch_idx", Status.SAME),
        (CONTEXT, "_use_apex", Status.REFUSED),
        (CONTEXT, "no_such_thing", Status.UNKNOWN),
        (CONTEXT, "__class__", Status.SAME),
        ("det_compat.pytorch.context.transitional.TrialEnv", "whatever", Status.REFUSED),
        ("det_compat.horovod.hvd", "whatever", Status.REFUSED),
        ("det_compat.pytorch.LRScheduler", "StepMode.STEP_EVERY_EPOCH.value", Status.SAME),
        ("determined.keras.TFKerasTrialContext", "wrap_model", Status.REFUSED),
    ],
)
def test_status_of_members(owner: str, name: str, status: Status) -> None:
    assert of_member(owner, name).status is status


def test_arguments_that_are_not_taken_are_refused() -> None:
    support = of_argument("det_compat.pytorch.Trainer.fit", "max_epochs")
    assert support is not None
    assert (support.status, "max_epochs" in support.note) == (Status.REFUSED, True)
    assert of_argument("det_compat.pytorch.Trainer.fit", "max_length") is None
    profiling = of_argument("det_compat.pytorch.Trainer.fit", "profiling_enabled")
    assert profiling is not None
    assert profiling.status is Status.DIFFERENT
