from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.migrate.rewriting import rewritten, trial

HEAD = "from determined import pytorch\n"


def script(folder: Path, before: str) -> str:
    """What becomes of a script below a trial."""
    # It has no hyperparameters, which a script would have to give it.
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    made = rewritten(folder, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    return made[made.index("def main") :]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            def main(hparams):
                # here it begins
                with pytorch.init(hparams=hparams) as context:
                    model = Trial(context)
                    trainer = pytorch.Trainer(model, context)
                    # two epochs
                    trainer.fit(max_length=pytorch.Epoch(2))
            """,
            """
            def main(hparams):
                # here it begins
                model = Trial(**hparams)
                trainer = pl.Trainer(devices=1, max_epochs=2, check_val_every_n_epoch=2)
                # two epochs
                trainer.fit(model)
            """,
            id="hyperparameters of the context",
        ),
        pytest.param(
            """
            def main(latest):
                with pytorch.init() as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(
                        pytorch.Batch(50),
                        validation_period=pytorch.Batch(10),
                        max_length=pytorch.Batch(100),
                        reporting_period=pytorch.Batch(5),
                        latest_checkpoint=latest,
                    )
                    print("done")
            """,
            """
            def main(latest):
                # Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too
                trainer = pl.Trainer(
                    devices=1,
                    max_steps=100,
                    val_check_interval=10,
                    check_val_every_n_epoch=None,
                    log_every_n_steps=5,
                    callbacks=[ModelCheckpoint(every_n_train_steps=50, save_top_k=-1)],
                )
                # Lightning goes on inside of an epoch with the first batches of a loader
                trainer.fit(Trial(), ckpt_path=latest)
                print("done")
            """,
            id="periods and a checkpoint to go on from",
        ),
        pytest.param(
            """
            def main(hparams):
                with pytorch.init(hparams=hparams, aggregation_frequency=4) as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(
                        max_length=pytorch.Batch(100),
                        checkpoint_period=pytorch.Batch(20),
                        validation_period=pytorch.Batch(10),
                    )
            """,
            """
            def main(hparams):
                # Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too
                trainer = pl.Trainer(
                    devices=1,
                    max_steps=25,
                    val_check_interval=10,
                    check_val_every_n_epoch=None,
                    callbacks=[ModelCheckpoint(every_n_train_steps=5, save_top_k=-1)],
                )
                trainer.fit(Trial(**hparams, accumulate_grad_batches=4))
            """,
            id="steps of several batches",
        ),
        pytest.param(
            """
            def main(length, n):
                with pytorch.init(aggregation_frequency=n) as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(max_length=length, validation_period=pytorch.Epoch(3))


            main(pytorch.Batch(9), 2)
            """,
            """
            def main(length, n):
                # Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too
                # MIGRATE: Lightning
                trainer = pl.Trainer(devices=1, max_steps=length // n, check_val_every_n_epoch=3)
                trainer.fit(Trial(accumulate_grad_batches=n))
                if not trainer.is_last_batch or trainer.current_epoch % 3:
                    # the last batch is validated and saved, too
                    trainer.validate(trainer.lightning_module, verbose=False)
                    trainer.save_checkpoint(f"{trainer.log_dir}/checkpoints/last.ckpt")


            main(9, 2)
            """,
            id="a length that is handed around",
        ),
        pytest.param(
            """
            def main(unit):
                with pytorch.init() as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(max_length=every(unit, 5), validation_period=every(unit, 2))


            def every(unit, n):
                if unit == "epochs":
                    return pytorch.Epoch(n)
                return pytorch.Batch(n)
            """,
            """
            def main(unit):
                validation_period = every(unit, 2)
                # Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too
                trainer = pl.Trainer(
                    devices=1,
                    **every(unit, 5),
                    val_check_interval=validation_period.get("max_steps"),
                    check_val_every_n_epoch=validation_period.get("max_epochs"),
                )
                trainer.fit(Trial())
                if (
                    trainer.global_step % validation_period["max_steps"]
                    if "max_steps" in validation_period
                    else not trainer.is_last_batch or \
trainer.current_epoch % validation_period["max_epochs"]
                ):
                    # the last batch is validated and saved, too
                    trainer.validate(trainer.lightning_module, verbose=False)
                    trainer.save_checkpoint(f"{trainer.log_dir}/checkpoints/last.ckpt")


            def every(unit, n):
                if unit == "epochs":
                    return {"max_epochs": n}
                return {"max_steps": n}
            """,
            id="a period that a function makes",
        ),
        pytest.param(
            """
            def main(n, is_short):
                if is_short:
                    length = pytorch.Epoch(1)
                else:
                    length = pytorch.Epoch(9)
                with pytorch.init(aggregation_frequency=n) as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(max_length=length, validation_period=pytorch.Epoch(1))
            """,
            """
            def main(n, is_short):
                if is_short:
                    length = 1
                else:
                    length = 9
                # Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too
                trainer = pl.Trainer(devices=1, max_epochs=length, check_val_every_n_epoch=1)
                trainer.fit(Trial(accumulate_grad_batches=n))
            """,
            id="a variable that is a number of epochs",
        ),
        pytest.param(
            """
            def main():
                number_of_batches = pytorch.Batch(100)  # a short one
                with pytorch.init() as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(max_length=number_of_batches)
            """,
            """
            def main():
                number_of_batches = 100  # a short one
                trainer = pl.Trainer(
                    devices=1,
                    max_steps=number_of_batches,
                    val_check_interval=number_of_batches,
                    check_val_every_n_epoch=None,
                )
                trainer.fit(Trial())
            """,
            id="a variable that is a number of batches",
        ),
        pytest.param(
            """
            def main(args):
                length = pytorch.Epoch(args.epochs)
                print(length)
                with pytorch.init() as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(max_length=length, validation_period=pytorch.Epoch(1))
            """,
            """
            def main(args):
                length = {"max_epochs": args.epochs}
                print(length)
                # Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too
                trainer = pl.Trainer(devices=1, **length, check_val_every_n_epoch=1)
                trainer.fit(Trial())
                if not trainer.is_last_batch:
                    # the last batch is validated, too
                    trainer.validate(trainer.lightning_module, verbose=False)
            """,
            id="a length that something else is given, too",
        ),
        pytest.param(
            """
            def main(hparams):
                with pytorch.init(hparams=hparams) as context:
                    trial = Trial(context)
                    trainer = pytorch.Trainer(trial, context)
                    trainer.fit(max_length=pytorch.Epoch(1))
                    if context.distributed.rank == 0:
                        save(trial, context.get_hparam("lr"))
            """,
            """
            def main(hparams):
                trial = Trial(**hparams)
                trainer = pl.Trainer(devices=1, max_epochs=1, check_val_every_n_epoch=1)
                trainer.fit(trial)
                # as the last validation left it
                trial.eval()
                if trial.global_rank == 0:
                    save(trial, hparams["lr"])
            """,
            id="a context that is asked once all is trained",
        ),
        pytest.param(
            """
            def main():
                with pytorch.init(hparams={"lr": 0.1}) as context:
                    trial = Trial(context, lr=context.get_hparam("lr"))
                    trainer = pytorch.Trainer(trial, context)
                    print(context.models)
                    trainer.fit(max_length=pytorch.Epoch(1))
            """,
            """
            def main():
                trial = Trial(lr=0.1)
                trainer = pl.Trainer(devices=1, max_epochs=1, check_val_every_n_epoch=1)
                print([trial.model])
                trainer.fit(trial)
            """,
            id="a context that is asked for what is known before",
        ),
        pytest.param(
            """
            def main(length):
                with pytorch.init() as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(max_length=length)
            """,
            """
            def main(length):
                trainer = pl.Trainer(
                    devices=1,
                    **length,
                    val_check_interval=length.get("max_steps"),
                    check_val_every_n_epoch=length.get("max_epochs"),
                )
                trainer.fit(Trial())
            """,
            id="a validation at the end of a length that is handed around",
        ),
        pytest.param(
            """
            def main():
                with pytorch.init() as context:
                    pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Epoch(1))
            """,
            """
            def main():
                pl.Trainer(devices=1, max_epochs=1, check_val_every_n_epoch=1).fit(Trial())
            """,
            id="in one statement",
        ),
        pytest.param(
            """
            def main():
                with pytorch.init() as context:
                    trainer = pytorch.Trainer(Trial(context), context)
                    trainer.fit(
                        max_length=pytorch.Batch(4),
                        checkpoint_period=pytorch.Batch(2),
                        checkpoint_policy="none",
                    )
            """,
            """
            def main():
                trainer = pl.Trainer(
                    devices=1,
                    max_steps=4,
                    val_check_interval=4,
                    check_val_every_n_epoch=None,
                    callbacks=[ModelCheckpoint(every_n_train_steps=2, save_top_k=-1)],
                )
                trainer.fit(Trial())
            """,
            id="checkpoints that no validation asks for",
        ),
    ],
)
def test_a_script_trains_with_lightning(before: str, after: str, tmp_path: Path) -> None:
    made = re.sub(r"(# MIGRATE: \w+).*", r"\1", script(tmp_path, before))
    assert made == textwrap.dedent(after).lstrip()


def test_reports_by_epochs_are_those_of_lightning(tmp_path: Path) -> None:
    given = "max_length=pytorch.Epoch(2), reporting_period=pytorch.Epoch(1)"
    before = f"""
    def main():
        with pytorch.init() as context:
            pytorch.Trainer(Trial(context), context).fit({given})
    """
    made = script(tmp_path, before)
    assert (
        "pl.Trainer(devices=1, max_epochs=2" in made
        and "log_every" not in made
        and "MIGRATE" not in made
    )


@pytest.mark.parametrize(
    ("configured", "given", "after"),
    [
        ("sync_timings=True, enabled=True", "", 'profiler="simple"'),
        ("False, args.profile", "", 'profiler="simple" if args.profile else None'),
        ("enabled=False", "", ""),
        ("", "", ""),
        ("", "profiling_enabled=True", 'profiler="simple"'),
        ("", "profiling_enabled=False", ""),
    ],
)
def test_what_is_profiled(configured: str, given: str, after: str, tmp_path: Path) -> None:
    before = f"""
    def main(args):
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.configure_profiler({configured})
            trainer.fit(max_length=pytorch.Epoch(1), {given})
    """
    made = script(tmp_path, before)
    assert "pl.Trainer(" in made and "MIGRATE" not in made and "configure_" not in made
    assert after in made and ("profiler" in made) == bool(after)
    if not given:
        # It is told so under a condition, too.
        asked = before.replace("trainer.conf", "if args.asked:\n                trainer.conf")
        made = script(tmp_path, asked)
        is_sure = configured.endswith("enabled=True")
        assert ('profiler="simple" if args.asked else None' in made) is is_sure


@pytest.mark.parametrize(
    "given",
    [
        "",
        "*args",
        "max_length=1, odd=2",
        "max_length=pytorch.Epoch(1))\n            args.off or trainer.configure_profiler(True",
    ],
)
def test_what_lightning_has_no_flag_for_is_left_to_the_reader(given: str, tmp_path: Path) -> None:
    before = f"""
    def main(args):
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit({given})
    """
    made = script(tmp_path, before)
    assert "pytorch.Trainer(" in made
    assert "# MIGRATE: pytorch.Trainer has no counterpart" in made


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("pytorch.Batch(6), validation_period=pytorch.Batch(3)", ""),
        ("pytorch.Batch(n), validation_period=pytorch.Batch(n)", ""),
        ("pytorch.Epoch(n), validation_period=pytorch.Epoch(1)", ""),
        ("pytorch.Epoch(n)", ""),
        (
            "pytorch.Batch(5), validation_period=pytorch.Batch(n or 3)",
            "trainer.global_step % (n or 3)",
        ),
        ("pytorch.Epoch(3), validation_period=pytorch.Epoch(2)", "trainer.current_epoch % 2"),
        ("pytorch.Batch(n), validation_period=pytorch.Epoch(1)", "not trainer.is_last_batch"),
    ],
)
def test_the_last_batch_is_validated(given: str, asked: str, tmp_path: Path) -> None:
    before = f"""
    def main(n):
        with pytorch.init() as context:
            model = Trial(context)
            trainer = pytorch.Trainer(model, context)
            trainer.fit(max_length={given})
    """
    made = script(tmp_path, before)
    assert ("trainer.validate(model, verbose=False)" in made) is bool(asked)
    assert f"    if {asked}:\n" in made or not asked


@pytest.mark.parametrize(
    ("done", "period", "is_marked"),
    [
        ("self.trial.model.load_state_dict(self.best)", "checkpoint", True),
        ("self.done = True", "checkpoint", True),
        ("print('done', self.best)", "checkpoint", False),
        ("print('done', self.best)", "validation", True),
        ("print('done')", "validation", False),
        ("LOGGER.info('done')", "checkpoint", False),
        ("json.dump(self.rows, open(self.path, 'w'))", "checkpoint", False),
        ("json.dump(self.rows, open(self.path, 'w'))", "validation", True),
        ("self.rows = json.dump(self.rows, open('f'))", "checkpoint", True),
    ],
)
def test_what_callbacks_do_at_the_end_comes_before_the_last_checkpoint(
    done: str, period: str, is_marked: bool, tmp_path: Path
) -> None:
    before = f"""
    class Closing(pytorch.PyTorchCallback):
        def on_trial_shutdown(self):
            {done}


    def main(n):
        with pytorch.init() as context:
            model = Trial(context)
            trainer = pytorch.Trainer(model, context)
            trainer.fit(max_length=pytorch.Batch(n), {period}_period=pytorch.Batch(3))
    """
    made = script(tmp_path, before)
    assert SAVED in made
    assert ("MIGRATE: callbacks have done on_fit_end by now" in made) is is_marked


TOTAL = "(trainer.fit_loop.total_batch_idx + 1)"
WITHIN = "trainer.global_step % 3"
SAVED = 'trainer.save_checkpoint(f"{trainer.log_dir}/checkpoints/last.ckpt")'


@pytest.mark.parametrize(
    ("given", "flag", "asked"),
    [
        ("Batch(6), checkpoint_period=pytorch.Batch(3)", "every_n_train_steps=3", None),
        ("Batch(n), checkpoint_period=pytorch.Batch(3)", "every_n_train_steps=3", WITHIN),
        ("Batch(n), checkpoint_period=pytorch.Epoch(1)", "every_n_epochs=1", None),
        (
            "Epoch(3), checkpoint_period=pytorch.Epoch(2), validation_period=pytorch.Batch(5)",
            "save_on_train_epoch_end=True",
            "trainer.current_epoch % 2",
        ),
        ("Batch(n), validation_period=pytorch.Batch(3)", "check_val_every_n_epoch=None)", WITHIN),
        ("Batch(n), checkpoint_policy='none'", "enable_checkpointing=False", ""),
        (
            "Batch(n), checkpoint_policy='none', test_mode=n",
            "fast_dev_run=n",
            "not trainer.fast_dev_run",
        ),
        ("Epoch(3), checkpoint_policy='all'", "callbacks=[ModelCheckpoint(save_top_k=-1)]", None),
        (
            "Batch(6), checkpoint_policy='all', checkpoint_period=pytorch.Batch(3)",
            "callbacks=[ModelCheckpoint(every_n_train_steps=3, save_top_k=-1)]",
            None,
        ),
        (
            "Batch(6), checkpoint_policy='all', checkpoint_period=pytorch.Batch(3), "
            "validation_period=pytorch.Batch(2)",
            "ModelCheckpoint(save_top_k=-1, enable_version_counter=False)",
            None,
        ),
        (
            "Epoch(6), checkpoint_policy='all', checkpoint_period=pytorch.Epoch(1), "
            "validation_period=pytorch.Batch(5)",
            "ModelCheckpoint(every_n_train_steps=5, save_top_k=-1)",
            None,
        ),
        (
            "Epoch(6), checkpoint_policy='all', checkpoint_period=pytorch.Epoch(1), "
            "validation_period=pytorch.Epoch(2)",
            "ModelCheckpoint(every_n_epochs=1, save_top_k=-1, save_on_train_epoch_end=True)]",
            None,
        ),
    ],
)
def test_the_last_batch_is_saved(given: str, flag: str, asked: str | None, tmp_path: Path) -> None:
    before = f"""
    def main(n):
        with pytorch.init() as context:
            model = Trial(context)
            trainer = pytorch.Trainer(model, context)
            trainer.fit(max_length=pytorch.{given})
    """
    made = script(tmp_path, before)
    assert flag in made
    assert (SAVED in made) is (asked is not None)
    assert not asked or f"    if {asked}:\n        # the last batch is" in made


@pytest.mark.parametrize(
    ("policy", "is_marked"),
    [
        ('"best" if best else "none"', True),
        ("best", True),
        ('"best" if best else "all"', True),
        ("best, validation_period=pytorch.Epoch(2), checkpoint_period=pytorch.Epoch(2)", False),
    ],
)
def test_a_policy_that_the_run_decides_is_marked(policy, is_marked, tmp_path):
    before = f"""
    def main(best):
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Epoch(2), checkpoint_policy={policy})
    """
    made = script(tmp_path, before)
    assert ("# MIGRATE: which validations a checkpoint follows" in made) is is_marked
    assert is_marked or "save_top_k=-1" in made


RUN = """
def main({0}, validation_period=None, latest=None):
    with pytorch.init() as context:
        trainer = pytorch.Trainer(Trial(context), context)
        trainer.fit(
            max_length={0},
            validation_period=validation_period,
            latest_checkpoint=latest,
        )


