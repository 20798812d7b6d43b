from __future__ import annotations

import textwrap

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
    """Train.
    """
    # Here.
    hparams, latest = {}, None
    trainer = pl.Trainer(**length)
    trainer.fit(Trial(**hparams), ckpt_path=latest)


def pick(debug):
    info = None
    if debug:
        seed = 1
    else:
        seed = 2
    name = ("none") + "!"
    if info is None and debug:
        print(info)
    return seed, name


if __name__ == "__main__":
    print("it begins")

    run({"max_steps": 3})
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


def test_parameters_that_another_file_may_give_stay(tmp_path):
    (tmp_path / "other.py").write_text("from model_def import run\n\nrun(3, local=False)\n")
    made = rewritten(tmp_path, HEAD + trial() + SCRIPT)
    assert "def run(length, local=False):" in made and "hparams = info.trial.hparams" in made
