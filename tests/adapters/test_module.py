from __future__ import annotations

import copy
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from det_compat import to_lightning
from det_compat.adapters.module import TrialModule
from det_compat.errors import InvalidExperimentException
from tests.adapters.trials import Linear, Normed, same, trainer, weights

LinearModule = to_lightning(Linear)
LINEAR = "tests.adapters.trials.Linear"


class AsksInInit(Linear):
    """Keeps what the context says while the trial is built."""

    def prepare(self) -> None:
        context = self.context
        self.seen = {
            "rank": context.distributed.get_rank(),
            "size": context.distributed.get_size(),
            "per_slot": context.get_per_slot_batch_size(),
            "device": context.device,
        }


class WithChoices(Linear):
    """Takes arguments of its own."""

    def __init__(self, context: Any, width: int, name: str = "plain") -> None:
        self.width, self.name = width, name
        super().__init__(context)


class Outer:
    class Nested(Linear):
        """A trial class inside another class."""


def saved(module: pl.LightningModule, path: Path, **flags: Any) -> str:
    used = trainer(**flags)
    used.fit(module)
    used.save_checkpoint(path)
    return str(path)


def in_child(module: TrialModule) -> tuple[str, float]:
    used = trainer()
    used.fit(module)
    return type(module).__name__, float(used.callback_metrics["validation_loss"])


# The class


def test_the_class_is_named_after_the_trial() -> None:
    assert LinearModule.__name__ == LinearModule.__qualname__ == "Linear"
    assert LinearModule.__module__ == Linear.__module__
    assert issubclass(LinearModule, TrialModule)
    assert issubclass(LinearModule, pl.LightningModule)


def test_one_class_for_each_trial() -> None:
    assert to_lightning(Linear) is LinearModule
    assert to_lightning(Normed) is not LinearModule


def test_the_class_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(LinearModule)) is LinearModule
    assert pickle.loads(pickle.dumps(TrialModule)) is TrialModule
    nested = to_lightning(Outer.Nested)
    assert pickle.loads(pickle.dumps(nested)) is nested


def test_a_subclass_of_the_users_own_can_be_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(Subclassed)) is Subclassed
    restored = pickle.loads(pickle.dumps(Subclassed(hparams={"lr": 0.1})))
    assert type(restored) is Subclassed


class Subclassed(LinearModule):
    """What a user makes who wants a hook of Lightning's."""

    started = 0

    def on_train_start(self) -> None:
        super().on_train_start()
        self.started += 1


def test_a_subclass_of_the_users_own_adds_hooks() -> None:
    module = Subclassed(hparams={"lr": 0.1})
    trainer().fit(module)
    assert module.started == 1
    assert module.trial.trained == [0, 1, 2, 3]


def test_a_module_can_be_pickled_before_fit() -> None:
    module = pickle.loads(pickle.dumps(LinearModule(hparams={"lr": 0.05})))
    trainer().fit(module)
    assert module.context.get_hparam("lr") == 0.05


def test_a_module_can_be_pickled_after_fit_with_its_weights() -> None:
    module = to_lightning(Normed)(hparams={"lr": 0.05})
    trainer().fit(module)
    pickled = pickle.loads(pickle.dumps(module))
    assert same(weights(module), weights(pickled))
    expected = trainer().validate(module, verbose=False)
    assert trainer().validate(pickled, verbose=False) == expected
    assert same(weights(module), weights(pickled))