{1}
"""


@pytest.mark.parametrize(
    ("calls", "header", "flags", "called"),
    [
        (
            "main(pytorch.Epoch(3))",
            "main(length, latest=None):",
            "max_epochs=length, check_val_every_n_epoch=length",
            "main(3)",
        ),
        (
            "main(length=pytorch.Batch(a * 2), validation_period=pytorch.Epoch(2))",
            "main(length, validation_period=None, latest=None):",
            "max_steps=length, check_val_every_n_epoch=validation_period",
            "main(length=a * 2, validation_period=2)",
        ),
        # Of one unit here, of another there.
        (
            "main(pytorch.Epoch(3))\nmain(pytorch.Batch(3))",
            "main(length, latest=None):",
            '**length, val_check_interval=length.get("max_steps")',
            'main({"max_epochs": 3})\nmain({"max_steps": 3})',
        ),
    ],
)
def test_parameters_that_are_always_of_one_unit_are_numbers(
    calls: str, header: str, flags: str, called: str, tmp_path: Path
) -> None:
    made = script(tmp_path, RUN.format("length", calls))
    assert made.startswith(f"def {header}")
    assert flags in " ".join(made.split()).replace("( ", "(")
    assert made.rstrip().endswith(called)
    assert "MIGRATE" not in made


@pytest.mark.parametrize("calls", ["run = main\nrun(n)", "main(n, None)\nmain(n, p)", "main(*n)"])
def test_a_period_that_may_be_anything_is_marked(calls: str, tmp_path: Path) -> None:
    made = script(tmp_path, RUN.format("length", calls))
    assert "def main(length, validation_period=None, latest=None):" in made
    assert "# MIGRATE: pytorch.Trainer has no counterpart" in made


SECOND = """\
        self.other = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("given", "when", "after"),
    [
        ("max_length=pytorch.Batch(2)", "", "max_steps=4"),
        ("max_length=pytorch.Batch(2)", "if epoch_idx:\n            ", ""),
        ("max_length=pytorch.Batch(length + 1)", "", "max_steps=2 * (length + 1)"),
        ("max_length=length", "", ""),
        (
            "max_length=pytorch.Batch(2) if length else pytorch.Epoch(3)",
            "",
            "",
        ),
        (
            "max_length=chosen",
            "",
            'max_steps=2 * chosen["max_steps"] if "max_steps" in chosen else -1, '
            'max_epochs=chosen.get("max_epochs")',
        ),
        ("max_length=chosen", "if epoch_idx:\n            ", ""),
        (
            "max_length=pytorch.Epoch(2), checkpoint_period=pytorch.Batch(2)",
            "",
            "every_n_train_steps=4",
        ),
        (
            "max_length=pytorch.Epoch(2), reporting_period=pytorch.Batch(2)",
            "if epoch_idx:\n            ",
            "log_every_n_steps=2",
        ),
    ],
)
def test_the_steps_of_several_optimizers_are_counted(given, when, after, tmp_path):
    source = trial(
        ("self.context.get_per_slot_batch_size()", "4"),
        ("\n    def build_training", f"{SECOND}\n    def build_training"),
        ("self.opt)\n", f"self.opt)\n        {when}self.context.step_optimizer(self.other)\n"),
    )
    before = f"""
    def main(length):
        chosen = pytorch.Batch(length) if length else pytorch.Epoch(3)
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit({given})
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert ("# MIGRATE: max_steps counts" in made) is (not after)
    assert after in " ".join(made.split()).replace("( ", "(")


LEFT = "    def train_batch(self, batch, epoch_idx, batch_idx):\n        "


@pytest.mark.parametrize(
    ("left", "is_known"),
    [
        ("", True),
        (f"{LEFT}raise NotImplementedError\n", True),
        (f'{LEFT}"""Heirs train."""\n', True),
        (f"    @abc.abstractmethod\n{LEFT}return {{}}\n", True),
        (f"{LEFT}return train(self, batch)\n", False),
    ],
)
def test_a_base_that_nobody_trains_makes_no_steps(left, is_known, tmp_path):
    source = trial(
        ("self.context.get_per_slot_batch_size()", "4"),
        ("class Trial(", "class Base("),
        ("    def train_batch", f"{left}\n\nclass Trial(Base):\n    def train_batch"),
    )
    before = """
    def main(n):
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Batch(n), validation_period=pytorch.Batch(10))
    """
    made = rewritten(tmp_path, f"import abc\n{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert ("# MIGRATE: max_steps counts" in made) is not is_known
    assert ("if trainer.global_step % 10:" in made) is is_known


def test_what_is_fitted_twice_is_left_to_the_reader(tmp_path):
    before = """
    def main(more):
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Epoch(1))
            if more:
                trainer.fit(max_length=pytorch.Epoch(2))
    """
    assert "# MIGRATE: pytorch.Trainer has no counterpart" in script(tmp_path, before)


@pytest.mark.parametrize(
    ("made", "is_known"),
    [
        ("TRIALS[name](context)", True),
        ("(Trial if name else Other)(context)", True),
        ("TRIALS[name](context), TRIALS.update({})", False),
        ("pick(name)(context)", True),
        ("pick(name)(context), TRIALS.update({})", False),
        ("maybe(name)(context)", False),
    ],
)
def test_a_script_may_choose_its_trial(made, is_known, tmp_path):
    before = f"""
    class Other(Trial):
        pass


    TRIALS = {{"a": Trial, "b": Other}}


    def pick(name):
        return TRIALS[name]


    def maybe(name):
        return TRIALS[name] if name else None


    def main(name):
        hparams = {{"global_batch_size": 4, "name": name}}
        with pytorch.init(hparams=hparams) as context:
            model = {made}
            trainer = pytorch.Trainer(model, context)
            trainer.fit(max_length=pytorch.Epoch(1))
    """
    made = rewritten(tmp_path, f"{HEAD}{trial()}\n\n{textwrap.dedent(before)}")
    assert bool(re.search(r"[\])]\(\*\*hparams\)", made)) is is_known
    assert ("# MIGRATE:" in made) is not is_known


@pytest.mark.parametrize(
    ("decorator", "used", "is_known"),
    [
        ("def known(cls):\n    TRIALS[cls.__name__] = cls\n    return cls", "known", True),
        (
            "def known(name):\n    def named(cls):\n        TRIALS[name] = cls\n"
            "        return cls\n    return named",
            'known("other")',
            True,
        ),
        (
            "def known(cls):\n    TRIALS[cls.__name__] = wrapped(cls)\n    return cls",
            "known",
            False,
        ),
        (
            "def known(cls):\n    TRIALS[cls.__name__] = cls\n    return cls\n\n\n"
            'TRIALS["x"] = open',
            "known",
            False,
        ),
    ],
)
def test_a_script_may_choose_what_a_decorator_has_registered(decorator, used, is_known, tmp_path):
    """It validates the same trial before it trains it."""
    before = f"""
    @{used}
    class Other(Trial):
        pass


    def main(name):
        hparams = {{"global_batch_size": 4, "name": name}}
        with pytorch.init(hparams=hparams) as context:
            trainer = pytorch.Trainer(TRIALS[name](context), context)
            trainer.fit(max_length=pytorch.Epoch(1), step_zero_validation=True)
    """
    table = f"TRIALS = {{}}\n\n\n{decorator}\n\n\n"
    made = rewritten(tmp_path, f"{HEAD}{table}{trial()}\n\n{textwrap.dedent(before)}")
    assert ("# MIGRATE:" in made) is not is_known
    assert ("    trial = TRIALS[name](**hparams)\n    trainer = pl.Trainer(" in made) is is_known
    assert ("validate(trial, verbose=False)\n    trainer.fit(trial)" in made) is is_known


@pytest.mark.parametrize(
    ("top", "asked", "is_whole"),
    [
        ('H = {"sizes": [1], "n": 2}', 'H["n"]', True),
        ('H = {"sizes": [1], "n": 2}', "H['n']", True),
        ('H = {"sizes": [1], "n": 3}', 'H["n"]', False),
        ('H = {"n": 2}\nH["n"] = 3', 'H["n"]', False),
        ('H = {"n": 2}\nH.update(n=3)', 'H["n"]', False),
        ("N = 2", "N", True),
        ("N = 2\nfor N in (2, 3):\n    pass", "N", False),
    ],
)
def test_steps_of_so_many_batches_as_stand_in_the_file(top, asked, is_whole, tmp_path):
    before = f"""
    {textwrap.indent(top, "    ").lstrip()}


    def main():
        with pytorch.init(aggregation_frequency={asked}) as context:
            trial = Trial(context)
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Batch(40), validation_period=pytorch.Epoch(1))
    """
    made = script(tmp_path, before)
    assert f"max_steps=40 // {asked}".replace("'", '"') in made.replace("'", '"')
    assert ("where batches were counted" not in made) is is_whole


@pytest.mark.parametrize(
    ("hparams", "is_open"),
    [
        ('{"global_batch_size": 4}', False),
        ('{"lr": 0.1}', None),
        ('{"global_batch_size": 4, "seed": 1}', True),
        ("json.load(open(path))", True),
        ("{**{}}", True),
    ],
)
def test_a_trial_takes_what_its_script_gives(hparams: str, is_open: bool, tmp_path: Path) -> None:
    before = f"""
    def main(path):
        hparams = {hparams}
        with pytorch.init(hparams=hparams) as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Epoch(1))
    """
    made = rewritten(tmp_path, f"{HEAD}{trial()}\n\n{textwrap.dedent(before)}")
    assert "trainer.fit(Trial(**hparams))" in made
    assert ("def __init__(self, *, global_batch_size: int, **hparams: Any)" in made) is bool(
        is_open
    )
    assert ("def __init__(self, **hparams: Any)" in made) is (is_open is None)


@pytest.mark.parametrize(
    ("given", "momentum", "width"),
    [
        ('{"global_batch_size": 4, "width": 2}', "float | None = None", "int = 2"),
        ('{"global_batch_size": 4, "width": 2, "momentum": 0.5}', "float = 0.9", "int = 2"),
        ("json.load(open(path))", "float | None = None", "int = 2"),
    ],
)
def test_what_a_script_may_not_give_is_not_what_a_config_says(
    given: str, momentum: str, width: str, tmp_path: Path
) -> None:
    before = f"""
    def main(path):
        with pytorch.init(hparams={given}) as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Epoch(1))
    """
    (tmp_path / "const.yaml").write_text(
        "entrypoint: model_def:Trial\n"
        "searcher: {name: single, metric: loss, max_length: {batches: 1}}\n"
        "hyperparameters: {global_batch_size: 4, width: 2, momentum: 0.9}\n"
    )
    asking = (
        "self.context = context\n",
        "self.context = context\n        hp = context.get_hparams()\n"
        '        print(hp["width"], hp.get("momentum", 0.0))\n',
    )
    made = rewritten(tmp_path, f"{HEAD}{trial(asking)}\n\n{textwrap.dedent(before)}")
    assert f"momentum: {momentum}" in made and f"width: {width}" in made
    assert ("ignore=absent" in made) is ("None" in momentum)


@pytest.mark.parametrize(
    ("given", "lengths", "flags"),
    [
        (
            "",
            ["{batches: 30}"],
            "max_steps=30, val_check_interval=30, check_val_every_n_epoch=None",
        ),
        (
            "max_length=None",
            ["{epochs: 2}", "{epochs: 2}"],
            "max_epochs=2, check_val_every_n_epoch=2",
        ),
        (
            "validation_period=pytorch.Epoch(1)",
            ["{records: 32}"],
            "max_steps=8, check_val_every_n_epoch=1",
        ),
        ("max_length=pytorch.Epoch(5)", ["{epochs: 2}"], "max_epochs=5, check_val_every_n_epoch=5"),
        ("", ["{epochs: 2}", "{epochs: 3}"], ""),
        ("", [], ""),
    ],
)
def test_a_length_that_fit_is_not_given_is_that_of_the_config(given, lengths, flags, tmp_path):
    for number, length in enumerate(lengths):
        (tmp_path / f"{number}.yaml").write_text(
            "entrypoint: python3 model_def.py\nhyperparameters: {global_batch_size: 4}\n"
            f"searcher: {{name: single, metric: x, max_length: {length}}}\n"
        )
    # One that starts something else says nothing of this.
    (tmp_path / "other.yaml").write_text(
        "entrypoint: python3 other.py\nsearcher: {name: single, metric: x, max_length: 7}\n"
    )
    before = f"""
    def main():
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit({given})
    """
    made = script(tmp_path, before)
    assert (
        f"pl.Trainer(devices=1, {flags})"
        in " ".join(made.split()).replace("( ", "(").replace(" )", ")")
    ) is bool(flags)
    assert ("# MIGRATE: pytorch.Trainer has no counterpart" in made) is (not flags)


def test_a_context_that_is_still_used_is_still_made(tmp_path):
    source = trial() + (
        "\n\nimport determined.pytorch as pytorch\n\n\ndef run():\n"
        "    with pytorch.init() as context:\n"
        "        pytorch.trainer.Trainer(Trial(context), context).train(max_epochs=2)\n"
    )
    made = rewritten(tmp_path, source)
    assert "    with pytorch.init() as context:\n" in made
    assert "# MIGRATE: pytorch.init has no counterpart" in made


@pytest.mark.parametrize(
    ("other", "is_folded"),
    [
        ("from train import Trial\n", True),
        ("import train\n\ntrain.Trial()\n\n\ndef run():\n    pass\n", True),
        ("from train import run\n", False),
        ("from train import *\n", False),
        ("import train\n\ntrain.run(local=False)\n", False),
        ("import train\n\ngetattr(train, 'run')()\n", False),
    ],
)
def test_what_no_other_file_calls_is_told_of_no_cluster(other, is_folded, tmp_path):
    (tmp_path / "other.py").write_text(other)
    text = f"{HEAD}import determined as det\n{trial()}" + textwrap.dedent("""

    def run(local=False):
        info = det.get_cluster_info()
        latest = None if local else info.latest_checkpoint
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Batch(1), latest_checkpoint=latest)


    run(local=det.get_cluster_info() is None)
    """)
    made = rewritten(tmp_path, text, name="train.py")
    assert ("get_cluster_info" not in made) is is_folded
    assert ("\nrun()\n" in made) is is_folded


def test_a_validation_by_itself_has_gradients_where_it_asks_for_them(tmp_path):
    evaluate = '{"error": self.model(batch).sum()}'
    source = trial(
        ("self.context.get_per_slot_batch_size()", "4"),
        (
            f"        return {evaluate}",
            f"        with torch.enable_grad():\n            return {evaluate}",
        ),
    )
    before = """
    def main():
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Epoch(1))
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert (
        "pl.Trainer(devices=1, max_epochs=1, check_val_every_n_epoch=1, inference_mode=False)\n"
        in made
    )


