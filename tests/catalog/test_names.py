"""The table of ``check`` says what the code does."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
from typing import Any

import pytest

from det_compat.alias.module import names_of
from det_compat.catalog.names import EXPORTS, MODULES, REFUSED, SINGLE_NAMES
from det_compat.catalog.status import Status
from det_compat.catalog.support import home, of_name
from tests.check.guide import anchors, rows
from tests.preloaded import python


def supported_names() -> list[str]:
    """Names of Determined that the table says are there, one for each module that leads there."""
    modules = {module: target for module, target in MODULES.items() if target}
    return [
        *MODULES,
        *SINGLE_NAMES,
        *(f"{m}.{name}" for m, target in modules.items() for name in EXPORTS.get(target, {})),
    ]


#: Packages that the alias leaves to Python.
NOT_ALIASED = {"determined_cli", "determined_deploy", "model_hub"}
NOT_THERE = [
    *(name for name in REFUSED if name not in MODULES and name not in NOT_ALIASED),
    "determined.ExperimentConfig",
    "determined._core",
    "determined.cli",
    "determined.common.api",
    "determined.core.Searcher",
    "determined.deploy",
    "determined.estimator.EstimatorTrial",
    "determined.experimental.Determined",
    "determined.experimental.client",
    "determined.horovod.require_horovod_type",
    "determined.keras.TFKerasTrial",
    "determined.layers",
    "determined.pytorch._data._dataset_repro_warning",
    "determined.pytorch.deepspeed.DeepSpeedTrial",
    "determined.pytorch.dsat",
    "determined.pytorch.lightning.LightningAdapter",
    "determined.tensorboard.metric_writers.tensorflow",
    "determined.util.legacy_trial_entrypoint_to_script",
    "determined_common.api",
    "pedl.Categorical",
    "pedl.frameworks.keras",
    "pedl.frameworks.pytorch.Nothing",
]

# 0.38.1 warns of its own names as they are read.
_WARNS = pytest.mark.filterwarnings("ignore:.* is deprecated and will be removed:FutureWarning")

LOOK_UP = f"""
import importlib, json, sys
import det_compat
det_compat.alias_determined()

def error_of(name):
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
            for part in parts[end:]:
                value = getattr(value, part)
        except (ImportError, AttributeError) as error:
            message = str(error)
            if end == 1 or not any(w in message for w in ("det_compat has no", "not a package")):
                return message
            continue
        if type(value).__name__ == "DeterminedModule" and name not in modules:
            # It can be imported; what is in it refuses.
            return "det_compat has no use for it"
        is_stand_in = type(value).__module__ == "det_compat.alias.placeholders" or (
            callable(value) and "det_compat has no" in str(value.__doc__)
        )
        try:
            return value() or "" if is_stand_in else ""
        except RuntimeError as error:
            return str(error)
    return message

modules = {sorted(MODULES)!r}
supported, refused = {supported_names()!r}, {NOT_THERE!r}
print(json.dumps([{{name: error_of(name) for name in supported}},
                  {{name: error_of(name) for name in refused}}]))
"""


@pytest.fixture(scope="module")
def looked_up(tmp_path_factory: pytest.TempPathFactory) -> Any:
    done = python("-c", LOOK_UP, cwd=tmp_path_factory.mktemp("cwd"), side="neither")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_what_the_table_supports_is_there(looked_up: Any) -> None:
    supported, _ = looked_up
    assert {name: error for name, error in supported.items() if error} == {}
    assert {name for name in supported if of_name(name).status is Status.REFUSED} == set()


def test_what_the_table_refuses_raises(looked_up: Any) -> None:
    _, refused = looked_up
    assert [name for name, error in refused.items() if "det_compat has no" not in error] == []
    assert {name: of_name(name).status for name in NOT_THERE} == dict.fromkeys(
        NOT_THERE, Status.REFUSED
    )


@_WARNS
@pytest.mark.parametrize("module", sorted(EXPORTS))
def test_what_is_there_is_in_the_table(module: str) -> None:
    """But for what det_compat has and Determined has not."""
    there = importlib.import_module(module)
    assert [name for name in EXPORTS[module] if not hasattr(there, name)] == []
    for name in [name for name, target in MODULES.items() if target == module]:
        if not importlib.util.find_spec(name.partition(".")[0]):
            continue
        try:
            real = vars(importlib.import_module(name))
        except ImportError:  # of transformers, say
            continue
        public = {n for n in names_of(name) if not n.startswith("_") and n in real}
        submodules = {m.rpartition(".")[2] for m in MODULES if m.startswith(f"{name}.")}
        assert public - submodules <= set(EXPORTS[module])


@_WARNS
@pytest.mark.parametrize("module", [m for m, target in MODULES.items() if target])
def test_no_name_of_0_38_1_is_unknown(module: str) -> None:
    pytest.importorskip("determined")
    try:
        real = importlib.import_module(module)
    except ImportError:
        pytest.skip(f"determined 0.38.1 has no {module}")
    names = [n for n, v in vars(real).items() if not n.startswith("_") and not inspect.ismodule(v)]
    for name in names:
        assert of_name(f"{module}.{name}").status is not Status.UNKNOWN


def test_statuses_of_the_guide() -> None:
    for row in rows():
        if "." in row.name or "see [its table]" in row.reason:
            continue
        assert of_name(f"determined.pytorch.{row.name}").status.value == row.status, row


def test_links_lead_to_headings() -> None:
    supports = [*REFUSED.values(), *(s for names in EXPORTS.values() for s in names.values())]
    links = {support.link for support in supports} - {""}
    assert {link for link in links if link.partition("#")[2] not in anchors()} == set()
    for name in NOT_THERE:
        assert of_name(name).link.partition("#")[2] in anchors(), name


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("determined.pytorch.PyTorchTrial", "det_compat.pytorch.PyTorchTrial"),
        ("determined.pytorch._pytorch_trial.PyTorchTrial", "det_compat.pytorch.PyTorchTrial"),
        ("determined.TrialContext", "det_compat.pytorch.PyTorchTrialContext"),
        ("determined.pytorch.LRScheduler.StepMode", "det_compat.pytorch.LRScheduler.StepMode"),
        ("determined.pytorch", "det_compat.pytorch"),
        ("pedl.frameworks", "det_compat.pedl.frameworks"),
        ("determined.core.Nothing", None),
        ("model_hub.huggingface", None),
    ],
)
def test_home(name: str, where: str | None) -> None:
    assert home(name) == where


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("determined.util.legacy_trial_entrypoint_to_script", "det-compat fit CONFIG.yaml"),
        ("determined.searcher.SearchMethod", "det-compat search CONFIG.yaml"),
        ("determined.experimental.client.Determined", "local files"),
        ("determined.Categorical", "det-compat search CONFIG.yaml"),
        ("determined.pytorch._data._dataset_repro_warning", "private to Determined"),
        ("determined.Nope", "no release of Determined"),
    ],
)
def test_what_instead_is_said(name: str, advice: str) -> None:
    assert advice in of_name(name).note
