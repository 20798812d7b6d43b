from __future__ import annotations

import pytest

from det_compat.analysis.groups import groups
from det_compat.analysis.source import read

TRIAL = "from determined.pytorch import PyTorchTrial\nclass T(PyTorchTrial): ...\n"


def grouped(folder, texts: dict[str, str]) -> list[set[str]]:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sources = [read(folder / name, folder) for name in texts]
    found = [{path.relative_to(folder).as_posix() for path in group} for group in groups(sources)]
    return sorted(found, key=sorted)


@pytest.mark.parametrize(
    "line",
    [
        "import parts.data",
        "from parts import data",
        "from parts.data import make",
        "from .parts.data import make",
        "from . import parts",
        "def f():\n    from parts.data import make",
        "import sys; sys.path.append('..')\nfrom parts.data import make",
        "import sys; sys.path.append('../one/parts')\nfrom data import make",
        "importlib.import_module('data')",
    ],
)
def test_what_is_imported_belongs_to_it(line, tmp_path):
    texts = {
        "one/model.py": line,
        "one/parts/__init__.py": "",
        "one/parts/data.py": "from . import __name__",
        "two/model.py": TRIAL,
    }
    first, *others = grouped(tmp_path, texts)
    assert {"one/model.py"} < first
    assert others[-1] == {"two/model.py"}


def test_each_experiment_has_its_own_files(tmp_path):
    texts = {f"{name}/{file}.py": "" for name in ("one", "two") for file in ("data", "model_def")}
    texts |= {f"{name}/model_def.py": f"import data\n{TRIAL}" for name in ("one", "two")}
    assert grouped(tmp_path, texts) == [
        {"one/data.py", "one/model_def.py"},
        {"two/data.py", "two/model_def.py"},
    ]


def test_an_installed_package_is_no_file(tmp_path):
    texts = {"a.py": "from torch.utils.data import DataLoader", "data.py": ""}
    assert grouped(tmp_path, texts) == [{"a.py"}, {"data.py"}]


def test_callbacks_that_nothing_imports_may_be_of_any_trial_beside_them(tmp_path):
    callback = "from determined.pytorch import PyTorchCallback\n"
    texts = {"a.py": TRIAL, "b.py": callback, "c.py": "", "more/d.py": TRIAL}
    assert grouped(tmp_path, texts) == [{"a.py", "b.py"}, {"c.py"}, {"more/d.py"}]


def test_pedl_finds_the_parts_of_a_trial_in_its_folder(tmp_path):
    texts = {"a/m.py": "import pedl\n", "a/data.py": "", "b.py": ""}
    assert grouped(tmp_path, texts) == [{"a/data.py", "a/m.py"}, {"b.py"}]
