from __future__ import annotations

import textwrap

import pytest

from tests.migrate.rewriting import rewritten, trial

HEAD = "from determined import pytorch\n"


def _script(folder, before, *changes, marks=0):
    source = trial(("self.context.get_per_slot_batch_size()", "4"), *changes)
    made = rewritten(folder, f"{HEAD}{source}\n\n{textwrap.dedent(before)}")
    assert made.count("MIGRATE") == marks
    return made[made.index("def main") :]


def test_a_context_is_entered_later(tmp_path):
    made = _script(
        tmp_path,
        """
        def main(hp):
            context = pytorch.init(hparams=hp)
            print("begins")
            with context as ctx:
                t = pytorch.Trainer(Trial(ctx), context=ctx)
                t.fit(max_length=pytorch.Epoch(2))
        """,
    )
    assert "Trial(**hp)" in made
    assert "with" not in made


@pytest.mark.parametrize("is_used", [False, True])
def test_a_context_is_entered_for_the_rest_of_a_block(is_used, tmp_path):
    made = _script(
        tmp_path,
        f"""
        def main(hp):
            with ExitStack() as stack:
                {"stack.enter_context(hp)" if is_used else "print(hp)"}
                ctx = stack.enter_context(pytorch.init(hparams=hp))
                t = pytorch.Trainer(Trial(ctx), ctx)
                t.fit(max_length=pytorch.Epoch(2))
        """,
    )
    assert "Trial(**hp)" in made
    assert ("with ExitStack() as stack" in made) is is_used


def test_a_context_that_is_used_elsewhere_stays(tmp_path):
    made = _script(
        tmp_path,
        """
        def main(hp):
            context = pytorch.init(hparams=hp)
            print(context)
            with context as ctx:
                pytorch.Trainer(Trial(ctx), ctx).fit(max_length=pytorch.Epoch(2))
        """,
        marks=2,
    )
    assert "with context as ctx" in made


@pytest.mark.parametrize(
    ("factory", "call", "made_by"),
    [
        ("return Trial(context)", "make(ctx, 2)", "trial = Trial(**hp)"),
        ("return {0: Trial, 1: Trial}[kind](context)", "make(kind=n, context=ctx)", "}[n](**hp)"),
    ],
)
def test_a_factory_is_written_where_it_is_called(factory, call, made_by, tmp_path):
    made = _script(
        tmp_path,
        f"""
        def main(hp, n):
            with pytorch.init(hparams=hp) as ctx:
                trial = {call}
                trainer = pytorch.Trainer(trial, ctx)
                trainer.configure_profiler(enabled=False, sync_timings=False)
                trainer.fit(max_length=pytorch.Epoch(2))

        def make(context, kind):
            {factory}
        """,
    )
    assert made_by in made
    assert "make" not in made
    assert "profiler" not in made


@pytest.mark.parametrize(("init", "marks"), [("", 0), ("aggregation_frequency=2", 1)])
def test_a_helper_has_the_trainer(init, marks, tmp_path):
    made = _script(
        tmp_path,
        f"""
        def main():
            with pytorch.init({init}) as ctx:
                train(Trial(ctx), ctx, epochs=2)

        def train(trial, context, epochs):
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Epoch(epochs))
        """,
        marks=marks,
    )
    if not marks:
        assert "train(Trial(), epochs=2)" in made
        assert "def train(trial, epochs)" in made