def test_a_length_that_the_run_chooses(tmp_path):
    before = """
    def main(epochs):
        with pytorch.init(hparams={}) as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(
                max_length=pytorch.Epoch(epochs) if epochs else pytorch.Batch(100),
                validation_period=pytorch.Epoch(1),
            )
    """
    assert script(tmp_path, before).startswith(
        "def main(epochs):\n"
        "    # Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too\n"
        "    trainer = pl.Trainer(\n"
        "        devices=1,\n"
        '        **({"max_epochs": epochs} if epochs else {"max_steps": 100}),\n'
        "        check_val_every_n_epoch=1,\n"
        "    )\n"
        "    trainer.fit(Trial())\n"
    )


CHOOSING = """
    def main(n, latest):
        every = pytorch.Batch(n) if n > 0 else pytorch.Epoch(2)
        with pytorch.init(hparams={{}}) as context:
            model = Trial(context)
            trainer = pytorch.Trainer(model, context)
            trainer.fit(max_length=pytorch.Epoch(3), checkpoint_policy="none", {})
"""


@pytest.mark.parametrize(
    ("given", "flags", "condition"),
    [
        (
            "validation_period=every",
            ['val_check_interval=every.get("max_steps")', 'epoch=every.get("max_epochs")'],
            '% every["max_steps"] if "max_steps" in every else '
            'trainer.current_epoch % every["max_epochs"]',
        ),
        (
            "validation_period=pytorch.Batch(n) if n else pytorch.Epoch(1)",
            ["val_check_interval=n if n else None", "check_val_every_n_epoch=None if n else 1"],
            "trainer.global_step % n if n else False",
        ),
        (
            "validation_period=pytorch.Epoch(1) if n else pytorch.Epoch(3)",
            ["val_check_interval=None,", "check_val_every_n_epoch=1 if n else 3"],
            "",
        ),
        (
            "validation_period=pytorch.Epoch(1), checkpoint_period=every",
            ['_n_train_steps=every.get("max_steps")', 'every_n_epochs=every.get("max_epochs")'],
            '% every["max_steps"] if "max_steps" in every else',
        ),
    ],
)
def test_a_period_that_the_run_chooses(given, flags, condition, tmp_path):
    made = " ".join(script(tmp_path, CHOOSING.format(given)).split())
    assert all(flag in made for flag in flags)
    assert condition in made and (" if ( " in made) is bool(condition)
    assert "MIGRATE" not in made


