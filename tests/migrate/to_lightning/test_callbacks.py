from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, method, rewritten, trial

CALLBACK = """\
from determined.pytorch import PyTorchCallback

class Watch(PyTorchCallback):
    def {0}:
        print({1})


"""


def callback(tmp_path, signature: str, used: str = "0") -> str:
    source = CALLBACK.format(signature, used) + trial(
        (
            "    def evaluate_batch",
            "    def build_callbacks(self):\n        return {'w': Watch()}\n\n"
            "    def evaluate_batch",
        )
    )
    return rewritten(tmp_path, source)


@pytest.mark.parametrize(
    ("hook", "used", "is_said"),
    [
        ("on_validation_start(self)", "self.trial.ema.swap()", True),
        ("on_validation_epoch_start(self)", "self.ema", True),
        ("on_validation_start(self)", "self.trial.model", False),
        ("on_validation_end(self, metrics)", "self.ema", False),
    ],
)
@pytest.mark.parametrize("load", ["self.ema.load_state_dict(s)", "self.trial.ema.shadow = s"])
def test_what_validations_need_of_a_checkpoint_is_told(hook, used, is_said, load, tmp_path):
    """``load_from_checkpoint`` gives no callback its state."""
    made = callback(
        tmp_path, hook, f"{used})\n\n    def load_state_dict(self, s):\n        {load}\n#"
    )
    said = "    # trainer.validate() the file as ckpt_path=\n    def load_state_dict(self, s):"
    assert (said in made) is is_said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("on_training_start(self)", "on_train_start(self, trainer, pl_module)"),
        (
            "on_training_epoch_start(self, epoch_idx)",
            "on_train_epoch_start(self, trainer, pl_module)",
        ),
        ("on_validation_end(self, metrics)", "on_validation_end(self, trainer, pl_module)"),
        ("on_trial_shutdown(self)", "on_fit_end(self, trainer, pl_module)"),
        (
            "on_checkpoint_save_start(self, checkpoint)",
            "on_save_checkpoint(self, trainer, pl_module, checkpoint)",
        ),
    ],
)
def test_hooks(tmp_path, old, new):
    made = callback(tmp_path, old)
    assert f"    def {new}:" in made
    assert "class Watch(pl.Callback):" in made
    assert "return [Watch()]" in method(made, "configure_callbacks")
    assert "MIGRATE" not in made


def test_a_hook_that_determined_had_ceased_to_call_is_marked(tmp_path):
    made = callback(tmp_path, "on_before_optimizer_step(self, parameters)", "parameters")
    assert "    # MIGRATE: Lightning calls this, and Determined has not since 0.12.13; see " in made
    assert "    def on_before_optimizer_step(self, trainer, pl_module, optimizer):\n" in made
    assert '[p for group in optimizer.param_groups for p in group["params"]]' in made


def test_what_hooks_were_given(tmp_path):
    made = callback(tmp_path, "on_training_epoch_end(self, epoch)", "epoch")
    assert "        epoch = trainer.current_epoch\n        print(epoch)" in made
    made = callback(tmp_path, "on_validation_end(self, results)", "keep(results['error'])")
    numbers = "{name: np.float64(value.item()) for name, value in trainer.callback_metrics.items()}"
    assert f"        results = {numbers}\n" in made
    assert made.startswith("import numpy as np\n")


