from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

SAID = "# pl.seed_everything() first makes this the same in each process, and when a run goes on\n"
AGAIN = "# load_from_checkpoint draws it anew, too: a checkpoint does not have what was drawn\n"


@pytest.mark.parametrize(
    ("line", "is_said"),
    [
        ("self.a, self.b = torch.utils.data.random_split(range(9), [6, 3])", True),
        ("self.a, self.b = random_split(range(9), [6, 3], generator=g)", False),
        ("self.a, self.b = train_test_split(x, y)", True),
        ("self.a, self.b = train_test_split(x, random_state=1)", False),
        ("order = np.random.permutation(9)", True),
        ("torch.manual_seed(1)\n        order = np.random.permutation(9)", False),
        ("self.folds = KFold(3)", False),
        ("self.folds = KFold(3, shuffle=True)", True),
        ("self.split()", True),
    ],
)
def test_what_is_drawn_for_data_is_said(line, is_said, tmp_path):
    begin = "        self.context = context\n"
    helper = "    def split(self):\n        random.shuffle(self.rows)\n\n    def evaluate_batch"
    known = [("    def evaluate_batch", helper)] if line == "self.split()" else []
    made = rewritten(tmp_path, trial((begin, f"{begin}        {line}\n"), *known))
    assert (SAID in made) is is_said
    assert "MIGRATE" not in made
    assert rewritten(tmp_path, made) == made


@pytest.mark.parametrize(
    ("helper", "is_said"),
    [
        ("def load():\n    return inner()\n\ndef inner():\n    np.random.shuffle(rows)", True),
        ("class load:\n    def __init__(self):\n        self.at = torch.randperm(9)", True),
        ("class load:\n    def __len__(self):\n        return torch.randperm(9)", False),
        ("def load():\n    np.random.seed(0)\n    np.random.shuffle(rows)", False),
        ("def load():\n    return load()", False),
    ],
)
def test_what_functions_of_other_files_draw_for_data_is_said(helper, is_said, tmp_path):
    begin = "        self.context = context\n"
    (tmp_path / "data.py").write_text(
        f"import numpy as np\nimport torch\n\nrows = []\n\n{helper}\n"
    )
    source = trial((begin, f"{begin}        self.rows = load()\n"))
    made = rewritten(tmp_path, f"from data import load\n{source}")
    assert (SAID in made) is is_said
    assert "MIGRATE" not in made


DATA_MODULE = """\
import torch


class Data:
    def prepare(self):
        return torch.randperm(9)

    def setup(self):
        self.train, self.val = torch.utils.data.random_split(range(9), [6, 3])

"""


@pytest.mark.parametrize(("method", "is_said"), [("setup", True), ("close", False)])
def test_what_a_method_of_an_object_draws_for_data_is_said(method, is_said, tmp_path):
    begin = "        self.context = context\n"
    (tmp_path / "data.py").write_text(DATA_MODULE)
    loading = "    def build_training_data_loader(self):\n"
    source = trial(
        (begin, f"{begin}        self.data = Data()\n"),
        (loading, f"{loading}        self.data.{method}()\n"),
    )
    made = rewritten(tmp_path, f"from data import Data\n{source}")
    assert (f"        {SAID}        self.data.setup()\n" in made) is is_said
    assert made.count(SAID) == is_said


@pytest.mark.parametrize(
    ("returned", "line", "is_said"),
    [
        ("make_loader(4)", "from utils import make_loader", True),
        ("utils.make_loader(4)", "import utils", True),
        ("make_loader(4)", "def make_loader(n): return DataLoader([], n)", False),
        ("DataLoader([], 4)", "import utils", False),
        ("loaders.DataLoader([], 4)", "import loaders", False),
    ],
)
def test_a_loader_of_a_function_that_is_not_there_has_to_be_torchs(
    returned, line, is_said, tmp_path
):
    source = trial(("return DataLoader([], batch_size=4)", f"return {returned}"))
    made = rewritten(tmp_path, f"{line}\n{source}")
    said = "# make_loader is in none of these files, and has to return a DataLoader of torch's\n"
    assert (said in made) is is_said
    assert "MIGRATE" not in made
    assert rewritten(tmp_path, made) == made


def test_what_a_step_draws_is_its_own(tmp_path):
    drawing = "        order = torch.randperm(9)\n        loss ="
    assert SAID not in rewritten(tmp_path, trial(("        loss =", drawing)))


@pytest.mark.parametrize("place", ["__init__", "train_dataloader"])
def test_what_is_drawn_as_a_module_is_made_no_checkpoint_has(place, tmp_path):
    draw = "    def draw(self):\n        a = np.random.choice(9)\n        b = np.random.choice(a)\n"
    begin = "        self.context = context\n"
    if place != "__init__":
        begin = "    def build_training_data_loader(self):\n"
    made = rewritten(
        tmp_path,
        trial(
            (begin, f"{begin}        self.draw()\n"),
            ("    def evaluate_batch", f"{draw}        return a, b\n\n    def evaluate_batch"),
        ),
    )
    said = f"        {SAID}" + (f"        {AGAIN}" if place == "__init__" else "")
    lines = "        a = np.random.choice(9)\n        b = np.random.choice(a)\n"
    # What is drawn line after line is spoken of once.
    assert f"    def draw(self):\n{said}{lines}" in made
    assert made.count(SAID) == 1
    assert rewritten(tmp_path, made) == made