@pytest.mark.parametrize("other", ["a", "z"])
def test_a_script_makes_the_trial_that_it_imports_and_no_other_of_its_name(tmp_path, other):
    taking = trial(("lr=0.1", 'lr=hparams["rate"]'), ("self, context)", "self, context, hparams)"))
    for folder, text in (("m", taking), (other, trial(("lr=0.1", 'lr=context.get_hparam("lr")')))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model_def.py").write_text(text)
    script = """\
    from determined import pytorch
    from model_def import Trial

    hparams = {"rate": 0.1, "global_batch_size": 8}
    with pytorch.init(hparams=hparams) as context:
        pytorch.Trainer(Trial(context, hparams), context).fit(max_length=pytorch.Epoch(2))
    """
    made = rewritten(tmp_path, script, name="m/train.py")
    assert 'Trial(hparams, global_batch_size=hparams["global_batch_size"])' in made
    assert "MIGRATE" not in made


def test_a_length_that_is_known_below_the_trainer(tmp_path: Path) -> None:
    before = """
    def main(args):
        with pytorch.init() as context:
            trial = Trial(context)
            trainer = pytorch.Trainer(trial, context)
            epochs = pytorch.Epoch(args.epochs)
            trainer.fit(max_length=epochs, validation_period=pytorch.Epoch(1))
    """
    made = script(tmp_path, before)
    assert made.index("epochs = args.epochs") < made.index(
        "trainer = pl.Trainer(devices=1, max_epochs=epochs"
    )
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("given", "validated"),
    [
        ("step_zero_validation=True", "    trainer.validate(trial, verbose=False)\n"),
        ("step_zero_validation=False", ""),
        (
            "step_zero_validation=args.first, latest_checkpoint=args.latest",
            "    if (args.first) and args.latest is None:\n"
            "        trainer.validate(trial, verbose=False)\n",
        ),
    ],
)
def test_a_validation_before_the_first_batch(given: str, validated: str, tmp_path: Path) -> None:
    before = f"""
    def main(args):
        with pytorch.init() as context:
            trial = Trial(context)
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(
                max_length=pytorch.Epoch(2), validation_period=pytorch.Epoch(1), {given}
            )
    """
    made = script(tmp_path, before)
    assert f"check_val_every_n_epoch=1)\n{validated}    trainer.fit(trial" in made
    assert "MIGRATE" not in made