@pytest.mark.parametrize(
    ("used", "after", "is_plain"),
    [
        ("results['error']", "results['error']", True),
        ("results['error'].item()", "results['error']", True),
        ("results.get('error', 0).item()", "results.get('error', 0)", True),
        ("np.mean(results['error'])", "np.mean(results['error'])", True),
        ("results['error'].round(2)", "results['error'].round(2)", False),
        ("results['error'].squeeze()", "results['error'].squeeze()", False),
        ("results, self.best.item()", "results, self.best.item()", False),
    ],
)
def test_metrics_that_go_into_a_checkpoint_are_plain_numbers(used, after, is_plain, tmp_path):
    """Lightning loads no numbers of NumPy from there."""
    state = "        return None\n\n    def state_dict(self):\n        return {'best': self.best}"
    line = f"{used})\n{state}\n\n    def f(self):\n        print(1"
    made = callback(tmp_path, "on_validation_end(self, results)", line)
    assert f"print({after})" in made
    assert ("{name: value.item() for name, value in" in made) is is_plain
    assert ("np.float64" in made) is not is_plain
    said = "    # Lightning loads no numbers of NumPy from a checkpoint: return plain ones\n"
    is_said = not is_plain or "np.mean" in used
    assert (f"{said}    def state_dict(self):" in made) is is_said
    line = line.replace("self.best}", "float(self.best)}")
    made = callback(tmp_path, "on_validation_end(self, results)", line)
    assert said not in made
    assert rewritten(tmp_path, made) == made


def test_a_state_that_has_no_metrics_needs_no_word_of_numpy(tmp_path):
    state = (
        "        return None\n\n    def state_dict(self):\n        return {'shadow': self.shadow}"
    )
    line = f"self.shadow.squeeze())\n{state}\n\n    def f(self):\n        print(1"
    assert "NumPy" not in callback(tmp_path, "on_validation_end(self, metrics)", line)


@pytest.mark.parametrize(
    ("line", "is_early"),
    [
        ("self.seen = epoch_idx", False),
        ("self.seen.append(epoch_idx)", False),
        ("self.trial.seen = epoch_idx", True),
        ("self.trial.model.reset(epoch_idx)", True),
    ],
)
def test_an_epoch_starts_behind_its_first_batch_and_ends_before_its_validation_if_that_matters(
    line, is_early, tmp_path
):
    made = callback(tmp_path, "on_training_epoch_end(self, epoch_idx)", f"0)\n        {line}\n#")
    early = """\
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if not trainer.is_last_batch:
            return
        epoch_idx = trainer.current_epoch
"""
    late = "    def on_train_epoch_end(self, trainer, pl_module):\n"
    assert (early in made, late in made) == (is_early, not is_early)
    # Determined had fetched the first batch of an epoch by the time it said that one starts.
    made = callback(tmp_path, "on_training_epoch_start(self, epoch_idx)", f"0)\n        {line}\n#")
    fetched = """\
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx > 0:
            return
        epoch_idx = trainer.current_epoch
"""
    plain = "    def on_train_epoch_start(self, trainer, pl_module):\n"
    assert (fetched in made, plain in made) == (is_early, not is_early)


def test_what_lightning_sets_on_callbacks_has_another_name(tmp_path):
    made = callback(tmp_path, "__init__(self)", "0)\n        self.log = []\n#")
    assert "        self.own_log = []\n" in made
    made = callback(tmp_path, "setup(self, folder)", "folder")
    assert "    def own_setup(self, folder):\n" in made
    # A hook of Lightning's alone was called by nobody but the file itself.
    made = callback(tmp_path, "on_train_epoch_start(self, epoch_idx)", "epoch_idx")
    assert "    def own_on_train_epoch_start(self, epoch_idx):\n" in made


def test_hooks_that_lightning_does_not_have(tmp_path):
    used = "os.listdir(checkpoint_dir)"
    made = callback(tmp_path, "on_checkpoint_write_end(self, checkpoint_dir)", used)
    assert "    # MIGRATE: Lightning has no hook after a checkpoint is written" in made
    assert "    def on_checkpoint_write_end(self, checkpoint_dir):" in made
    made = callback(tmp_path, "on_checkpoint_upload_end(self, uuid)", "uuid")
    assert "    # MIGRATE: Lightning has no hook after a checkpoint is written" in made


def test_a_docstring_stays_the_first_of_a_hook(tmp_path):
    made = callback(
        tmp_path, 'on_validation_end(self, metrics):\n        """Print."""\n#', "metrics"
    )
    assert '"""Print."""\n        metrics = {name: value.item() for name' in made


