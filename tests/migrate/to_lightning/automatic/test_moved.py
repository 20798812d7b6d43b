"""What validations move, and training goes by."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import pytorch_lightning as pl

from tests.migrate.rewriting import HEADER, method, rewritten, trial
from tests.migrate.to_lightning.automatic.validating import (
    FIT,
    ONE,
    WHOLE,
    epochs_after,
    rate_after,
)

START = "lr=0.1))\n"
LOSS = "loss = self.model(batch).sum()"


def whole(lines: str, init: str = "", *more: tuple[str, str]) -> str:
    """A trial whose validation of a whole data set has these lines."""
    text = WHOLE.format(textwrap.indent(lines, " " * 8))
    begun = START + textwrap.indent(init, " " * 8) + "\n" if init else START
    return trial((ONE, text), (START, begun), *more)


PATIENCE = """\
if error < self.best:
    self.best = error
    self.bad = 0
else:
    self.bad += 1
if self.bad >= 1:
    for group in self.opt.param_groups:
        group["lr"] *= 0.5
    self.bad = 0"""
CALLBACK = """\
from determined.pytorch import PyTorchCallback


class Following(PyTorchCallback):
    def __init__(self, opt):
        self.opt = opt
        self.best, self.bad = 1e9, 0

    def on_validation_end(self, metrics):
        error = metrics["error"]
{0}


"""


KEPT = """\

    def kept(self, error):
        if error < self.best:
            self.best = error
        return error < 1
"""


def following(lines: str, more: str = "") -> str:
    building = (
        '    def build_callbacks(self):\n        return {"f": Following(self.opt)}\n\n'
        "    def evaluate_batch"
    )
    evaluation = ('{"error": self.model(batch).sum()}', '{"error": batch.sum() * 0 + 1}')
    header = HEADER + CALLBACK.format(textwrap.indent(lines, " " * 8)).rstrip() + f"\n{more}\n\n"
    return trial(("    def evaluate_batch", building), evaluation, header=header)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(whole(PATIENCE, "self.best, self.bad = 1e9, 0"), id="a trial"),
        pytest.param(following(PATIENCE), id="a callback"),
    ],
)
def test_a_validation_alone_moves_nothing_that_fit_goes_by(tmp_path, source):
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made
    # The second validation of two is no better than the first one.
    assert rate_after(made) == pytest.approx(0.05)


READ = (LOSS, f"{LOSS} * (1 + self.seen)")
SAVED = 'self.best = error\n    torch.save(self.model.state_dict(), "best.pt")'


@pytest.mark.parametrize(
    ("lines", "init", "after"),
    [
        pytest.param(
            f"if error < self.best:\n    {SAVED}",
            "self.best = 1e9",
            'if error < self.best and self.trainer.state.fn == "fit":\n    ' + SAVED,
            id="a best value",
        ),
        pytest.param(
            "is_best = error < self.best\nif is_best:\n    self.best = error\nprint(is_best)",
            "self.best = 1e9",
            'if is_best and self.trainer.state.fn == "fit":\n    self.best = error\nprint',
            id="by a variable",
        ),
        pytest.param(
            "self.best = max(self.best, error)",
            "self.best = 0",
            f"{FIT}    self.best = max(self.best, error)",
            id="the greatest",
        ),
        pytest.param(
            "new = False\nif error < self.best:\n    self.best = error\n    new = 1\nprint(new)",
            "self.best = 0",
            f"if error < self.best:\n    {FIT}        self.best = error\n    new = 1",
            id="beside what is used",
        ),
        pytest.param(
            'for group in self.opt.param_groups:\n    group["lr"] = 0.1',
            "",
            f'{FIT}    for group in self.opt.param_groups:\n        group["lr"] = 0.1',
            id="a rate",
        ),
        pytest.param(
            "self.decay *= 0.9\nlower(self.opt, self.decay)",
            "self.decay = 1.0",
            f"{FIT}    self.decay *= 0.9\n    lower(self.opt, self.decay)",
            id="a rate that a function sets",
        ),
        pytest.param(
            "if self.stopper.worse(error):\n    self.context.set_stop_requested(True)",
            "self.stopper = Stopper()",
            'if self.trainer.state.fn == "fit" and self.stopper.worse(error):\n'
            "    self.trainer.should_stop = True",
            id="an object that compares",
        ),
    ],
)
def test_it_is_moved_in_fit(tmp_path, lines, init, after):
    more = """

def lower(opt, by):
    opt.param_groups[0]["lr"] *= by


class Stopper:
    best = 0

    def worse(self, error):
        if error < self.best:
            self.best = error
        return error > self.best