def test_a_validation_that_uses_optimizers_waits_for_fit(tmp_path: Path) -> None:
    before = """
    def main():
        with pytorch.init() as context:
            trial = Trial(context)
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Epoch(2), step_zero_validation=True)
    """
    source = trial(
        ("self.context.get_per_slot_batch_size()", "4"),
        ('{"error": ', '{"lr": self.opt.defaults["lr"], "error": '),
    )
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert "# MIGRATE: pytorch.Trainer has no counterpart" in made


@pytest.mark.parametrize(("asked", "is_late"), [("lr()", True), ("opt", False)])
def test_a_callback_that_asks_for_the_optimizer_before_the_first_batch(
    asked: str, is_late: bool, tmp_path: Path
) -> None:
    """A method of the trial asks ``optimizers()``, of which there are none before ``fit()``."""
    before = f"""
    class Watch(pytorch.PyTorchCallback):
        def __init__(self, trial):
            self.trial = trial

        def on_validation_start(self):
            print(self.trial.{asked})

    def main():
        with pytorch.init() as context:
            trial = Trial(context)
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Epoch(2), step_zero_validation=True)
    """
    lr = "def lr(self):\n        return self.opt.param_groups[0]['lr']\n\n    def train"
    built = "def build_callbacks(self):\n        return {'w': Watch(self)}\n\n    def train"
    source = trial(
        ("self.context.get_per_slot_batch_size()", "4"), ("def train", lr), ("def train", built)
    )
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert ("# MIGRATE: pytorch.Trainer has no counterpart" in made) is is_late


