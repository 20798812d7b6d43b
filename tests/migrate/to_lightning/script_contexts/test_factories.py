from __future__ import annotations

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import trial

SCRIPT = """\
from determined import pytorch
from {0} import make


def main(lr):
    with pytorch.init(hparams={{"lr": lr}}) as context:
        trainer = pytorch.Trainer(make(context, lr), context)
        trainer.fit(max_length=pytorch.Batch(8), validation_period=pytorch.Batch(4))
"""
#: A trial that takes a number beside its context.
TRIAL = trial(
    ("context):", "context, lr):"),
    ("lr=0.1", "lr=lr"),
    ("self.context.get_per_slot_batch_size()", "4"),
)
MAKE = '''

def make(context, lr=0.1):
    """The trial."""
    return Trial(context, lr=lr)
'''


def migrated(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    results = migrate([str(folder)], "lightning").files
    assert not any(each.problem for each in results)
    return {each.path.stem: each.after.decode() for each in results}


def test_a_script_makes_the_trial_that_another_file_made_for_it(tmp_path):
    made = migrated(tmp_path, model=f"{TRIAL}{MAKE}", train=SCRIPT.format("model"))
    assert "MIGRATE" not in "".join(made.values())
    assert "def make" not in "".join(made.values())
    assert "from model import Trial\n" in made["train"]
    assert "trainer.fit(Trial(lr=lr))\n" in made["train"]


def test_the_trial_may_be_in_a_third_file(tmp_path):
    build = f"import os\n\nfrom model import Trial\n\nPATH = os.getcwd()\n{MAKE}"
    made = migrated(tmp_path, model=TRIAL, build=build, train=SCRIPT.format("build"))
    assert "MIGRATE" not in "".join(made.values())
    assert "from model import Trial\n" in made["train"]
    assert made["build"] == "import os\n\nPATH = os.getcwd()\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import make\n", "import make\n\nprint(make)\n"),
        ("import make\n", "import make\n\nTrial = None\n"),
        ("import make\n", "import make as made\n\nmake = made\n"),
        ("make(context, lr)", "make(context, make(context))"),
    ],
)
def test_a_script_that_does_more_with_it_stays_as_it_is(old, new, tmp_path):
    script = SCRIPT.format("model").replace(old, new)
    made = migrated(tmp_path, model=f"{TRIAL}{MAKE}", train=script)
    assert "def make" in made["model"]
    assert "# MIGRATE" in "".join(made.values())


@pytest.mark.parametrize(
    "other",
    [
        "from model import make\n",
        'import model\n\nmade = getattr(model, "make")\n',
        "import model\n\n\ndef again(context):\n    return model.make(context)\n",
    ],
)
def test_what_other_files_may_use_stays_where_it_is(other, tmp_path):
    made = migrated(tmp_path, model=f"{TRIAL}{MAKE}", train=SCRIPT.format("model"), other=other)
    assert "def make" in made["model"]


@pytest.mark.parametrize(
    "made_of",
    [
        "    print(lr)\n    return Trial(context, lr=lr)",
        "    return Trial(context, lr=lr).train()",
        "    return Trial(context, lr=lr * SCALE)",
    ],
)
def test_a_function_that_does_more_stays_where_it_is(made_of, tmp_path):
    factory = MAKE.replace("    return Trial(context, lr=lr)", made_of)
    text = f"{TRIAL}\n\nSCALE = 2\n{factory}"
    made = migrated(tmp_path, model=text, train=SCRIPT.format("model"))
    assert "def make" in made["model"]


@pytest.mark.parametrize(
    ("home", "near", "asked", "made"),
    [
        ("pkg/build.py", ".model", "pkg.build", "from pkg.model import Trial"),
        ("pkg/__init__.py", ".model", "pkg", "from pkg.model import Trial"),
        ("pkg/sub/build.py", "..model", "pkg.sub.build", "from pkg.model import Trial"),
    ],
)
def test_what_is_near_the_other_file_is_imported_from_where_it_is(
    home, near, asked, made, tmp_path
):
    for name, text in {
        "pkg/__init__.py": "",
        "pkg/sub/__init__.py": "",
        "pkg/model.py": TRIAL,
        "train.py": SCRIPT.format(asked),
        home: f"from {near} import Trial\n{MAKE}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {
        str(f.path.relative_to(tmp_path)): f for f in migrate([str(tmp_path)], "lightning").files
    }
    script = found["train.py"].after.decode()
    assert f"{made}\n" in script
    assert "make" not in script + found[home].after.decode()
    assert not any(each.marks for each in found.values())
