from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from det_compat import pytorch
from det_compat.errors import InvalidCheckpointException, UnsafeCheckpointError
from det_compat.pytorch import CheckpointLoadContext, load_trial_from_checkpoint_path
from det_compat.pytorch.load import load_weights
from tests.checkpoint import makers
from tests.pytorch import one_weight
from tests.pytorch.libraries import Library

REAL = Path(__file__).parents[3] / "shared" / "checkpoints"
VERSIONS = ["0.13.13-pytorch-old", "0.17.6-pytorch", "0.21.0-pytorch"]

pytestmark = [
    # Lightning 2.6.6 with torch 2.13
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec"),
]


@pytest.fixture
def model_def(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of a user's script, which was started in its directory."""
    one_weight.write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("model_def")
    sys.modules.pop("model_def")


def trained(model_def: Any, cls: Any = None, **kwargs: Any) -> tuple[Any, Path]:
    """A trial and its checkpoint."""
    arguments = {"hparams": {"global_batch_size": 4}, "exp_conf": {"name": "x"}, **kwargs}
    with pytorch.init(**arguments) as context:
        trial = (cls or model_def.OneWeight)(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(2))
        (checkpoint,) = context._core.checkpoint.base_path.iterdir()
        return trial, checkpoint


def assert_same(trial: Any, other: Any) -> None:
    states = trial.model.state_dict(), other.model.state_dict()
    assert states[0].keys() == states[1].keys() and states[0]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_the_class_is_imported_from_the_checkpoint(model_def: Any) -> None:
    trial, checkpoint = trained(model_def)
    loaded = load_trial_from_checkpoint_path(str(checkpoint))
    assert type(loaded).__name__ == "OneWeight"
    assert type(loaded) is not model_def.OneWeight
    assert_same(trial, loaded)
    assert loaded.context.get_hparams() == {"global_batch_size": 4}
    assert loaded.context.get_experiment_config() == {"name": "x"}
    assert sys.modules["model_def"] is model_def


def test_a_class_inside_a_class(model_def: Any) -> None:
    trial, checkpoint = trained(model_def, model_def.Outer.Inner)
    loaded = load_trial_from_checkpoint_path(str(checkpoint))
    assert type(loaded).__qualname__ == "Outer.Inner"
    assert_same(trial, loaded)


def test_the_class_may_be_given(model_def: Any) -> None:
    trial, checkpoint = trained(model_def)
    shutil.rmtree(checkpoint / "code")
    loaded = load_trial_from_checkpoint_path(str(checkpoint), trial_class=model_def.OneWeight)
    assert type(loaded) is model_def.OneWeight
    assert_same(trial, loaded)


def test_without_hyperparameters(model_def: Any) -> None:
    class NoHparams(model_def.OneWeight):
        def loader(self) -> Any:
            return pytorch.DataLoader([(torch.ones(1), torch.ones(1))] * 4, batch_size=2)

        build_training_data_loader = build_validation_data_loader = loader

    trial, checkpoint = trained(model_def, NoHparams, hparams=None, exp_conf=None)
    loaded = load_trial_from_checkpoint_path(str(checkpoint), trial_class=NoHparams)
    assert_same(trial, loaded)
    with pytest.raises(ValueError, match="none were given"):
        loaded.context.get_hparams()


def test_trial_kwargs_go_to_the_trial(model_def: Any) -> None:
    _, checkpoint = trained(model_def)
    with pytest.raises(KeyError, match="user bug"):
        load_trial_from_checkpoint_path(str(checkpoint), trial_kwargs={"fail": True})
    with pytest.raises(RuntimeError, match="size mismatch"):
        load_trial_from_checkpoint_path(str(checkpoint), trial_kwargs={"width": 2})


def test_torch_load_kwargs_go_to_torch_load(
    model_def: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, checkpoint = trained(model_def)
    seen: list[dict[str, Any]] = []
    load = torch.load

    def spy(file: Any, **kwargs: Any) -> Any:
        seen.append(kwargs)
        return load(file, **kwargs)

    monkeypatch.setattr(torch, "load", spy)
    load_trial_from_checkpoint_path(
        str(checkpoint), torch_load_kwargs={"map_location": "cpu", "weights_only": False}
    )
    with pytest.warns(FutureWarning, match=r"torch_load_kwargs=\{'mmap': True\}") as told:
        loaded = load_trial_from_checkpoint_path(str(checkpoint), mmap=True)
    assert told[0].filename == __file__
    assert_same(trial, loaded)
    assert seen[0] == {"map_location": "cpu", "weights_only": False}
    assert seen[1] == {"map_location": "cpu", "weights_only": True, "mmap": True}


def test_both_ways_of_arguments(lib: Library, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="torch_load_kwargs"):
        lib.pytorch.load_trial_from_checkpoint_path(
            str(tmp_path), torch_load_kwargs={"map_location": "cpu"}, weights_only=True
        )


def test_code_that_cannot_be_imported(model_def: Any) -> None:
    _, checkpoint = trained(model_def)
    (checkpoint / "code" / "model_def.py").write_text("import a_package_that_is_not_here")
    with pytest.raises(
        ValueError, match=r"model_def:OneWeight from .*code; pass it as trial_class"
    ):
        load_trial_from_checkpoint_path(str(checkpoint))


def test_code_that_needs_determined(model_def: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, checkpoint = trained(model_def)
    monkeypatch.setitem(sys.modules, "pedl", None)
    (checkpoint / "code" / "model_def.py").write_text("import pedl")
    with pytest.raises(ValueError, match=r"imports pedl: call det_compat\.alias_determined\(\)"):
        load_trial_from_checkpoint_path(str(checkpoint))


@pytest.mark.parametrize("found", [[], ["weights.ckpt", "other"]])
def test_what_is_no_checkpoint(tmp_path: Path, found: list[str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in found:
        (folder / name).touch()
    with pytest.raises(InvalidCheckpointException) as caught:
        load_trial_from_checkpoint_path(str(folder))
    assert str(folder) in str(caught.value) and "state_dict.pth" in str(caught.value)
    assert str(caught.value).endswith(f"found {sorted(found) or 'nothing'}")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpointException, match="nowhere does not exist"):
        load_trial_from_checkpoint_path(str(tmp_path / "nowhere"))


def test_a_checkpoint_that_does_not_name_its_trial(tmp_path: Path) -> None:
    folder = makers.of_0_12(tmp_path / "old")
    with pytest.raises(InvalidCheckpointException, match="does not say its trial's class"):
        load_trial_from_checkpoint_path(str(folder))
    loaded: Any = load_trial_from_checkpoint_path(str(folder), trial_class=OneVar)
    assert loaded.model.weight.item() == 2


def test_it_is_logged_that_code_of_the_checkpoint_is_run(
    model_def: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, checkpoint = trained(model_def)
    caplog.clear()
    load_trial_from_checkpoint_path(str(checkpoint), trial_class=model_def.OneWeight)
    assert "code" not in caplog.text
    load_trial_from_checkpoint_path(str(checkpoint))
    assert f"runs code of the checkpoint, from {checkpoint}/code" in caplog.text


def test_files_are_read_before_code_is_imported(tmp_path: Path) -> None:
    folder = makers.of_0_38(
        tmp_path / "new", makers.state(callbacks=makers.Evil(tmp_path / "made"))
    )
    (folder / "code").mkdir()
    (folder / "code" / "model_def.py").write_text("raise SystemExit")
    with pytest.raises(UnsafeCheckpointError, match=r"posix\.mkdir"):
        load_trial_from_checkpoint_path(str(folder))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "how", [{"trust": True}, {"torch_load_kwargs": {"weights_only": False}}], ids=str
)
def test_a_checkpoint_that_is_trusted(tmp_path: Path, how: dict[str, Any]) -> None:
    folder = makers.of_0_38(
        tmp_path / "new", makers.state(callbacks=makers.Evil(tmp_path / "made"))
    )
    loaded: Any = load_trial_from_checkpoint_path(str(folder), trial_class=OneVar, **how)
    assert loaded.model.weight.item() == 2 and (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "name", ["determined/state_dict.pth", "pedl/state_dict.pth", "checkpoint.pt"]
)
@pytest.mark.parametrize("prefix", ["", "module."])
def test_older_places_of_the_weights(tmp_path: Path, name: str, prefix: str) -> None:
    weights = {f"{prefix}weight": torch.full((1, 1), 3.0)}
    makers.save({"model_state_dict": weights}, tmp_path / name, legacy=True)
    loaded: Any = load_trial_from_checkpoint_path(str(tmp_path), trial_class=OneVar)
    assert loaded.model.weight.item() == 3


class Determined012:
    def __init__(self, context: Any) -> None:
        self.context = context

    def build_model(self) -> nn.Module:
        return nn.Linear(1, 1, bias=False)

    def optimizer(self, model: nn.Module) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def train_batch(self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int) -> Any: ...
    def evaluate_batch(self, batch: Any, model: nn.Module) -> Any: ...
    def build_training_data_loader(self) -> Any: ...
    def build_validation_data_loader(self) -> Any: ...


class Pedl:
    def __init__(self, hparams: Any) -> None:
        assert hparams == {"size": 1}

    def build_model(self, hparams: Any) -> nn.Module:
        return nn.Linear(1, hparams["size"], bias=False)

    def optimizer(self, model: nn.Module) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def train_batch(self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int) -> Any: ...
    def evaluate_batch(self, batch: Any, model: nn.Module) -> Any: ...


class PedlStandard:
    def build_model(self, hparams: Any) -> nn.Module:
        return nn.Linear(1, hparams["size"], bias=False)

    def optimizer(self, model: nn.Module) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def losses(self, predictions: Any, labels: Any) -> Any: ...
    def validation_metrics(self, predictions: Any, labels: Any, losses: Any) -> Any: ...


@pytest.mark.parametrize("cls", [Determined012, Pedl, PedlStandard])
def test_trials_of_older_generations_give_their_model(tmp_path: Path, cls: Any) -> None:
    makers.save(makers.singular(3.0), tmp_path / "pedl" / "state_dict.pth", legacy=True)
    config = {"entrypoint": "model_def:Trial"}
    metadata = {"experiment_config": config, "hparams": {"size": 1}, "framework": "torch-1.4"}
    makers.as_json(metadata, tmp_path / "metadata.json")
    loaded: Any = load_trial_from_checkpoint_path(str(tmp_path), trial_class=cls)
    assert isinstance(loaded, nn.Linear) and loaded.weight.item() == 3


def test_metadata_without_a_trial(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text(json.dumps({"steps_completed": 7}))
    with pytest.raises(InvalidCheckpointException, match=r"found \['metadata.json'\]"):
        load_trial_from_checkpoint_path(str(tmp_path))


def test_a_checkpoint_of_two_ranks(two_ranks: list[dict[str, Any]]) -> None:
    (checkpoint,) = two_ranks[0]["trained"]["checkpoints"]
    saved = torch.load(Path(checkpoint) / "state_dict.pth", weights_only=False)
    assert all(name.startswith("module.") for name in saved["models_state_dict"][0])
    loaded: Any = load_trial_from_checkpoint_path(checkpoint)
    assert not isinstance(loaded.model, nn.parallel.DistributedDataParallel)
    for name, value in loaded.model.state_dict().items():
        assert torch.equal(value, two_ranks[0]["trained"]["state"][name]), name


class OneVar(pytorch.PyTorchTrial):
    """What Determined's own tests trained for the checkpoints of old versions."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.model = context.wrap_model(nn.Linear(1, 1, bias=False))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def train_batch(self, *args: Any, **kwargs: Any) -> Any: ...
    def build_training_data_loader(self) -> Any: ...
    def build_validation_data_loader(self) -> Any: ...


@pytest.mark.parametrize("version", VERSIONS)
def test_checkpoints_of_old_versions(version: str) -> None:
    if not (REAL / version).is_dir():
        pytest.skip(f"no {REAL / version}")
    trial: Any = load_trial_from_checkpoint_path(str(REAL / version), trial_class=OneVar)
    saved = torch.load(REAL / version / "state_dict.pth", weights_only=False)
    weight = saved["models_state_dict"][0]["weight"]
    assert torch.equal(trial.model.weight, weight) and weight.item() != 0
    if version != "0.21.0-pytorch":
        assert trial.context.get_per_slot_batch_size() == 32
        assert "searcher" in trial.context.get_experiment_config()


# CheckpointLoadContext


def test_models_stay_where_they_are_built(lib: Library) -> None:
    context = lib.pytorch.CheckpointLoadContext(hparams={"global_batch_size": 4}, exp_conf={"a": 1})
    model = nn.Linear(1, 1, device="meta")
    assert context.wrap_model(model) is model
    assert model.weight.device.type == "meta"
    assert context.models == [model]
    assert context.get_per_slot_batch_size() == 4
    assert context.get_experiment_config() == {"a": 1}


def test_it_can_step(lib: Library) -> None:
    context = lib.pytorch.CheckpointLoadContext()
    weight = nn.Parameter(torch.ones(1))
    optimizer = context.wrap_optimizer(torch.optim.SGD([weight], lr=1.0))
    context.backward(weight.sum())
    context.step_optimizer(optimizer)
    assert weight.item() == 0


def test_it_is_a_context_of_its_own() -> None:
    context = CheckpointLoadContext()
    assert isinstance(context, pytorch.PyTorchTrialContext)
    assert context.distributed.get_size() == 1


# load_weights


def one_weight_model(weight: float) -> nn.Module:
    linear = nn.Linear(1, 1, bias=False)
    nn.init.constant_(linear.weight, weight)
    return linear


class Distributed(nn.Module):
    """State names as DistributedDataParallel has them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@pytest.mark.parametrize("saved", [nn.Sequential, Distributed], ids=["single", "distributed"])
@pytest.mark.parametrize("wanted", [nn.Sequential, Distributed], ids=["single", "distributed"])
def test_weights_of_single_and_distributed_models(saved: Any, wanted: Any) -> None:
    def state_of(kind: Any, inner: nn.Module) -> nn.Module:
        return inner if kind is nn.Sequential else Distributed(inner)

    target = one_weight_model(0.0)
    state = {"models_state_dict": [state_of(saved, one_weight_model(7.0)).state_dict()]}
    load_weights([state_of(wanted, target)], state)
    assert next(target.parameters()).item() == 7


def test_a_model_whose_own_part_is_named_module() -> None:
    target = Distributed(one_weight_model(0.0))
    load_weights([target], {"models_state_dict": [Distributed(one_weight_model(3.0)).state_dict()]})
    assert next(target.parameters()).item() == 3


def test_models_without_state() -> None:
    load_weights([nn.MSELoss()], {"models_state_dict": [{}]})


def test_files_of_one_one_weight_model() -> None:
    target = one_weight_model(0.0)
    load_weights([target], {"model_state_dict": one_weight_model(2.0).state_dict()})
    assert next(target.parameters()).item() == 2


def test_another_number_of_models() -> None:
    with pytest.raises(ValueError, match="checkpoint has 1 models, the trial has 2"):
        load_weights(
            [one_weight_model(0.0), one_weight_model(0.0)],
            {"models_state_dict": [one_weight_model(1.0).state_dict()]},
        )


def test_other_weights_are_torchs_error() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        load_weights([one_weight_model(0.0)], {"models_state_dict": [nn.Linear(2, 1).state_dict()]})
