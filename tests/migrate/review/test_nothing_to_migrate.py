import json

import pytest

from det_compat.analysis.source import read
from det_compat.migrate.migration import migrate
from det_compat.migrate.review.nothing_to_migrate import set_aside
from tests.migrate.rewriting import trial

_READING = """\
import determined as det
from determined import pytorch
from determined.experimental import Determined, client

print(det.__version__)
client.login("master")
checkpoint = client.get_trial(3).top_checkpoint()
trial = pytorch.load_trial_from_checkpoint_path(checkpoint.download())
"""


def _of(folder, name, text):
    path = folder / name
    if path.suffix == ".ipynb":
        cell = {"cell_type": "code", "metadata": {}, "outputs": []}
        cells = [cell | {"source": part} for part in text.split("# %%\n")]
        text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4})
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deploy.py", _READING),
        ("deploy.ipynb", _READING),
        ("submit.py", "from determined.experimental.client import create_experiment as c\nc({})\n"),
        ("submit.ipynb", "import pedl\n!det experiment create const.yaml ."),
        ("load.py", "from determined import pytorch\npytorch.load_trial_from_checkpoint_path('a')"),
        ("look.ipynb", "from determined.experimental import Checkpoint"),
        ("broken.py", "print 3\n"),
        ("blank.ipynb", f"{_READING}# %%\nclient.get_trial(<your trial>)\n"),
    ],
)
def test_what_only_asks_a_master_or_is_no_python_is_named_and_not_edited(name, text, tmp_path):
    path = _of(tmp_path, name, text)
    _of(tmp_path, "model_def.py", trial())
    before = path.read_bytes()
    found = migrate([str(tmp_path)], "lightning")
    assert [*found.set_aside] == [path]
    assert not (found.marks or found.failed or found.notebooks or found.left_out)
    assert [file.path.name for file in found.changed] == ["model_def.py"]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", f"from model_def import Trial\n{_READING}"),
        ("a.py", f"{_READING}\nwith det.core.init() as core: pass\n"),
        ("a.py", "from determined.experimental import *\nDetermined()\n"),
        ("a.py", "from determined import LOG_FORMAT\n"),
        ("a.py", "from determined.experimental import client\nprint client\n"),
        ("a.ipynb", "from model_def import Trial\n!det e create const.yaml ."),
        ("a.ipynb", f"{_READING}# %%\npytorch.init(hparams=<yours>)\n"),
        ("a.ipynb", f"{_READING}# %%\nimport determined.keras as k, <yours>\n"),
        ("a.ipynb", "{"),
        # A trial needs it, and with it a master.
        ("layers.py", _READING),
    ],
)
def test_what_belongs_to_the_code_that_is_migrated_is_not_set_aside(name, text, tmp_path):
    path = _of(tmp_path, name, text)
    model = _of(tmp_path, "model_def.py", f"import layers\n{trial()}")
    assert set_aside({each: read(each, tmp_path) for each in (path, model)}) == {}


@pytest.mark.parametrize(
    ("heir", "is_aside"),
    [
        ("from model_def import Trial\nclass Wine(Trial):\n    pass\n", False),
        ("import model_def as base\nclass Wine(base.Trial):\n    pass\n", False),
        ("from model_def import Trial\nclass Wine(list):\n    of = Trial\n", True),
    ],
)
def test_what_derives_from_a_trial_in_another_file_is_migrated_too(heir, is_aside, tmp_path):
    files = {
        "ask.py": f"from wine import Wine\n{_READING}",
        "model_def.py": trial(),
        "wine.py": heir,
    }
    made = {_of(tmp_path, name, text): name for name, text in files.items()}
    found = set_aside({each: read(each, tmp_path) for each in made})
    assert [made[path] for path in found] == (["ask.py"] if is_aside else [])


def test_a_copy_of_determined_stays_as_it_is(tmp_path):
    copy = tmp_path / "patched" / "determined"
    (copy / "pytorch").mkdir(parents=True)
    text = "import determined as det\ndet.core.init()\n"
    paths = [_of(copy, "_core.py", text), _of(copy / "pytorch", "_data.py", text)]
    _of(tmp_path, "model_def.py", trial())
    found = migrate([str(tmp_path)], "lightning")
    assert sorted(found.set_aside) == sorted(paths)
    assert not (found.marks or found.failed or found.left_out)
    # A folder of this name may be a project's own.
    (copy / "pytorch" / "_data.py").rename(copy / "pytorch" / "data.py")
    assert not migrate([str(tmp_path)], "lightning").set_aside


@pytest.mark.parametrize(
    ("helper", "is_aside"),
    [
        ("def load(context, name): return context.get_hparam(name)\n", True),
        ("class Mean(pytorch.MetricReducer): ...\n", False),
        ("class Model(torch.nn.Module): ...\n", True),
    ],
)
def test_a_notebook_may_import_what_is_no_class_of_determineds(helper, is_aside, tmp_path):
    _of(tmp_path, "helper.py", f"import torch\nfrom determined import pytorch\n{helper}")
    _of(tmp_path, "model_def.py", f"import helper\n{trial()}")
    path = _of(tmp_path, "look.ipynb", f"import helper\n{_READING}")
    found = migrate([str(tmp_path)], "lightning")
    assert [*found.set_aside] == ([path] if is_aside else [])
    assert found.notebooks == ([] if is_aside else [path])