@pytest.mark.parametrize(
    ("lines", "is_plain"),
    [
        ("print(metrics['error'] < self.best - 0.02)", True),
        ("self.best = float(metrics['error'])", True),
        ("self.best = metrics['error']", False),
        ("found = metrics['error']\nif found < self.best:\n    self.best = float(found)", True),
        ("found = metrics['error']\nif found < self.best:\n    self.best = found", False),
        ("found = metrics['error'].item()\nprint(f'{found:.3f}')", True),
        ("self.rows.append({k: float(v) for k, v in metrics.items()})", True),
        ("self.rows.append({k: v for k, v in metrics.items()})", False),
        ("self.rows.append(dict(metrics))", False),
        ("for name, value in metrics.items():\n    print('%s: %.3f' % (name, value))", True),
        ("print(round(metrics['error'] * 100, 2), 'error' in metrics, len(metrics))", True),
        ("self.best = float(min(self.best, metrics.get('error', 1.0)))", True),
        ("self.best = min(self.best, metrics['error'])", False),
        ("print(metrics['error'] / self.all)", True),
        ("print(1 / metrics['error'], metrics['error'] ** 0.5)", False),
        ("print(metrics['error'].mean())", False),
        ("self.tell(metrics)", False),
        ("self.tell(metrics['error'])", False),
        ("self.trial.plateau.step(metrics[self.metric])", True),
        ("self.early.step(metrics['error'])", False),
        ("return metrics['error']", False),
        ("assert not np.isnan(metrics['error'])", True),
        ("metrics = dict(metrics)\nself.tell(metrics['error'])", False),
        ("print(json.dumps(metrics, indent=2))", True),
    ],
)
def test_metrics_are_numpys_where_it_may_matter(lines, is_plain, tmp_path):
    lines = lines.replace("\n", "\n        ")
    made = callback(tmp_path, "on_validation_end(self, metrics)", f"0)\n        {lines}\n#")
    assert ("{name: value.item() for name, value in trainer.callback_metrics" in made) is is_plain
    assert ("np.float64" in made) is not is_plain


def test_arguments_that_lightning_does_not_have(tmp_path):
    made = callback(tmp_path, "on_trial_startup(self, uuid)", "uuid")
    assert "    # MIGRATE: Lightning calls on_fit_start instead, with other arguments" in made
    assert "    def on_trial_startup(self, uuid):" in made


STARTS = "self.on_trial_startup(trainer.fit_loop.total_batch_idx + 1, trainer.ckpt_path)\n"


@pytest.mark.parametrize(
    ("given", "more", "hook"),
    [
        ("self, first, uuid", "", f"        {STARTS}"),
        ("self, *args", "", f"        {STARTS}"),
        (
            "self, first_batch_idx, checkpoint_uuid",
            "    def on_training_start(me):\n        me.n = 1\n",
            f"        {STARTS.replace('self', 'me')}        me.n = 1\n",
        ),
    ],
)
def test_a_start_that_lightning_has_no_hook_for_is_called_by_another(tmp_path, given, more, hook):
    source = "from determined.pytorch import PyTorchCallback\n\n\nclass C(PyTorchCallback):\n"
    starting = (
        f"    def on_trial_startup({given}):\n        print({given.split()[-1].strip('*')})\n"
    )
    made = rewritten(tmp_path, f"{source}{more}{starting}")
    assert starting in made and "MIGRATE" not in made
    me = "me" if more else "self"
    assert f"    def on_train_start({me}, trainer, pl_module):\n{hook}" in made


@pytest.mark.parametrize(
    ("hook", "call"),
    [
        ("on_training_workload_end(self, avg_metrics, batch_metrics)", "avg_metrics, batch"),
    ],
)
def test_training_metrics_come_after_each_epoch(tmp_path, hook, call):
    made = callback(tmp_path, hook, "avg_metrics")
    assert f"    def {hook}:\n        print(avg_metrics)" in made, made
    assert "class Watch(TrainingReport):" in made
    assert f"            self.{hook.partition('(')[0]}({call}" in made
    assert "MIGRATE" not in made