"""
    made = rewritten(tmp_path, whole(lines, init) + more)
    assert "MIGRATE" not in made
    assert textwrap.indent(after, "    ") in method(made, "validation_step")


@pytest.mark.parametrize(
    ("line", "is_read", "waits"),
    [
        ("self.seen += 1", True, True),
        ("self.seen += 1", False, False),
        ("self.seen = error", True, True),
        ("self.seen = error; self.last = self.seen", True, False),
        ("self.seen = 0; self.seen += 1", True, False),
        ("self.seen += 1; print(self.seen)", False, False),
        ("if not self.seen: self.seen = error", False, False),
    ],
)
def test_counters_that_training_reads_are_moved_in_fit(tmp_path, line, is_read, waits):
    source = whole("\n".join(line.split("; ")), "self.seen = 0", *([READ] if is_read else []))
    made = rewritten(tmp_path, source)
    assert ("state.fn" in made) is waits and "MIGRATE" not in made


def test_a_hook_that_ends_by_itself_ends_outside_of_fit(tmp_path):
    lines = """\
if error < self.best:
    self.best = error
    self.weights = [error]
    return
self.bad += 1
if self.bad > 3:
    self.opt.param_groups[0]["lr"] *= 0.5
    self.bad = 0"""
    made = rewritten(tmp_path, following(lines))
    end = 'if trainer.state.fn != "fit":\n        return\n    if error < self.best:\n'
    assert end in method(made, "on_validation_end") and "MIGRATE" not in made


SCRIPT = """
from determined import pytorch


def main():
    with pytorch.init(hparams={{"global_batch_size": 2}}) as context:
        trainer = pytorch.Trainer(Trial(context), context)
        trainer.fit(max_length=pytorch.Batch(5), validation_period=pytorch.Batch(2){0})
        return trainer
"""
BEST = "self.seen += 1\nif error < self.best - 10:\n    self.best = error"


@pytest.mark.parametrize(
    ("given", "seen", "alone"),
    [("", 3, 0), (", step_zero_validation=False", 3, 0), (", step_zero_validation=True", 4, 1)],
)
@pytest.mark.filterwarnings("ignore")
def test_the_validations_of_a_script_count_as_those_of_fit(
    tmp_path, monkeypatch, given, seen, alone
):
    source = whole(BEST, "self.seen, self.best = 0, 9", READ) + SCRIPT.format(given)
    made = rewritten(tmp_path, source.replace("DataLoader([]", "DataLoader(torch.ones(4, 2)"))
    assert "MIGRATE" not in made and (".global_step > 0" in made) is not alone
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(made, "made", "exec"), found)
    assert found["main"]().lightning_module.seen == seen
    other = found["Trial"](global_batch_size=2)
    pl.Trainer(accelerator="cpu", logger=False).validate(other, verbose=False)
    assert other.seen == alone


HISTORY = """
from determined.pytorch import PyTorchCallback


class History(PyTorchCallback):
    def __init__(self):
        self.errors = []

    def on_validation_end(self, metrics):
        self.errors.append(metrics["error"])


