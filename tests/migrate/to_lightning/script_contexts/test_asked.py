"""What scripts ask a context for once its trial has been trained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.migrate.rewriting import rewritten, trial

SCRIPT = """
HP = {{"lr": 0.1}}


def predict(trial, ctx, rows):
    return trial.model(rows.to(ctx.device)), ctx.get_hparam("lr")


def main():
    with pytorch.init(hparams=HP) as context:
        trial = Trial(context)
{first}        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(2))
{below}
"""
ASKING = "        print(predict(trial, context, torch.ones(2, 2)))\n"
MOVED = "        rows = torch.ones(2, 2).to(context.device)\n"


def whole(text: str, **lines: str) -> str:
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    text = text.format(**{"first": "", "below": "", **lines})
    return f"from determined import pytorch\n{source}\n\n{text}"


def script(folder: Path, **lines: str) -> str:
    return rewritten(folder, whole(SCRIPT, **lines))


@pytest.mark.parametrize(
    ("below", "after"),
    [
        (ASKING, "    print(predict(trial, trial, torch.ones(2, 2)))\n"),
        (MOVED, "    rows = torch.ones(2, 2).to(trial.device)\n"),
        (f"        if trial:\n    {ASKING}", "        print(predict(trial, trial, torch.o"),
    ],
)
def test_below_fit_the_trial_is_asked_for_the_context(below, after, tmp_path):
    made = script(tmp_path, below=below)
    assert after in made
    assert "trial.model(rows.to(ctx.device)), ctx.hparams.lr" in made
    assert "MIGRATE" not in made
    assert "determined" not in made


@pytest.mark.parametrize("first", [ASKING, MOVED])
def test_a_module_knows_no_device_before_fit(first, tmp_path):
    made = script(tmp_path, first=first)
    assert "# MIGRATE: pytorch.init has no counterpart" in made


def test_another_trial_below_fit_gets_no_trial(tmp_path):
    made = script(tmp_path, below="        other = [Trial(context)]\n")
    assert "other = [Trial(" in made
    assert "Trial(trial)" not in made


def test_before_fit_hyperparameters_are_not_the_contexts(tmp_path):
    made = script(
        tmp_path, first='        print(context.get_hparam("lr"), context.get_hparams())\n'
    )
    assert '    print(HP["lr"], HP)\n' in made
    assert "MIGRATE" not in made


SEEDED = """

def seed(number, ctx):
    torch.manual_seed(number + ctx.distributed.get_rank() + ctx.distributed.{0})


def main"""


def test_a_helper_that_asks_for_the_rank_alone_needs_no_context(tmp_path):
    text = SCRIPT.replace("\n\ndef main", SEEDED.format("rank"), 1)
    made = rewritten(tmp_path, whole(text, first="        seed(3, context)\n"))
    assert "def seed(number):\n    torch.manual_seed(" in made
    assert "number + rank_zero_only.rank + rank_zero_only.rank" in made
    assert "    seed(3)\n" in made
    assert "import rank_zero_only\n" in made
    assert "MIGRATE" not in made


def test_helpers_of_a_context_that_stays_are_left_alone(tmp_path):
    text = SCRIPT.replace("\n\ndef main", SEEDED.format("size"), 1)
    made = rewritten(tmp_path, whole(text, first="        seed(3, context)\n"))
    assert "number + ctx.distributed.get_rank() + ctx.distributed.size" in made
    assert "# MIGRATE: pytorch.init has no counterpart" in made
    assert rewritten(tmp_path, made) == made


@pytest.mark.parametrize(
    ("first", "after"),
    [
        (
            "print(context.distributed.size)",
            "trainer = pl.Trainer({})\n    print(trainer.world_size)",
        ),
        ("n = 8 // context.distributed.get_size()", "    n = 8 // trainer.world_size\n"),
        ("if context.distributed.size > 1:\n            print(2)", "if trainer.world_size > 1:"),
    ],
)
def test_lightnings_trainer_tells_how_many_processes_there_are(first, after, tmp_path):
    """It is made before it is asked, where the context was asked before the trial was made."""
    text = SCRIPT.replace(
        "        trial = Trial(context)", f"        {first}\n        trial = Trial(context)"
    )
    made = rewritten(tmp_path, whole(text))
    flags = re.search(r"pl\.Trainer\((.*?)\)\n", made, re.DOTALL)
    assert flags is not None
    assert after.format(flags[1]) in made
    assert made.index("pl.Trainer(") < made.index("trainer.world_size") < made.index("trainer.fit(")
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("epochs", "is_moved"), [("epochs = 2", True), ("epochs = count(trial)", False)]
)
def test_it_is_made_early_only_if_its_flags_are_known_by_then(epochs, is_moved, tmp_path):
    text = SCRIPT.replace("pytorch.Epoch(2)", "pytorch.Epoch(epochs)")
    asking = "        print(context.distributed.size)\n        trial = Trial(context)\n"
    text = text.replace("        trial = Trial(context)\n", f"{asking}        {epochs}\n")
    made = rewritten(tmp_path, whole(text))
    assert ("MIGRATE" not in made) is is_moved
    assert ("    epochs = 2\n    trainer = pl.Trainer(" in made) is is_moved


@pytest.mark.parametrize(("value", "is_left"), [("HP", False), ("load(HP)", True)])
def test_a_variable_that_only_the_context_was_given_goes_with_it(value, is_left, tmp_path):
    """What a call does may be wanted all the same."""
    text = SCRIPT.replace("    with pytorch", f"    conf = {value}\n    with pytorch")
    text = text.replace("hparams=HP", "hparams=HP, exp_conf=conf")
    assert ("conf = " in rewritten(tmp_path, whole(text))) is is_left


INSIDE = """
HP = {{"lr": 0.1}}