def test_a_trial_gets_the_hyperparameters_that_its_context_had(tmp_path):
    source = trial(("(self, context)", "(self, context, hparams)"))
    script = """
    def main(hp):
        with pytorch.init(hparams=hp) as ctx:
            pytorch.Trainer(Trial(ctx, hp), ctx).fit(max_length=pytorch.Epoch(2))
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(script)}")
    assert 'Trial(hp, global_batch_size=hp["global_batch_size"])' in made


@pytest.mark.parametrize(
    ("taken", "hparams", "given", "made", "is_marked"),
    [
        ("hparams", "hp", "hp", "Heir(hp)", False),
        ("width", "hp", "3", "Heir(3, **hp)", False),
        ("width", '{"lr": 1, "b": n}', "3", "Heir(3, lr=1, b=n)", False),
        ("width", '{"lr": 1, "width": n}', "width=n", "Heir(width=n, lr=1)", False),
        # What the context had, and what the trial is given, differ, or may.
        ("width", '{"lr": 1, "width": 2}', "3", "Heir(3, lr=1)", True),
        ("width, n=1", '{"lr": 1, "n": 2}', "3", "Heir(3, lr=1)", True),
        ("width", "hp", 'width=hp["width"]', 'Heir(width=hp["width"], **hp)', True),
        # It has another name than the hyperparameter by now.
        ("global_batch_size", "hp", "3", "Heir(3, **hp)", False),
        # What has another key is no hyperparameter.
        ("width", 'c["hp"]', 'c["rows"]["all"]', '**c["hp"])', False),
        ("width", '{**c["hp"], "lr": n}', "width=n", "Heir(width=n, **{", False),
        ("width", 'c["hp"]', 'c["hp"]["width"]', '**c["hp"])', True),
        ("width", 'c["hp"]', "c[n]", '**c["hp"])', True),
        ("width", 'c["hp"]', "c", '**c["hp"])', True),
        ("width", '{**c["hp"], "width": n}', "3", "Heir(3, **{", True),
    ],
)
def test_an_open_trial_has_all_hyperparameters(taken, hparams, given, made, is_marked, tmp_path):
    source = trial(("(self, context)", f"(self, context, {taken})"))
    script = f"""
    class Heir(Trial):
        pass

    def main(hp, n, c):
        with pytorch.init(hparams={hparams}) as ctx:
            pytorch.Trainer(Heir(ctx, {given}), ctx).fit(max_length=pytorch.Epoch(2))
    """
    text = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(script)}")
    assert made in text
    assert ("self.save_hyperparameters(hparams)" in text) is (taken == "hparams")
    assert ("Heir needs the hyperparameters" in text) is is_marked


CONFIG = """\
entrypoint: model_def:Trial
searcher: {name: single, metric: loss, max_length: {batches: 1}}
hyperparameters: {global_batch_size: 4, lr: 0.1, idle: 3}
"""


@pytest.mark.parametrize(
    ("init", "given"),
    [
        ("vars(args)", "size=3, lr=args.lr, global_batch_size=args.global_batch_size"),
        ('c["hp"]', 'size=3, lr=c["hp"]["lr"], global_batch_size=c["hp"]["global_batch_size"]'),
        # The trial never asks for what only the config has.
        ('{"lr": 0.5}', "size=3, lr=0.5"),
        ("load()", None),
    ],
)
def test_what_a_script_has_counts_before_what_a_config_has(init, given, tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG)
    source = trial(
        ("(self, context)", "(self, context, size)"), ("lr=0.1", 'lr=context.get_hparam("lr")')
    )
    script = f"""
    def main(args, c):
        with pytorch.init(hparams={init}) as ctx:
            pytorch.Trainer(Trial(ctx, size=3), ctx).fit(max_length=pytorch.Epoch(2))
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(script)}")
    assert ("# MIGRATE: Trial needs the hyperparameters that its" in made) is (given is None)
    assert given is None or f"Trial({given})" in " ".join(made.split()).replace("( ", "(")


def test_a_trial_that_asks_for_no_hyperparameters_takes_none(tmp_path):
    config = CONFIG.replace("model_def:Trial", "python3 model_def.py")
    (tmp_path / "det.yaml").write_text(config)
    source = trial(
        ("(self, context)", "(self, context, args)"),
        ("self.context.get_per_slot_batch_size()", "4"),
        ("lr=0.1", "lr=args.lr"),
    )
    script = """
    def main(args):
        with pytorch.init(hparams=vars(args)) as ctx:
            pytorch.Trainer(Trial(ctx, args), ctx).fit(max_length=pytorch.Epoch(2))
    """
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{textwrap.dedent(script)}")
    assert "MIGRATE" not in made
    assert "def __init__(self, args):" in made


_STAGES = """
def stage(cls, epochs):
    with pytorch.init() as ctx:
        t = pytorch.Trainer(cls(ctx), ctx)
        t.fit(max_length=pytorch.Epoch(epochs))

class Second(Trial):
    pass

def main(name):
    {0}
    stage({1}, 2)
"""


def test_a_function_is_given_the_class_that_it_makes(tmp_path):
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    script = _STAGES.format("stage(Trial, epochs=1)", "Second")
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{script}")
    assert "pl.Trainer(devices=1, max_epochs=epochs" in made
    assert "fit(cls())" in made.replace("t = cls()\n", "").replace("fit(t)", "fit(cls())")
    assert "MIGRATE" not in made


def test_a_trainer_stays_with_a_context_that_stays(tmp_path):
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    script = _STAGES.format("pass", "getattr(trials, name)")
    made = rewritten(tmp_path, f"{HEAD}{source}\n\n{script}")
    assert "t = pytorch.Trainer(cls(ctx), ctx)" in made
    assert "MIGRATE" in made
    # A second run changes nothing.
    assert rewritten(tmp_path, made) == made


WITH_ROWS = ("def __init__(self, context):", "def __init__(self, context, rows):")


