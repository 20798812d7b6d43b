from __future__ import annotations

import textwrap

import pytest

from tests.migrate.rewriting import rewritten, trial

HEAD = "import determined as det\nfrom determined import pytorch\n"
SCRIPT = '''
def run(length, local=False):
    """Train.

    Arguments:
        local: Whether this is no cluster.
    """
    info = det.get_cluster_info()
    if local:
        # Here.
        hparams, latest = {}, None
    else:
        hparams = info.trial.hparams
        latest = info.latest_checkpoint
    with pytorch.init(hparams=hparams) as context:
        trainer = pytorch.Trainer(Trial(context), context)
        trainer.fit(max_length=length, latest_checkpoint=latest)


def pick(debug):
    info = det.get_cluster_info()
    if debug:
        seed = 1
    elif info is not None:
        seed = info.trial.trial_seed
    elif not info:
        seed = 2
    name = (info.trial.trial_id if info else "none") + "!"
    if info is None and debug:
        print(info)
    return seed, name


if __name__ == "__main__":
    print("it begins")

    is_local = det.get_cluster_info() is None
    run(pytorch.Batch(3), local=is_local)
'''
EXPECTED = '''
def run(length):
    """Train."""
    # Here.
    hparams, latest = {}, None
    trainer = pl.Trainer(
        devices=1, max_steps=length, val_check_interval=length, check_val_every_n_epoch=None
    )
    # Lightning goes on inside of an epoch with the first batches of a loader
    trainer.fit(Trial(**hparams), ckpt_path=latest)


def pick(debug):
    info = None
    if debug:
        seed = 1
    else:
        seed = 2
    name = ("none") + "!"
    if debug:
        print(info)
    return seed, name


if __name__ == "__main__":
    print("it begins")

    run(3)
'''


def test_what_only_runs_on_a_cluster_goes(tmp_path):
    made = rewritten(tmp_path, HEAD + trial() + SCRIPT)
    assert made[made.index("\ndef run") :] == EXPECTED
    assert "determined" not in made and "MIGRATE" not in made


KEPT = """\
def asking():
    info = det.get_cluster_info()
    with pytorch.init(hparams=info.trial.hparams) as context:
        pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Batch(1))


def refusing():
    info = det.get_cluster_info()
    if info is None:
        raise RuntimeError("needs a cluster")
    print(info.trial.trial_id)


DEBUG = False


def either(local):
    if DEBUG:
        print("debug")
    if local:
        print("local")


either(det.get_cluster_info() is None)
either(True)
"""


def test_what_needs_a_cluster_is_left(tmp_path):
    made = rewritten(tmp_path, HEAD + trial() + KEPT)
    assert made.count("# MIGRATE: info.get_cluster_info has no counterpart") == 2
    assert 'raise RuntimeError("needs a cluster")' in made
    assert made.endswith(
        textwrap.dedent(KEPT[KEPT.index("DEBUG") :]).replace(
            "det.get_cluster_info() is None", "True"
        )
    )


BESIDE = """\
import determined as det
from determined.pytorch import PyTorchCallback


def cluster_id(default="local"):
    info = det.get_cluster_info()
    if info is None:
        return default
    return info.cluster_id


def on_cluster():
    return det.get_cluster_info() is not None


class Where(PyTorchCallback):
    def __init__(self):
        self.is_local = det.get_cluster_info() is None
        self.info = det.get_cluster_info()

    def on_trial_startup(self, first_batch_idx, checkpoint_uuid):
        info = det.get_cluster_info()
        print(info.cluster_id if info else "none")
"""


@pytest.mark.parametrize(
    ("text", "is_known"), [(BESIDE, True), (BESIDE[: BESIDE.index("class")], True), (BESIDE, False)]
)
def test_files_beside_trials_are_on_no_cluster(text, is_known, tmp_path):
    text += "" if is_known else "        self.info.trial\n"
    (tmp_path / "trial.py").write_text(trial())
    made = rewritten(tmp_path, text, name="beside.py")
    assert ("determined" not in made) is is_known
    assert 'def cluster_id(default="local"):\n    return default\n' in made
    assert "def on_cluster():\n    return False\n" in made
    if "class" in text:
        assert "self.is_local = True\n" in made and 'print("none")' in made


def test_scripts_of_the_core_api_may_be_on_a_cluster(tmp_path):
    (tmp_path / "trial.py").write_text(trial())
    (tmp_path / "core_script.py").write_text(
        "import beside, trial\nimport determined as det\n\nwith det.core.init() as core:\n    core"
    )
    text = BESIDE[: BESIDE.index("class")]
    with pytest.raises(AssertionError, match="it uses info"):
        rewritten(tmp_path, text, name="beside.py")