def test_training_metrics_of_a_run_that_resumes_in_the_middle_of_an_epoch(tmp_path, capsys):
    made = callback(tmp_path, "on_training_workload_end(self, avg, each)", "avg, len(each)")
    module: dict[str, Any] = {}
    exec(made, module)
    watch = module["Watch"]()
    for index, loss in enumerate([2.0, 4.0], start=3):
        trainer = SimpleNamespace(
            callback_metrics={"loss": loss}, is_last_batch=index == 4, should_stop=False
        )
        watch.on_train_batch_end(trainer, None, None, None, index)
    assert capsys.readouterr().out == "{'loss': 3.0} 2\n"


def test_a_callback_of_steps_is_told_how_many_records_they_had(tmp_path, capsys):
    hook = "on_train_step_end(self, step_id, metrics)"
    made = callback(tmp_path, hook, 'step_id, metrics["num_inputs"], metrics["avg_metrics"]')
    module: dict[str, Any] = {}
    exec(made, module)
    watch = module["Watch"]()
    for epoch in range(2):
        for index, size in enumerate((4, 3)):
            trainer = SimpleNamespace(
                callback_metrics={"loss": size},
                is_last_batch=index == 1,
                should_stop=False,
                current_epoch=epoch,
            )
            watch.on_train_batch_end(trainer, None, None, [torch.ones(size, 2)], index)
    told = "7 {'loss': 3.5}"
    assert capsys.readouterr().out == f"1 {told}\n2 {told}\n"


@pytest.mark.parametrize(
    ("hook", "line", "said"),
    [
        ("on_training_workload_end(self, avg_metrics, batch_metrics)", "self.told += 1", 1),
        ("on_train_step_end(self, step_id, metrics)", "self.told += step_id", 3),
    ],
)
def test_a_hook_that_uses_no_training_metrics_is_lightning_s(tmp_path, hook, line, said):
    made = watched(tmp_path, f"    def {hook}:\n        {line}\n")
    assert "class Watch(pl.Callback):" in made and "TrainingReport" not in made
    space: dict[str, Any] = {"__name__": "made"}
    exec(made, space)
    watch = space["Watch"](None)
    watch.told = 0
    for is_last, should_stop, told in ((False, False, 0), (True, False, said), (False, True, said)):
        trainer = SimpleNamespace(is_last_batch=is_last, should_stop=should_stop, current_epoch=2)
        watch.told = 0
        watch.on_train_batch_end(trainer, None, None, None, 1)
        assert watch.told == told


@pytest.mark.parametrize(
    "more",
    [
        "\n\nclass More(Watch):\n    pass\n",
        "\n\ndef call(watch):\n    watch.on_training_workload_end({}, [])\n",
        "\n\nclass More(Watch):\n    def on_training_workload_end(self, a, b):\n        print(a)\n",
    ],
)
def test_a_hook_that_others_call_or_have_is_told_all_the_same(tmp_path, more):
    hook = "    def on_training_workload_end(self, avg, each):\n        print(1)\n"
    made = watched(tmp_path, hook, ("\n\nclass Trial", f"{more}\n\nclass Trial"))
    assert "class Watch(TrainingReport):" in made


def test_a_base_that_reports_is_enough(tmp_path):
    source = CALLBACK.format("on_training_workload_end(self, avg_metrics, b)", "b")
    source += "class More(Watch):\n    def on_training_workload_end(self, a, b):\n        pass\n\n"
    made = rewritten(tmp_path, source + trial())
    assert "class Watch(TrainingReport):" in made
    assert "class More(Watch):" in made


def test_callbacks_that_are_no_literal(tmp_path):
    source = trial(
        (
            "    def evaluate_batch",
            "    def build_callbacks(self):\n        return make()\n\n    def evaluate_batch",
        )
    )
    assert "return list(make().values())" in rewritten(tmp_path, source)