def main(n):
    with {contexts}:
        trial = Trial(context)
        trainer = pytorch.Trainer(trial, context)
        {block}
"""
TRIED = (
    "try:\n            n = 2\n            {}\n        except KeyboardInterrupt:\n            pass"
)
FIT = "trainer.fit(max_length=pytorch.Epoch({0}), validation_period=pytorch.Epoch(1))"


@pytest.mark.parametrize(
    ("contexts", "block", "after"),
    [
        ("timed(n), pytorch.init(hparams=HP) as context", FIT.format(2), "    with timed(n):\n"),
        ("pytorch.init(hparams=HP) as context, timed(n)", FIT.format(2), "    with timed(n):\n"),
        (
            "pytorch.init(hparams=HP) as context",
            TRIED.format(FIT.format(2)),
            "    try:\n        n = 2\n        trainer.fit(trial)\n    except",
        ),
        (
            "pytorch.init(hparams=HP) as context",
            f"if n:\n            {FIT.format('n')}",
            "    if n:\n        trainer.fit(trial)\n",
        ),
        # The flags are known where it trains, and not where the Trainer is made.
        ("pytorch.init(hparams=HP) as context", TRIED.format(FIT.format("n")), ""),
        # Each time would be another Trainer's first.
        (
            "pytorch.init(hparams=HP) as context",
            f"for each in range(n):\n            {FIT.format(2)}",
            "",
        ),
    ],
)
def test_a_script_that_trains_inside_of_another_block(contexts, block, after, tmp_path):
    text = INSIDE.format(contexts=contexts, block=block)
    made = rewritten(tmp_path, whole(text.replace("{", "{{").replace("}", "}}")))
    assert ("MIGRATE" not in made) is bool(after)
    assert after in made[made.index("def main") :]


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        ("ctx.get_hparams().get('n', 1)", "hp.get('n', 1)"),
        ("ctx.get_hparam('n')", "hp['n']"),
        ("ctx.get_hparams()['n']", "hp['n']"),
    ],
)
def test_before_fit_the_hyperparameters_are_those_of_init(asked, after, tmp_path):
    lines = f"    print({asked})\n"
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    script = f"""
from determined import pytorch

def main(hp):
    with pytorch.init(hparams=hp) as ctx:
    {lines}        pytorch.Trainer(Trial(ctx), ctx).fit(max_length=pytorch.Batch(3))
"""
    made = rewritten(tmp_path, source + script)
    assert f"def main(hp):\n    print({after})\n" in made
    assert "MIGRATE" not in made
    again = script.replace("    print(", "    hp = {}\n        print(")
    assert "MIGRATE" in rewritten(tmp_path, source + again)