def test_parameters_that_another_file_may_give_stay(tmp_path):
    (tmp_path / "other.py").write_text("from model_def import run\n\nrun(3, local=False)\n")
    made = rewritten(tmp_path, HEAD + trial() + SCRIPT)
    assert "def run(length, local=False):" in made and "hparams = info.trial.hparams" in made


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (
            'hasattr(self.context.env, "first_step") and self.context.env.first_step() == n',
            "1 == n",
        ),
        ('not hasattr(self.context, "is_epoch_end") or n', "n"),
        ('n and hasattr(self.context, "distributed")', "n"),
        ('getattr(self.context.distributed, "get_rank", None)() == n', "self.global_rank == n"),
        ('getattr(self.context, "device")', "self.device"),
    ],
)
def test_what_a_context_has_for_sure_is_not_asked(asked, made, tmp_path):
    change = (
        "        loss =",
        f"        n = 2\n        if {asked}:\n            print(n)\n        loss =",
    )
    after = rewritten(tmp_path, trial(change))
    assert f"        if {made}:\n            print(n)\n" in after
    # Where a run began is not known in a batch.
    assert ("MIGRATE" in after) is ("first_step" in asked)


def test_branches_of_what_a_context_has(tmp_path):
    lines = """\
        has = hasattr(self.context, "device")
        if not has:
            raise ValueError
        kept = 1 if has else 2
        both = kept and hasattr(self.context, "models")
        loss ="""
    after = rewritten(tmp_path, trial(("        loss =", lines)))
    assert "        has = True\n        kept = 1\n        both = kept and True\n" in after


@pytest.mark.parametrize(
    "asked",
    [
        'hasattr(self.context, "log")',
        'getattr(self.context, "hparams", None)',
        "hasattr(self.context, name)",
        'hasattr(self.context.env, "managed_training")',
    ],
)
def test_a_module_is_not_asked_in_the_place_of_a_context(asked, tmp_path):
    change = (
        "        loss =",
        f'        name = "log"\n        print(name, {asked})\n        loss =',
    )
    after = rewritten(tmp_path, trial(change))
    name = asked.replace(")", ",").split(",")[1].strip()
    assert f"# MIGRATE: the context was asked for {name} by name; see" in after


def test_what_only_ran_on_a_cluster_leaves_no_statement(tmp_path):
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    script = """
import determined as det
from determined import pytorch

def main(foo):
    info = det.get_cluster_info()
    print(1) if info else None
    with pytorch.init() as context:
        trainer = pytorch.Trainer(Trial(context), context)
        trainer.configure_profiler(enabled=True) if info is not None else None
        trainer.fit(max_length=pytorch.Batch(3))
"""
    made = rewritten(tmp_path, source + script)
    assert "MIGRATE" not in made
    assert "    None\n" not in made
    assert "def main(foo):\n    trainer = pl.Trainer(" in made


TWO_CALLS = """
def say(text, loud=False):
    print(text.upper() if loud else text)


def run(latest=None, local=True, debug=False):
    with pytorch.init(hparams={"global_batch_size": 4}) as context:
        trainer = pytorch.Trainer(Trial(context), context)
        if debug:
            print(context)
        trainer.fit(
            max_length=pytorch.Epoch(2) if local else None,
            latest_checkpoint=latest,
        )


info = det.get_cluster_info()
if info is None:
    run()
    say("done")
else:
    run(info.latest_checkpoint, local=False)
    say("done", loud=True)
"""


def test_what_only_calls_on_a_cluster_give_is_known(tmp_path):
    made = rewritten(tmp_path, HEAD + trial() + TWO_CALLS)
    assert "MIGRATE" not in made
    assert made.endswith(', ckpt_path=latest)\n\n\nrun()\nsay("done")\n')
    assert "def run(latest=None):\n    trainer = pl.Trainer(devices=1, max_epochs=2," in made
    # What has nothing to do with a cluster stays.
    assert "def say(text, loud=False):\n    print(text.upper() if loud else text)\n" in made


def test_a_parameter_that_other_calls_give_stays(tmp_path):
    again = 'run(None, local=input("local?") == "yes")\n'
    made = rewritten(tmp_path, HEAD + trial() + TWO_CALLS + again)
    assert "def run(latest=None, local=True):" in made
    # None would have been refused.
    assert "pl.Trainer(devices=1, max_epochs=2," in made