def test_numbers_that_a_callback_adds_are_logged(tmp_path):
    source = """\
from determined.pytorch import PyTorchCallback


class C(PyTorchCallback):
    def on_validation_end(self, metrics):
        self.end()
        metrics["n"] = self.last.item()

    def on_validation_epoch_end(self, outputs):
        self.count()
"""
    made = rewritten(tmp_path, source)
    assert made.endswith("""\
class C(pl.Callback):
    def on_validation_epoch_end(self, trainer, pl_module):
        self.count()
        self.end()
        pl_module.log("n", self.last.item())
""")


@pytest.mark.parametrize("line", ['metrics["a"] = text', 'metrics.update({"a": 1})'])
def test_metrics_that_a_callback_adds_are_left_to_the_reader(line, tmp_path):
    source = (
        "from determined.pytorch import PyTorchCallback\n\n\n"
        f"class C(PyTorchCallback):\n    def on_validation_end(self, metrics):\n        {line}\n"
    )
    made = rewritten(tmp_path, source)
    assert "    # MIGRATE: what is put into the metrics here is not logged; see " in made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "def on_trial_startup(self, first_batch_idx, checkpoint_uuid):\n        print(1)\n",
            "def on_fit_start(self, trainer, pl_module):\n        print(1)\n",
        ),
        (
            "def on_trial_startup(self, first_batch_idx, checkpoint_uuid):\n"
            "        print(first_batch_idx)\n",
            "def on_train_start(self, trainer, pl_module):\n"
            "        first_batch_idx = trainer.fit_loop.total_batch_idx + 1\n"
            "        print(first_batch_idx)\n",
        ),
    ],
)
def test_a_start_that_asks_where_it_is_comes_once_lightning_knows(before, after, tmp_path):
    head = "from determined.pytorch import PyTorchCallback\n\n\nclass C(PyTorchCallback):\n    "
    made = rewritten(tmp_path, head + before)
    assert made.endswith(f"class C(pl.Callback):\n    {after}")


def test_callbacks_under_a_condition(tmp_path):
    builds = (
        "    def evaluate_batch",
        """    def build_callbacks(self):
        return {"c": Counting()} if self.context.get_hparam("count") else {}

    def evaluate_batch""",
    )
    made = rewritten(tmp_path, trial(builds))
    assert "return [Counting()] if self.hparams.count else []" in made


LOSS = 'return {"error": self.model(batch).sum()}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('print(metrics["loss"])', 'print(metrics["val_loss"])'),
        ('print(metrics.get("loss"), "b" in metrics)', 'print(metrics.get("val_loss"), "b" in'),
        (
            "print({**metrics})",
            'logged = {"b": "b", "loss": "val_loss"}\n    '
            "metrics = {name: metrics[new] for name, new in logged.items() if new in metrics}",
        ),
    ],
)
def test_metrics_are_asked_for_by_the_names_that_they_are_logged_under(before, after, tmp_path):
    change = (LOSS, 'return {"loss": self.model(batch).sum(), "b": 1.0}')
    source = CALLBACK.format("on_validation_end(self, metrics)", "0") + trial(change)
    made = rewritten(tmp_path, source.replace("print(0)", before))
    assert after in method(made, "on_validation_end")
    assert "MIGRATE" not in made


def test_callbacks_are_made_before_optimizers(tmp_path):
    build = "    def build_callbacks(self):\n        return {'w': Watch(self.opt)}\n\n"
    change = ("    def evaluate_batch", f"{build}    def evaluate_batch")
    made = rewritten(tmp_path, CALLBACK.format("on_training_start(self)", "0") + trial(change))
    assert "self.opt = torch.optim.SGD" in method(made, "__init__")


TIMER = """\
from determined.pytorch import PyTorchCallback


class Timer(PyTorchCallback):
    def setup(self, name):
        self.name = name

    def log(self, value):
        print(self.name, value)


class Loud(Timer):
    def on_training_start(self):
        self.log("start")


def ready():
    timer = Loud()
    timer.setup("t")
    return timer
"""