def test_steps_after_each_batch_need_no_word(tmp_path: Path) -> None:
    before = """
    def main(length):
        with pytorch.init(aggregation_frequency=1) as context:
            trial = Trial(context)
            pytorch.Trainer(trial, context).fit(max_length=length)

    def start(n):
        main(pytorch.Batch(n))
    """
    assert "MIGRATE" not in script(tmp_path, before)


@pytest.mark.parametrize(
    ("hparams", "lr"),
    [
        ("HP", 'HP["lr"]'),
        ("{**HP, 'lr': 0.02}", "0.02"),
        ("{**HP, 'seed': 1}", 'HP["lr"]'),
        ("vars(args)", "args.lr"),
        # Which of both has it is not told.
        ("{'lr': 1, **HP}", ""),
    ],
)
def test_hyperparameters_beside_other_arguments(hparams: str, lr: str, tmp_path: Path) -> None:
    source = trial(
        ("self.context.get_per_slot_batch_size()", "4"),
        ("def __init__(self, context):", "def __init__(self, context, mode):"),
        ("lr=0.1", "lr=context.get_hparam('lr')"),
    )
    before = f"""
    def main(args):
        with pytorch.init(hparams={hparams}, exp_conf=None) as context:
            trial = Trial(context, mode="a")
            pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(2))
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert ("MIGRATE" in made) is (not lr)
    assert not lr or f'Trial(mode="a", lr={lr})' in made


def test_the_rank_before_there_is_a_trainer(tmp_path: Path) -> None:
    before = """
    def main():
        with pytorch.init() as context:
            if context.distributed.rank == 0:
                print("begins")
            trial = Trial(context)
            is_chief = context.distributed.get_rank() == 0
            pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(2))
    """
    made = script(tmp_path, before)
    assert made.count("rank_zero_only.rank == 0") == 2
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("asked", "is_plain"),
    [("context.distributed.rank", True), ("context.preempt.should_preempt()", False)],
)
def test_a_core_context_that_tells_the_rank(asked: str, is_plain: bool, tmp_path: Path) -> None:
    before = f"""
    from determined import core, get_cluster_info

    def main():
        info = get_cluster_info()
        with core.init() as context:
            print({asked})
            with pytorch.init() as training:
                trial = Trial(training)
                pytorch.Trainer(trial, training).fit(
                    max_length=pytorch.Epoch(2),
                    latest_checkpoint=info.latest_checkpoint if info is not None else None,
                )
    """
    made = script(tmp_path, before)
    assert ("MIGRATE" not in made) is is_plain
    assert ("core" not in made and "info" not in made) is is_plain
    assert ("print(rank_zero_only.rank)" in made) is is_plain


def test_what_asks_a_context_that_stays_is_left_and_marked(tmp_path: Path) -> None:
    before = """
    def main(rounds):
        with pytorch.init() as context:
            rank = context.distributed.rank
            trainer = pytorch.Trainer(Trial(context), context)
            for n in range(rounds):
                trainer.fit(max_length=pytorch.Epoch(n + 1))
                print(rank, context.distributed.get_size(), context.get_hparams())
    """
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert "context.distributed.get_size(), context.get_hparams()" in made
    assert "global_rank" not in made
    assert "MIGRATE: the context's distributed.rank" in made
    assert rewritten(tmp_path, made) == made


@pytest.mark.parametrize(
    ("given", "number"),
    [("", "trainer.global_step"), (", aggregation_frequency=2", TOTAL)],
)
def test_what_the_last_batch_is_asked_for_is_the_public_count(given, number, tmp_path):
    """Where Lightning counts steps of several batches, they have to be counted otherwise."""
    before = f"""
    def main(n):
        with pytorch.init(hparams={{}}{given}) as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Batch(6), validation_period=pytorch.Batch(4))
    """
    assert f"    if {number} % 4:\n" in script(tmp_path, before)


@pytest.mark.parametrize("given", ["hparams: Dict", "hparams: Optional[Dict] = None"])
def test_a_trial_that_may_ask_its_context_for_what_it_is_given(given: str, tmp_path: Path) -> None:
    source = trial(
        ("def __init__(self, context):", f"def __init__(self, context, {given}):"),
        ("self.context = context", "self.given = hparams or context.get_hparams()"),
    )
    before = """
    def main():
        hparams = {"global_batch_size": 4}
        with pytorch.init(hparams=hparams, exp_conf=None) as context:
            trial = Trial(context, hparams=hparams)
            pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(2))
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert "MIGRATE" not in made
    assert f"    def __init__(self, {given}):\n" in made
    assert "        self.save_hyperparameters(hparams)\n" in made
    assert "    trial = Trial(hparams=hparams)\n" in made