def test_a_module_can_be_copied_and_pickled_while_it_trains() -> None:
    class Copies(pl.Callback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
            self.copies = [copy.deepcopy(pl_module), pickle.loads(pickle.dumps(pl_module))]

    copies = Copies()
    module = LinearModule(hparams={"lr": 0.05})
    trainer(callbacks=[copies]).fit(module)
    for found in copies.copies:
        assert same(weights(module), weights(found))
        trainer().fit(found)
        assert found.trial.trained == [0, 1, 2, 3]


@pytest.mark.usefixtures("spawned_by_fork")
def test_a_module_can_be_sent_to_a_spawned_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        name, loss = pool.apply(in_child, (LinearModule(hparams={"lr": 0.0}),))
    assert name == "Linear"
    assert loss > 0


# Arguments


def test_hparams_and_exp_conf_reach_the_context_as_copies() -> None:
    hparams, exp_conf = {"lr": 0.5}, {"data": {"url": "somewhere"}}
    module = LinearModule(hparams, exp_conf)
    trainer().fit(module)
    assert module.context.get_hparams() == hparams
    assert module.context.get_data_config() == exp_conf["data"]
    module.context.get_hparams()["lr"] = 1.0
    assert hparams == {"lr": 0.5}


def test_trial_kwargs_reach_the_trial() -> None:
    module = to_lightning(WithChoices)(hparams={}, width=3, name="wide")
    trainer().fit(module)
    assert (module.trial.width, module.trial.name) == (3, "wide")


def test_a_missing_trial_argument_is_the_trials_own_error() -> None:
    with pytest.raises(TypeError, match="width"):
        trainer().fit(to_lightning(WithChoices)(hparams={}))


@pytest.mark.parametrize(
    "arguments",
    [
        {"aggregation_frequency": 2},
        {"exp_conf": {"optimizations": {"aggregation_frequency": 2}}},
    ],
)
def test_aggregation_frequency_from_either_place(arguments: dict[str, Any]) -> None:
    module = LinearModule(hparams={}, **arguments)
    trainer().fit(module)
    assert module.context._aggregation_frequency == 2


def test_the_trial_seed_comes_from_the_experiment_config() -> None:
    module = LinearModule(hparams={}, exp_conf={"reproducibility": {"experiment_seed": 7}})
    trainer().fit(module)
    assert module.context.get_trial_seed() == 7


def test_the_trial_class_by_import_path() -> None:
    for path in (LINEAR, "tests.adapters.trials:Linear"):
        module = TrialModule(path, hparams={})
        trainer().fit(module)
        assert type(module.trial) is Linear


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("tests.adapters.trials.Missing", "'tests.adapters.trials.Missing'.*Missing"),
        ("no_such_package.Trial", "No module named 'no_such_package'"),
        ("Trial", "expected 'package.module.MyTrial'"),
        ("", "expected 'package.module.MyTrial'"),
    ],
)
def test_an_import_path_that_leads_nowhere(path: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        TrialModule(path)


# When the trial is built


def test_the_trial_is_built_once_ranks_and_device_are_known() -> None:
    module = to_lightning(AsksInInit)(hparams={"global_batch_size": 4})
    with pytest.raises(RuntimeError, match="has not built its trial yet"):
        module.trial  # noqa: B018
    with pytest.raises(RuntimeError, match="AsksInInit has not built its trial yet"):
        module.context  # noqa: B018
    trainer().fit(module)
    cpu = torch.device("cpu")
    assert module.trial.seen == {"rank": 0, "size": 1, "per_slot": 4, "device": cpu}


def test_missing_global_batch_size_is_an_error_before_training() -> None:
    module = to_lightning(AsksInInit)(hparams={"lr": 0.1})
    with pytest.raises(ValueError, match=r"global_batch_size.*hparams have only \['lr'\]"):
        trainer().fit(module)


def test_an_unknown_hparam_lists_those_that_exist() -> None:
    class Asks(Linear):
        def prepare(self) -> None:
            self.context.get_hparam("learning_rate")

    with pytest.raises(ValueError, match=r"'learning_rate'.*\['dropout', 'lr'\]"):
        trainer().fit(to_lightning(Asks)(hparams={"lr": 0.1, "dropout": 0.5}))


def test_a_bad_aggregation_frequency_is_an_error_before_training() -> None:
    with pytest.raises(InvalidExperimentException, match=r"aggregation_frequency.*0"):
        trainer().fit(LinearModule(hparams={}, aggregation_frequency=0))


def test_an_error_while_the_trial_is_built_surfaces_as_itself() -> None:
    class Broken(Linear):
        def prepare(self) -> None:
            raise LookupError("no such data")

    with pytest.raises(LookupError, match=r"^'?no such data'?$"):
        trainer().fit(to_lightning(Broken)(hparams={}))


# Checkpoints


@pytest.mark.parametrize("form", ["to_lightning", "TrialModule"])
def test_load_from_checkpoint_needs_nothing_else(form: str, tmp_path: Path) -> None:
    if form == "to_lightning":
        module_cls: type[TrialModule] = to_lightning(WithChoices)
        module = module_cls(hparams={"lr": 0.05}, exp_conf={"data": {"a": 1}}, width=2)
    else:
        module_cls, path = TrialModule, f"{__name__}.WithChoices"
        module = TrialModule(WithChoices, {"lr": 0.05}, {"data": {"a": 1}}, width=2)
        assert module.hparams["trial_cls"] == path
    checkpoint = saved(module, tmp_path / "model.ckpt")
    restored = module_cls.load_from_checkpoint(checkpoint)
    assert same(weights(module), weights(restored))
    assert restored.context.get_hparams() == {"lr": 0.05}
    assert restored.context.get_data_config() == {"a": 1}
    assert restored.trial.width == 2
    expected = trainer().validate(module, verbose=False)
    assert trainer().validate(restored, verbose=False) == expected


def test_a_loaded_module_can_be_trained_on(tmp_path: Path) -> None:
    checkpoint = saved(LinearModule(hparams={"lr": 0.05}), tmp_path / "model.ckpt")
    restored = LinearModule.load_from_checkpoint(checkpoint)
    before = weights(restored)
    trainer().fit(restored)
    assert restored.trial.trained == [0, 1, 2, 3]
    assert not same(before, weights(restored))


def test_hparams_can_be_overridden_when_loading(tmp_path: Path) -> None:
    checkpoint = saved(LinearModule(hparams={"lr": 0.05}), tmp_path / "model.ckpt")
    restored = LinearModule.load_from_checkpoint(checkpoint, hparams={"lr": 0.5})
    assert restored.trial.optimizer.param_groups[0]["lr"] == 0.5


def test_a_checkpoint_is_plain(tmp_path: Path) -> None:
    module = TrialModule(LINEAR, hparams={"lr": 0.05, "sizes": [1, 2]}, exp_conf={"name": "x"})
    checkpoint = torch.load(saved(module, tmp_path / "model.ckpt"), weights_only=True)
    stored = checkpoint["hyper_parameters"]
    assert stored["trial_cls"] == LINEAR
    assert stored["hparams"] == {"lr": 0.05, "sizes": [1, 2]}
    assert type(stored["hparams"]) is dict
    assert stored["exp_conf"] == {"name": "x"}
    assert stored["aggregation_frequency"] == 1
    assert list(checkpoint["state_dict"]) == ["models.0.weight", "models.0.bias"]


def test_the_hparams_are_logged(tmp_path: Path) -> None:
    logger = pl.loggers.CSVLogger(tmp_path, name="run")
    trainer(logger=logger).fit(LinearModule(hparams={"lr": 0.05}))
    assert "lr: 0.05" in (Path(logger.log_dir) / "hparams.yaml").read_text()


# LightningCLI


@pytest.fixture(autouse=True)
def no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py"])


def cli(arguments: list[str], *model: Any, **options: Any) -> Any:
    from pytorch_lightning.cli import LightningCLI

    quiet = [
        f"--trainer.{name}={value}"
        for name, value in {
            "accelerator": "cpu",
            "devices": 1,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "max_epochs": 1,
        }.items()
    ]
    extra = [] if "--print_config" in arguments else quiet
    options = {"seed_everything_default": False, **options}
    return LightningCLI(*model, args=[arguments[0], *extra, *arguments[1:]], **options)


def test_cli_of_a_made_class() -> None:
    arguments = ["fit", "--model.hparams.lr=0.25", "--model.hparams.layers=[1,2]"]
    made = cli(arguments, LinearModule, save_config_callback=None)
    assert made.model.context.get_hparams() == {"lr": 0.25, "layers": [1, 2]}
    assert made.model.trial.trained == [0, 1, 2, 3]


def test_cli_of_trial_module() -> None:
    arguments = [
        "fit",
        f"--model.trial_cls={LINEAR}",
        "--model.hparams.lr=0.25",
        "--model.aggregation_frequency=2",
    ]
    made = cli(arguments, TrialModule, save_config_callback=None)
    assert type(made.model.trial) is Linear
    assert made.model.context.get_hparam("lr") == 0.25
    assert made.model.context._aggregation_frequency == 2


def test_cli_subclass_mode() -> None:
    arguments = [
        "fit",
        "--model=det_compat.adapters.module.TrialModule",
        f"--model.trial_cls={LINEAR}",
        "--model.hparams={lr: 0.25}",
    ]
    made = cli(arguments, TrialModule, subclass_mode_model=True, save_config_callback=None)
    assert made.model.context.get_hparam("lr") == 0.25


def test_cli_saves_its_config_and_restores_from_it(tmp_path: Path) -> None:
    logger = '{"class_path": "CSVLogger", "init_args": {"save_dir": "logs", "name": "run"}}'
    arguments = ["fit", f"--model.trial_cls={LINEAR}", "--model.hparams.lr=0.25"]
    cli([*arguments, f"--trainer.logger={logger}"], TrialModule)
    [config] = Path("logs").rglob("config.yaml")
    again = cli(["fit", f"--config={config}"], TrialModule, save_config_callback=None)
    assert again.model.context.get_hparam("lr") == 0.25


@pytest.mark.parametrize(
    ("module_cls", "arguments"),
    [(LinearModule, []), (TrialModule, [f"--model.trial_cls={LINEAR}"])],
)
def test_cli_print_config(
    module_cls: type[TrialModule], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli(["fit", *arguments, "--model.hparams.lr=0.25", "--print_config"], module_cls)
    assert not stopped.value.code
    printed = capsys.readouterr().out
    assert "hparams:\n    lr: 0.25" in printed
    assert "aggregation_frequency: 1" in printed


# Fit and validate in any order


def test_fit_twice_with_the_same_trainer_starts_from_the_weights() -> None:
    module, used = LinearModule(hparams={}), trainer()
    used.fit(module)
    trial, first = module.trial, weights(module)
    used.fit_loop.max_epochs = 2
    used.fit(module)
    assert module.trial is trial
    assert trial.trained == [0, 1, 2, 3, 4, 5, 6, 7]
    assert not same(first, weights(module))
    assert trial.recorder.hooks().count("on_trial_shutdown") == 2


def test_fit_twice_with_new_trainers_counts_batches_from_zero() -> None:
    module = LinearModule(hparams={})
    trainer().fit(module)
    trainer().fit(module)
    assert module.trial.trained == [0, 1, 2, 3] * 2
    startups = [call for call in module.trial.recorder.calls if call[0] == "on_trial_startup"]
    assert startups == [("on_trial_startup", 0, None)] * 2


def test_validate_alone() -> None:
    module = LinearModule(hparams={})
    [metrics] = trainer().validate(module, verbose=False)
    assert list(metrics) == ["validation_loss"]
    recorder = module.trial.recorder
    assert module.trial.evaluated == [0, 1]
    assert recorder.hooks() == [
        "on_trial_startup",
        "on_validation_start",
        "on_validation_epoch_start",
        "on_validation_epoch_end",
        "on_validation_end",
        "on_trial_shutdown",
    ]
    reported = recorder.calls[-2][1]
    assert metrics["validation_loss"] == pytest.approx(float(reported["validation_loss"]))


def test_fit_after_validate() -> None:
    module = LinearModule(hparams={})
    trainer().validate(module, verbose=False)
    trainer().fit(module)
    assert module.trial.trained == [0, 1, 2, 3]
    assert module.trial.evaluated == [0, 1, 0, 1]


def test_validate_after_fit() -> None:
    module, used = LinearModule(hparams={}), trainer()
    used.fit(module)
    in_fit = float(used.callback_metrics["validation_loss"])
    before = weights(module)
    for each in (used, trainer()):
        [metrics] = each.validate(module, verbose=False)
        assert metrics["validation_loss"] == in_fit
    assert same(before, weights(module))


def test_the_same_seed_trains_the_same_weights() -> None:
    trained = []
    for _ in range(2):
        torch.manual_seed(3)
        module = to_lightning(Normed)(hparams={})
        trainer(max_epochs=2).fit(module)
        trained.append(weights(module))
    assert same(*trained)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
def test_a_compiled_model_trains_to_the_same_weights_and_resumes(tmp_path: Path) -> None:
    class Compiled(Linear):
        def __init__(self, context: Any) -> None:
            wrap = context.wrap_model
            context.wrap_model = lambda model: wrap(torch.compile(model, backend="eager"))
            super().__init__(context)

    found = []
    for trial_cls in (Linear, Compiled):
        torch.manual_seed(3)
        module = to_lightning(trial_cls)(hparams={})
        trainer(max_epochs=2).fit(module)
        found.append([parameter.detach().clone() for parameter in module.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    path = tmp_path / "compiled.ckpt"
    module.trainer.save_checkpoint(path)
    resumed = to_lightning(Compiled)(hparams={})
    trainer(max_epochs=3).fit(resumed, ckpt_path=path)
    assert resumed.trainer.global_step == 12