def test_methods_of_callbacks_that_lightning_has_too_are_renamed_wherever_they_are_called(tmp_path):
    (tmp_path / "timing.py").write_text(TIMER)
    others = "self.others[0].log(1)\n        torch.log(batch)\n        "
    source = trial(
        ("lr=0.1))\n", "lr=0.1))\n        self.timer = timing.ready()\n"),
        ("        loss = ", "        self.timer.log(batch_idx)\n        loss = "),
        ('return {"error"', f'{others}return {{"error"'),
        header=f"import timing\n{HEADER}",
    )
    found = {file.path.name: file.after.decode() for file in _migrated(tmp_path, source)}
    timing, made = found["timing.py"], found["model_def.py"]
    assert timing.count("own_setup(") == timing.count("own_log(") == 2
    assert "def setup" not in timing and "self.timer.own_log(self.global_step)" in made
    mark = "        # MIGRATE: log of a callback is own_log now; see"
    assert (
        f"{mark} MIGRATION.md#what-migrate-leaves-to-you\n        self.others[0].log(1)\n" in made
    )
    assert made.count("MIGRATE") == 1


def test_a_trial_that_is_a_callback_is_marked(tmp_path):
    change = ("class Trial(PyTorchTrial)", "class Trial(PyTorchTrial, PyTorchCallback)")
    header = f"from determined.pytorch import PyTorchCallback\n{HEADER}"
    made = rewritten(tmp_path, trial(change, header=header))
    assert "# MIGRATE: a module cannot be a callback" in made and made.count("MIGRATE") == 1


def _migrated(folder, source):
    (folder / "model_def.py").write_text(source)
    return migrate([str(folder)], "lightning").files


WATCHED = """\
from determined.pytorch import PyTorchCallback

class Watch(PyTorchCallback):
    def __init__(self, trial):
        self.trial, self.count = trial, 0
{0}

"""


def watched(tmp_path, hooks: str, *changes: tuple[str, str]) -> str:
    build = "    def build_callbacks(self):\n        return {'w': Watch(self)}\n\n"
    change = ("    def build_training", f"{build}    def build_training")
    return rewritten(tmp_path, WATCHED.format(hooks) + trial(*changes, change))


@pytest.mark.parametrize("hook", ["on_validation_epoch_start(self)", "on_validation_start(self)"])
def test_hooks_of_batches_were_not_called_where_a_whole_dataset_is_evaluated(hook, tmp_path):
    whole = ("evaluate_batch(self, batch)", "evaluate_full_dataset(self, data_loader)")
    of_whole = ('{"error": self.model(batch).sum()}', '{"error": 1.0}')
    made = watched(tmp_path, f"    def {hook}:\n        self.count += 1\n", whole, of_whole)
    is_marked = "MIGRATE: Lightning calls this, and Determined did not where a trial" in made
    assert is_marked == ("epoch" in hook)


def test_what_ends_an_epoch_comes_before_its_metrics_are_told(tmp_path):
    hooks = """\
    def on_training_epoch_end(self, epoch_idx):
        self.trial.scale = epoch_idx

    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self.trial.scale *= 2
"""
    made = method(watched(tmp_path, hooks).partition("class Watch")[2], "on_train_batch_end")
    assert made == (
        "def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):\n"
        "    if trainer.is_last_batch:\n"
        "        epoch_idx = trainer.current_epoch\n"
        "        self.trial.scale = epoch_idx\n"
        "    super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)"
    )


@pytest.mark.parametrize(
    ("reading", "hook"),
    [
        ("on_validation_end(self, metrics)", "on_train_batch_end"),
        ("on_training_workload_end(self, avg_metrics, batch_metrics)", "on_train_batch_end"),
        ("on_training_start(self)", "on_train_epoch_end"),
    ],
)
def test_what_an_epoch_s_end_keeps_is_there_for_hooks_that_came_after_it(reading, hook, tmp_path):
    hooks = f"""\
    def on_training_epoch_end(self, epoch_idx):
        self.count += 1

    def {reading}:
        print(self.count)
"""
    assert f"    def {hook}(self, trainer" in watched(tmp_path, hooks).partition("class Watch")[2]


