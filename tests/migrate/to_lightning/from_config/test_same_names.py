"""What a trial takes beside its context under the name of a hyperparameter."""

from __future__ import annotations

import pytest
import pytorch_lightning as pl

from tests.migrate.rewriting import rewritten, trial

INIT = "def __init__(self, context):"
OWN = "def __init__(self, context, depth=1):"
MODEL = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
DEEP = f"{MODEL}\n        self.depth = depth"
CONFIG = """
entrypoint: model_def:{0}
hyperparameters: {{global_batch_size: 4, depth: {1}}}
searcher: {{name: single, metric: loss, max_length: {{batches: 1}}}}
"""


def module_of(text, name):
    made = {}
    exec(compile(text, "made", "exec"), made)
    assert issubclass(made[name], pl.LightningModule)
    return made[name]


def test_a_script_gives_a_parameter_what_the_hyperparameter_is(tmp_path):
    script = """

def main(hparams):
    with pytorch.init(hparams=hparams) as context:
        trial = Trial(context, depth=hparams["depth"])
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(1))
"""
    source = "from determined import pytorch\n" + trial((INIT, OWN), (MODEL, DEEP)) + script
    text = rewritten(tmp_path, source)
    assert "MIGRATE" not in text
    assert module_of(text, "Trial")(depth=3, global_batch_size=4).depth == 3


@pytest.mark.parametrize(
    ("asked", "given", "is_one"),
    [
        ("hparams['depth']", "hparams['depth']", True),
        ("hparams['depth']", "int(hparams.get('depth', 1))", True),
        ("hparams['depth']", "args.depth", False),
        ("hparams['depth']", "args['depth']", False),
        ("hparams['depth']", "depth", False),
        ("self.look('depth')", "args.depth", False),
    ],
)
def test_what_only_has_the_name_of_the_hyperparameter_is_another(asked, given, is_one, tmp_path):
    script = f"""

def main(hparams, args, depth):
    with pytorch.init(hparams=hparams) as context:
        trial = Trial(context, depth={given})
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(1))
"""
    look = "    def look(self, name):\n        return self.all[name]\n\n    def build_training"
    lines = (
        f"{DEEP}\n        hparams = self.all = context.get_hparams()\n        self.other = {asked}"
    )
    source = trial((INIT, OWN), (MODEL, lines), ("    def build_training", look))
    text = rewritten(tmp_path, f"from determined import pytorch\n{source}{script}")
    assert "kept apart" not in text
    assert ("trial_depth" in text) is not is_one


@pytest.mark.parametrize(("value", "name"), [(1, "depth"), (2, "trial_depth")])
def test_a_config_never_gave_it_to_the_parameter(value, name, tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG.format("Trial", value))
    text = rewritten(tmp_path, trial((INIT, OWN), (MODEL, DEEP)))
    assert "MIGRATE" not in text
    assert f"self.depth = {name}\n" in text
    assert module_of(text, "Trial")(global_batch_size=4).depth == 1


ASKED = f"{DEEP}\n        self.other = context.get_hparam('depth')"


@pytest.mark.parametrize(
    "made",
    ["Trial(c, depth=7)", "Trial(c, 7)", "Heir(c, depth=7)", "Other(c, 7)", "Last(c)"],
)
def test_a_hyperparameter_of_this_name_that_the_code_asks_for_is_another(made, tmp_path):
    heirs = """

class Heir(Trial):
    def __init__(self, context, **rest):
        super().__init__(context, **rest)


class Other(Trial):
    def __init__(self, context, deep):
        super().__init__(context, depth=deep)


class Last(Trial):
    def __init__(self, context):
        Trial.__init__(self, context, depth=[depth + 4 for depth in [3]][0])
"""
    text = rewritten(
        tmp_path, trial((INIT, OWN), (MODEL, ASKED)) + f"{heirs}\n\nmake = lambda c: {made}\n"
    )
    assert "kept apart" not in text
    given = made.partition("(")[2].removeprefix("c").removeprefix(", ").removesuffix(")")
    new = given.replace("depth=", "trial_depth=")
    hparams = "depth=2, global_batch_size=4"
    all_given = ", ".join(filter(None, [new, hparams]))
    scope = {}
    exec(compile(text, "made", "exec"), scope)
    module = eval(f"{made.partition('(')[0]}({all_given})", scope)
    assert (module.depth, module.other) == (7, 2)


@pytest.mark.parametrize(
    ("own", "made"),
    [
        (ASKED, "getattr(sys.modules[__name__], 'Trial')(c, depth=7)"),
        (ASKED, "Trial(c, **{'depth': 7})"),
        (f"{ASKED}\n        print([depth for depth in (1, 2)])", "Trial(c, depth=7)"),
        (f"{ASKED}\n        print(locals())", "Trial(c, depth=7)"),
    ],
)
def test_what_cannot_be_renamed_is_marked(own, made, tmp_path):
    text = rewritten(tmp_path, trial((INIT, OWN), (MODEL, own)) + f"\n\nmake = lambda c: {made}\n")
    assert '"depth" is a parameter and a hyperparameter, which Determined kept apart' in text


@pytest.mark.parametrize(
    ("given", "depth"),
    [("", 1), (", depth=5", 5), (", 6", 6), (", depth=context.get_hparam('depth')", 2)],
)
def test_an_heir_gives_its_base_no_hyperparameter_for_a_parameter(given, depth, tmp_path):
    heir = f"""

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context{given})
"""
    (tmp_path / "const.yaml").write_text(CONFIG.format("Heir", 2))
    text = rewritten(tmp_path, trial((INIT, OWN), (MODEL, DEEP)) + heir)
    assert "MIGRATE" not in text
    module = module_of(text, "Heir")(depth=2, global_batch_size=4)
    assert module.depth == depth
    assert module_of(text, "Heir")(**module.hparams).depth == depth


def test_an_heir_that_names_its_base_gives_it_by_place(tmp_path):
    heir = """

class Heir(Trial):
    def __init__(self, context):
        Trial.__init__(self, context, context.get_hparam("depth") + 1)
"""
    own = 'def __init__(self, context, depth=1):\n        """depth: of the model."""'
    text = rewritten(tmp_path, trial((INIT, own), (MODEL, ASKED)) + heir)
    assert "MIGRATE" not in text and '"""trial_depth: of the model."""' not in text
    made = module_of(text, "Heir")(depth=2, global_batch_size=4)
    again = module_of(text, "Heir")(**made.hparams)
    assert (made.depth, made.other) == (again.depth, again.other) == (3, 2)


@pytest.mark.parametrize("given", ['metric="none"', '"none"'])
def test_what_an_heir_gives_by_itself_is_given_once(given, tmp_path):
    heir = f"""

class Heir(Trial):
    def __init__(self, context, **rest):
        super().__init__(context, {given}, **rest)


make = lambda context: (Heir(context, depth=3), Trial(context, "other"))
"""
    own = "def __init__(self, context, metric='loss', depth=1):"
    kept = f"{DEEP}\n        self.metric = metric"
    text = rewritten(tmp_path, trial((INIT, own), (MODEL, kept)) + heir)
    text = text.replace("(context, ", "(")
    made = module_of(text, "Heir")(depth=3, global_batch_size=4)
    again = module_of(text, "Heir")(**made.hparams)
    assert (again.metric, again.depth) == ("none", 3)