def test_a_context_that_is_asked_behind_its_statement(tmp_path: Path) -> None:
    before = """
    def main(config):
        hparams = dataclasses.asdict(config)
        with pytorch.init(hparams=hparams) as context:
            model = Trial(context)
            trainer = pytorch.Trainer(model, context)
            trainer.fit(max_length=pytorch.Epoch(2))
        print("done")
        if context.distributed.rank == 0:
            print(model.model)
        print("the end")
    """
    made = script(tmp_path, before.replace("hparams=hparams", ""))
    assert "MIGRATE" not in made and "asdict" in made
    end = made[made.index("    trainer.fit(model)") :]
    assert end.split("\n")[1:] == [
        "    # as the last validation left it",
        "    model.eval()",
        '    print("done")',
        "    if model.global_rank == 0:",
        "        print(model.model)",
        '    print("the end")',
        "",
    ]


def test_a_copy_that_only_the_context_was_given_goes_with_it(tmp_path: Path) -> None:
    source = trial(
        ("def __init__(self, context):", "def __init__(self, context, config):"),
        ("self.context.get_per_slot_batch_size()", "4"),
        ("lr=0.1", "lr=config.lr"),
    )
    before = """
    def main(config):
        hparams = dataclasses.asdict(config)
        with pytorch.init(hparams=hparams) as context:
            trainer = pytorch.Trainer(Trial(context, config), context)
            trainer.fit(max_length=pytorch.Epoch(2))
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert "trainer.fit(Trial(config))" in made
    assert "asdict" not in made


def test_a_rank_that_is_asked_for_where_no_variable_has_the_trial(tmp_path: Path) -> None:
    before = """
    def main():
        with pytorch.init() as context:
            trainer = pytorch.Trainer(Trial(context), context)
            trainer.fit(max_length=pytorch.Epoch(2))
            print(context.distributed.rank, context.distributed.size)
    """
    made = script(tmp_path, before)
    assert "print(rank_zero_only.rank, trainer.world_size)" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("line", "is_used"),
    [
        ("print(trial.model(x))", True),
        ("predict(trial.model, x)", True),
        ("trial.evaluate_batch(x)", True),
        ("net(x)", True),
        ("return trial", True),
        ("print(net)", False),
        ("print(hparams)", False),
        ("best = trial.best", False),
    ],
)
def test_what_runs_below_a_fit_runs_as_the_last_validation_left_it(line, is_used, tmp_path):
    """Lightning puts models back into training mode, and Determined did when it trained on."""
    before = f"""
        def main(hparams, net, x):
            scale(x).fit(x)
            with pytorch.init(hparams=hparams) as context:
                trial = Trial(context, net)
                trainer = pytorch.Trainer(trial, context)
                trainer.fit(max_length=pytorch.Epoch(2))
            {line}
    """
    made = script(tmp_path, before)
    assert ("    # as the last validation left it\n    trial.eval()\n" in made) is is_used


@pytest.mark.parametrize(
    ("line", "is_used"), [("print(trial.model(x))", True), ("print(x)", False)]
)
def test_a_trial_that_callers_of_a_fit_run_is_as_the_last_validation_left_it(
    line, is_used, tmp_path
):
    before = f"""
        def main(net, x):
            with pytorch.init() as context:
                trial = Trial(context, net)
                train(context, trial)
            {line}

        def train(context, trial):
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Epoch(2))
    """
    made = script(tmp_path, before)
    assert ("    # as the last validation left it\n    trial.eval()\n" in made) is is_used


def test_a_trial_that_trains_again_is_said_to_be_in_training_mode(tmp_path):
    before = """
        def main(net, x):
            for _ in range(2):
                with pytorch.init() as context:
                    trial = Trial(context, net)
                    trainer = pytorch.Trainer(trial, context)
                    trainer.fit(max_length=pytorch.Epoch(2))
                print(trial.model(x))
    """
    made = script(tmp_path, before)
    assert "eval()\n" not in made
    assert made.count("# MIGRATE: models are in training mode below this") == 1


@pytest.mark.parametrize("hook", ["on_trial_startup", "on_training_start"])
def test_a_callback_that_starts_behind_the_first_validation_is_spoken_of(
    hook: str, tmp_path: Path
) -> None:
    before = f"""
    class Starting(pytorch.PyTorchCallback):
        def {hook}(self, *args):
            self.started = True


    def main():
        with pytorch.init() as context:
            trial = Trial(context)
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Epoch(1), step_zero_validation=True)
    """
    made = script(tmp_path, before)
    said = "# MIGRATE: Lightning calls on_fit_start of callbacks after this"
    assert (said in made) is (hook == "on_trial_startup")
    assert "    trainer.validate(trial, verbose=False)\n    trainer.fit(trial)" in made