@pytest.mark.parametrize(
    ("before", "make", "after"),
    [
        ("cls: type = Trial", "cls(context, [1])", "cls([1])"),
        ("cls = getattr(here, 'Trial')", "cls(context, [1])", "cls([1])"),
        ("make = functools.partial(Trial, rows=[1])", "make(context)", "make()"),
        ("make = partial(Trial)", "make(context, [1])", "make([1])"),
        ("", "partial(Trial, rows=[1])(context)", "partial(Trial, rows=[1])()"),
        ("for cls in (Trial,): pass", "cls(context, [1])", "cls([1])"),
        ("for cls in KINDS.values(): pass", "cls(context, [1])", "cls([1])"),
    ],
)
def test_a_trial_is_made_by_another_name(before, make, after, tmp_path):
    script = f"""
        KINDS = {{"a": Trial}}

        def main():
            {before or "pass"}
            with pytorch.init() as context:
                t = pytorch.Trainer({make}, context)
                t.fit(max_length=pytorch.Epoch(2))
        """
    made = _script(tmp_path, script, WITH_ROWS)
    assert f"t.fit({after})" in made


def test_what_a_partial_lacks_is_what_the_context_had(tmp_path):
    script = """
        def main(hp):
            make = functools.partial(Trial, rows=[1])
            with pytorch.init(hparams=hp) as context:
                t = pytorch.Trainer(make(context), context)
                t.fit(max_length=pytorch.Epoch(2))
        """
    asking = ("lr=0.1", 'lr=context.get_hparam("lr")')
    assert 'make(lr=hp["lr"])' in _script(tmp_path, script, WITH_ROWS, asking)


def test_a_trial_is_made_by_a_function_that_does_more(tmp_path):
    script = """
        def main():
            with pytorch.init() as context:
                t = pytorch.Trainer(build(context, [1]), context)
                t.fit(max_length=pytorch.Epoch(2))

        def build(context, rows):
            print(rows)
            return Trial(context, rows)
        """
    made = _script(tmp_path, script, WITH_ROWS)
    assert "t.fit(build([1]))" in made
    assert made.endswith("def build(rows):\n    print(rows)\n    return Trial(rows)\n")


def test_a_function_that_makes_a_trial_with_hyperparameters_keeps_its_context(tmp_path):
    script = """
        def main(hp):
            with pytorch.init(hparams=hp) as context:
                t = pytorch.Trainer(build(context, [1]), context)
                t.fit(max_length=pytorch.Epoch(2))

        def build(context, rows):
            print(rows)
            return Trial(context, rows)
        """
    asking = ("lr=0.1", 'lr=context.get_hparam("lr")')
    assert "build(context, [1])" in _script(tmp_path, script, WITH_ROWS, asking, marks=4)


BY_HAND = """
    {above}
    def main():
        context = pytorch.PyTorchTrialContext.from_config({config})
        {below}
"""


@pytest.mark.parametrize(
    ("config", "above", "below", "after"),
    [
        ("{'hyperparameters': {}}", "", "return Trial(context)", "return Trial()"),
        ("{'hyperparameters': HP}", "HP = {'lr': 1}", "t = Trial(context)", "t = Trial(**HP)"),
        (
            "CONFIG",
            "CONFIG = {'hyperparameters': {}}",
            "Trial(context)",
            'CONFIG["hyperparameters"]',
        ),
    ],
)
def test_a_trial_that_is_called_by_hand_is_made_of_its_hyperparameters(
    config, above, below, after, tmp_path
):
    made = _script(tmp_path, BY_HAND.format(config=config, above=above, below=below))
    assert after in made
    assert "context" not in made


@pytest.mark.parametrize(
    ("config", "below"),
    [
        ("{'hyperparameters': {'lr': {'type': 'const', 'val': 1}}}", "Trial(context)"),
        ("{'hyperparameters': {'lr': 1}, **more}", "Trial(context)"),
        ("read()", "Trial(context)"),
        ("{'hyperparameters': {}}", "print(Trial(context), context)"),
        ("{'hyperparameters': {}}", "print(Trial(context).get(context.lr))"),
        ("{'hyperparameters': {}, 'optimizations': {}}", "Trial(context)"),
    ],
)
def test_a_context_that_is_made_of_what_is_not_known_is_marked(config, below, tmp_path):
    made = _script(tmp_path, BY_HAND.format(config=config, above="", below=below), marks=2)
    assert f"context = pytorch.PyTorchTrialContext.from_config({config})" in made
    assert below in made


def test_a_context_that_an_object_keeps_stays(tmp_path):
    script = BY_HAND.replace("context = ", "self.context = ").replace("main()", "main(self)")
    below, config = "self.trial = Trial(self.context)", "{'hyperparameters': {}}"
    made = _script(tmp_path, script.format(config=config, above="", below=below), marks=2)
    assert "self.context = pytorch.PyTorchTrialContext.from_config" in made


def test_a_helper_may_be_called_as_what_it_calls_of_a_trainer(tmp_path):
    script = """
    def main(hp):
        with pytorch.init(hparams=hp) as context:
            fit(Trial(context), context)

    def fit(trial, context):
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(2))
    """
    made = _script(tmp_path, script)
    assert "    fit(Trial(**hp))\n" in made
    assert "def fit(trial):\n    trainer = pl.Trainer(" in made
