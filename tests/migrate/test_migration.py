from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from det_compat.analysis import source
from det_compat.migrate import migration
from det_compat.migrate.tree.facts import Analysis
from tests.migrate.rewriting import trial

OLD = """\
from determined.pytorch import PyTorchTrial

class T(PyTorchTrial):
    def __init__(self, context): self.context = context
    def build_model(self): return 1
    def optimizer(self, model): return 2
    def train_batch(self, batch, model, epoch_idx, batch_idx): return {"loss": 1}
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
    def evaluate_batch(self, batch, model): return {}
"""


@pytest.mark.parametrize(
    ("texts", "analyses"), [({"a.py": "import determined as det\n"}, 1), ({"a.py": OLD}, 2)]
)
def test_what_no_step_has_changed_is_read_once(
    texts: dict[str, str], analyses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    made: list[Analysis] = []

    def parsed(path: Path, root: Path, data: bytes) -> source.Source:
        read.append(path)
        return source.parsed(path, root, data)

    def analysis(sources: list[source.Source]) -> Analysis:
        made.append(Analysis(sources))
        return made[-1]

    for name, text in {**texts, "other.py": "import a\n"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(migration, "parsed", parsed)
    monkeypatch.setattr(migration, "Analysis", analysis)
    migration.migrate([str(tmp_path)], "lightning")
    assert len(made) == analyses
    assert read == [tmp_path / "a.py"] * (analyses - 1)


@pytest.mark.parametrize(
    "code", [f"x = {'not ' * 1500}det", f"x = det{'.a' * 1500}", f"x = {'(' * 9999}"]
)
@pytest.mark.parametrize("to", migration.TARGETS)
def test_a_deep_file_never_ends_the_command(to: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"import determined as det\n{code}\n")
    (tmp_path / "b.py").write_text("import determined as det\ndet.InvalidHP\n")
    found = {file.path.name: file for file in migration.migrate([str(tmp_path)], to).files}
    assert found["a.py"].problem
    assert found["a.py"].traceback == ""
    assert found["b.py"].problem == ""


@pytest.mark.parametrize(
    "name", ["det_compat.migrate.to_lightning.target.hoist_wraps", f"{migration.__name__}.reviewed"]
)
def test_a_fault_in_what_is_found_of_all_files_never_ends_the_command(name, tmp_path, monkeypatch):
    def fails(*args: object, **keywords: object) -> None:
        raise AttributeError("no such node")

    (tmp_path / "a.py").write_text(OLD)
    monkeypatch.setattr(name, fails)
    (file,) = migration.migrate([str(tmp_path)], "lightning").files
    assert file.problem.startswith("internal error: AttributeError: no such node")
    assert file.traceback and not file.is_changed


def test_a_file_that_cannot_be_read_never_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import determined as det\ndet.InvalidHP\n")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    with (tmp_path / "huge.py").open("wb") as huge:
        huge.truncate(10**12)
    os.mkfifo(tmp_path / "pipe.py")
    found = {f.path.name: f for f in migration.migrate([str(tmp_path)], "det_compat").files}
    assert {name for name, file in found.items() if file.problem} == {*found} - {"a.py"}
    assert found["a.py"].is_changed and len(found) == 4
    with pytest.raises(OSError, match=r"gone\.py"):
        migration.migrate([str(tmp_path / "gone.py")], "det_compat")


def test_a_file_that_python_could_not_import_is_no_bug(tmp_path):
    (tmp_path / "model_def.py").write_bytes(b"import determined\n# \xb2\n")
    (result,) = migration.migrate([str(tmp_path)], "lightning").files
    assert result.problem.startswith("it is not in its encoding: ")
    assert not result.traceback


def test_nothing_is_said_of_files_that_have_nothing_to_do_with_a_trial(tmp_path: Path) -> None:
    look = "def rates(trainer):\n    return trainer.opt.param_groups, trainer.model\n"
    for name, text in {"one/model_def.py": trial(), "two/look.py": look}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    files = {file.path.name: file for file in migration.migrate([str(tmp_path)], "lightning").files}
    assert not files["look.py"].is_changed
    assert b"        return torch.optim.SGD" in files["model_def.py"].after


@pytest.mark.parametrize("shared", ["", "import one\n"])
def test_two_processes_make_of_files_what_one_does(
    shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several projects, and of one whose files import one another."""
    texts = {"one.py": OLD, "two.py": shared + trial()}
    if not shared:  # since what cannot be read keeps its whole project as it is
        texts["three.py"] = "import determined\nx = " + "not " * 1500 + "y\n"
    for name, text in texts.items():
        folder = tmp_path if shared else tmp_path / name.removesuffix(".py")
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(migration, "_BYTES_OF_A_PROCESS", 1)
    made = [migration.migrate([str(tmp_path)], "lightning", processes=each) for each in (1, 2)]
    assert made[0] == made[1]
    assert (len(made[0].changed), len(made[0].failed)) == (2, len(texts) - 2)


def test_nothing_needs_the_matchers_of_libcst() -> None:
    # They take as long to import as all the rest of it.
    code = "import sys, det_compat.migrate.migration; sys.exit('libcst.matchers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_diff_says_where_a_file_ends_without_a_newline(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(trial().rstrip("\n"))
    (result,) = migration.migrate([str(tmp_path)], "lightning").files
    patch = tmp_path / "a.patch"
    patch.write_text(result.diff())
    assert "\\ No newline at end of file\n" in result.diff()
    command = ["git", "apply", f"-p{len(path.parts) - 1}", str(patch)]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert path.read_bytes() == result.after


def test_folders_of_copies_that_are_not_read_are_counted(tmp_path):
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "a-checkpoint.py").write_text(trial())
    found = migration.migrate([str(tmp_path)], "lightning")
    assert (found.copies, found.files) == (1, [])