def test_training_metrics_are_told_without_those_of_validations(tmp_path):
    hooks = "    def on_training_workload_end(self, avg, each):\n        print(avg)\n"
    made = watched(tmp_path, hooks)
    assert "            self.training_names = [*metrics]\n" in made
    assert "{name: float(metrics[name]) for name in self.training_names}" in made


TWO = """\
from determined.pytorch import PyTorchCallback


class First(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self.trial.scale = 2


class Second(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_training_epoch_end(self, epoch_idx):
        {}


"""


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [
        ("self.trial.scale = epoch_idx", True),
        ("self.trial.scale *= 0.5", True),
        ("self.trial.other = epoch_idx", False),
        ("self.scale = epoch_idx", False),
        ("print(self.trial.scale == 2)", False),
    ],
)
def test_what_two_callbacks_set_as_training_ends_is_marked(tmp_path, line, is_marked):
    made = rewritten(tmp_path, TWO.format(line) + trial())
    for name in ("First", "Second"):
        said = f"# MIGRATE: {name} sets scale, too, as a period of training ends"
        assert (said in made) == is_marked


@pytest.mark.parametrize(
    "built",
    [
        "return {'w': Watch(self)}",
        "watch = Watch(self)\n        return {'w': watch}",
        "callbacks = {}\n        callbacks['w'] = Watch(self)\n        return callbacks",
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_callback_that_nobody_has_read_is_marked(built, is_there, tmp_path):
    if is_there:
        (tmp_path / "watching.py").write_text(CALLBACK.format("__init__(self, trial)", "trial"))
    source = trial(
        ("    def evaluate_batch", f"    def build_callbacks(self):\n        {built}\n\n    def e")
    ).replace("def e(", "def evaluate_batch(")
    made = rewritten(tmp_path, f"from watching import Watch\n{source}")
    said = "# MIGRATE: Watch is in none of these files, and has to be a callback of Lightning"
    assert (said in made) is not is_there


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("print(self.trial.model(1).sum())", True),
        ("self.trial.evaluate_batch(1)", True),
        ("torch.jit.trace(self.trial.model, 1)", True),
        ("self.tell()", True),
        ("torch.save(self.trial.model.state_dict(), 'x.pt')", False),
        ("self.trial.model.save_pretrained('x')", False),
        ("print(self.trial.model)", False),
    ],
)
def test_models_are_in_the_mode_of_the_last_validation_where_callbacks_run_them(
    line, runs, tmp_path
):
    """Determined's validations left them so, and Lightning puts them back at once."""
    tell = "    def tell(self):\n        print(self.trial.model.predict(1))\n"
    end = watched(tmp_path, f"    def on_trial_shutdown(self):\n        {line}\n\n{tell}")
    lines = ["# as the last validation left it", "pl_module.eval()", line, "pl_module.train()"]
    body = [each.strip() for each in method(end, "on_fit_end").splitlines()[1:]]
    assert body == (lines if runs else [line])
    saving = f"    def on_checkpoint_save_start(self, checkpoint):\n        {line}\n\n{tell}"
    made = watched(tmp_path, saving)
    assert ("# MIGRATE: models are in training mode here" in made) is runs


def test_a_callback_that_may_end_early_leaves_models_in_training_mode(tmp_path):
    """Another ``fit()`` trains a module as it finds it."""
    hook = """\
    def on_trial_shutdown(self):
        \"\"\"Tell.\"\"\"
        if self.done:
            return
        print(self.trial.model(1).sum())
"""
    body = method(watched(tmp_path, hook), "on_fit_end").splitlines()[2:]
    assert [line.strip() for line in body] == [
        "# as the last validation left it",
        "pl_module.eval()",
        "try:",
        "if self.done:",
        "return",
        "print(self.trial.model(1).sum())",
        "finally:",
        "pl_module.train()",
    ]