"""


@pytest.mark.parametrize(("given", "count"), [("", 3), (", step_zero_validation=True", 4)])
@pytest.mark.parametrize(
    "lines",
    [
        "return {'history': History()}",
        "if self.model is not None:\n            return {'history': History()}\n        return {}",
        "if self.model is not None: return {'history': History()}\n        return {}",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_validations_of_a_script_have_the_callbacks_of_fit(
    tmp_path, monkeypatch, lines, given, count
):
    build = f"    def build_callbacks(self):\n        {lines}\n\n"
    source = trial((ONE, build + ONE), ("DataLoader([]", "DataLoader(torch.ones(4, 2)"))
    script = SCRIPT.format(given).replace("        return trainer", "        return trainer\n")
    made = rewritten(tmp_path, source.replace("class Trial", f"{HISTORY}class Trial") + script)
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(made, "made", "exec"), found)
    (history,) = [c for c in found["main"]().callbacks if isinstance(c, found["History"])]
    assert len(history.errors) == count
    # Another trial, and another fit of this one, have callbacks of their own.
    again = found["main"]().lightning_module.fit_callbacks
    assert [len(each.errors) for each in again] == [count]


def test_a_best_value_that_is_logged_is_that_of_the_validation(tmp_path):
    lines = "if error > self.best:\n    self.best = error"
    source = whole(lines, "self.best = 0", ('"error": error', '"error": error, "best": self.best'))
    assert "state.fn" not in rewritten(tmp_path, source)


def test_what_a_callback_sets_anew_is_not_kept(tmp_path):
    callback = (
        following("self.opt.seen = []")
        .replace("on_validation_end(self, metrics)", "on_validation_start(self)")
        .replace('error = metrics["error"]', "pass")
    )
    source = callback.replace(LOSS, f"{LOSS} * len(self.seen)").replace(
        '        return {"error"', '        self.seen.append(1)\n        return {"error"'
    )
    assert "state.fn" not in rewritten(tmp_path, source)


def test_a_base_validates_and_its_heir_reads(tmp_path):
    heir = "\n\nclass Heir(Trial):\n    def scale(self):\n        return self.seen\n"
    source = whole("self.seen += 1", "self.seen = 0", (LOSS, f"{LOSS} * self.scale()"))
    assert f"{FIT}            self.seen += 1\n" in rewritten(tmp_path, source + heir)


STOP = "self.opt.context.set_stop_requested(True)"


def waiting(lines: str, more: str = "", name: str = "Following") -> str:
    """A trial that keeps a callback, which ends training where nothing gets better."""
    kept = f"{START}        self.best, self.bad, self.seen = 1e9, 0, {{'best': 1e9}}\n"
    source = following(lines, more).replace("Following(self.opt)", "self.f")
    return source.replace(START, f"{kept}        self.f = {name}(self)\n")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            waiting(
                "self.bad = 0 if error < self.best else self.bad + 1\n"
                f"self.best = min(self.best, error)\nif self.bad >= 2:\n    {STOP}"
            ),
            id="through another attribute",
        ),
        pytest.param(
            waiting(
                "gain = self.best - error\nbetter = gain > 0\nif better:\n    self.best = error\n"
                f"self.bad = 0 if better else self.bad + 1\nif self.bad >= 2:\n    {STOP}"
            ),
            id="through variables",
        ),
        pytest.param(
            waiting(
                "if error < self.opt.best:\n    self.opt.best = error\n    return\n"
                f"self.opt.bad += 1\nif self.opt.bad >= 2:\n    {STOP}"
            ),
            id="of the trial",
        ),
        pytest.param(
            waiting(
                "seen = self.opt.seen\nself.bad += error >= seen['best']\n"
                f"seen['best'] = min(seen['best'], error)\nif self.bad >= 2:\n    {STOP}"
            ),
            id="in a dict of the trial",
        ),
        pytest.param(
            waiting(
                f"self.update(error)\nif self.bad >= 2:\n    {STOP}",
                "\n    def update(self, error):\n        self.bad += error >= self.best\n"
                "        self.best = min(self.best, error)\n        print(self.best)\n",
            ),
            id="in a method of its own",
        ),
        pytest.param(
            waiting(
                f"if self.is_over(error):\n    {STOP}",
                "\n    def is_over(self, error):\n        raise NotImplementedError\n\n\n"
                "class Heir(Following):\n    def is_over(self, error):\n"
                "        self.bad += error >= self.best\n"
                "        self.best = min(self.best, error)\n        return self.bad >= 2\n",
                "Heir",
            ),
            id="in an heir",
        ),
    ],
)
def test_training_ends_as_if_nothing_was_validated_before(tmp_path, source):
    made = rewritten(tmp_path, source.replace("DataLoader([]", "DataLoader([torch.ones(2)] * 4"))
    assert "MIGRATE" not in made
    assert [epochs_after(made, validations) for validations in (0, 1, 3)] == [3, 3, 3]


def test_a_callback_elsewhere_moves_what_a_trial_reads_in_training(tmp_path):
    callback = following("self.opt.seen += 1").partition("class Trial")[0].rstrip()
    source = trial(
        (START, f"{START}        self.seen = 0\n"),
        (LOSS, f"{LOSS} * self.seen"),
        ("    def evaluate_batch", "    def build_callbacks(self):\n        "
         "return {'f': Following(self)}\n\n    def evaluate_batch"),
        header=HEADER + "from following import Following\n\n\n",
    )  # fmt: skip
    (tmp_path / "trial.py").write_text(source)
    made = rewritten(tmp_path, callback + "\n", name="following.py")
    assert 'if trainer.state.fn == "fit":\n            self.opt.seen += 1\n' in made


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param(
            whole("worse = self.stopper.worse(error)\nprint(worse)", "self.stopper = Stopper()")
            + "\n\nclass Stopper:\n    best = 0\n\n    def worse(self, error):\n"
            "        if error < self.best:\n            self.best = error\n",
            "stopper",
            id="its result is used",
        ),
    ],
)
def test_what_cannot_wait_is_marked(tmp_path, source, name):
    said = f"# MIGRATE: Trainer.validate moves {name} here, too, which training goes by"
    assert said in rewritten(tmp_path, source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(following("print(self.kept(error))", KEPT), id="its own method's is used"),
        pytest.param(
            following("pass\n\n", KEPT)
            .replace("Following(self.opt)", "Heir(self.opt)")
            .replace(
                "\n\nclass Trial",
                "\n\nclass Heir(Following):\n    def on_validation_end(self, metrics):\n"
                "        print(self.kept(metrics['error']))\n\n\nclass Trial",
            ),
            id="its base's is used",
        ),
    ],
)
def test_a_hook_that_goes_on_with_what_moves_ends_in_its_place(tmp_path, source):
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made
    assert 'if trainer.state.fn != "fit":\n            return\n        print(self.kept(' in made


def test_what_goes_on_with_what_has_not_moved_does_not_run(tmp_path):
    made = rewritten(
        tmp_path,
        waiting(
            f"self.bad += 1\nprint(1 / self.bad)\nif self.bad >= 2:\n    {STOP}",
        ),
    )
    assert "MIGRATE" not in made
    end = '        if trainer.state.fn != "fit":\n            return\n'
    assert f"{end}        self.bad += 1\n        print(1 / self.bad)\n" in made
