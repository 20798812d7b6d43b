"""``startup-hook.sh`` is named, and run where that is asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from det_compat.experiment import startup_hook
from det_compat.experiment.errors import FitError
from det_compat.experiment.request import parse_request
from tests.preloaded import python

CONFIG = """
name: hook
entrypoint: python train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
max_restarts: 0
"""
TRAIN = "import os; print('TRAIN', os.environ.get('FROM_HOOK'), os.getcwd())\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "const.yaml").write_text(CONFIG)
    (folder / "train.py").write_text(TRAIN)
    return folder


def fit(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["fit", "code/const.yaml", "--run_dir", "run", *options]
    return python("-m", "det_compat", *words, cwd=project.parent)


def test_what_it_exports_is_for_the_run_and_it_runs_once_in_its_folder(project: Path) -> None:
    (project / "startup-hook.sh").write_text("pwd >> ran\nexport FROM_HOOK=yes\n")
    done = fit(project)
    assert "startup-hook.sh ran before each trial" in done.stderr
    assert "TRAIN None" in done.stdout
    (project.parent / "run" / "det_compat_run.json").unlink()
    done = fit(project, "--startup-hook")
    assert done.returncode == 0, done.stderr
    assert f"TRAIN yes {project}" in done.stdout
    assert (project / "ran").read_text().splitlines() == [str(project)]
    assert "does not run by itself" not in done.stderr and "+ export FROM_HOOK=yes" in done.stderr


@pytest.mark.parametrize(("line", "status"), [("false", 1), ("exit 7", 7)])
def test_an_error_in_it_ends_the_command(line: str, status: int, project: Path) -> None:
    (project / "startup-hook.sh").write_text(f"{line}\n")
    done = fit(project, "--startup-hook")
    assert done.returncode == status and "TRAIN" not in done.stdout
    assert f"startup-hook.sh ended with status {status}, before the run" in done.stderr


def test_where_there_is_none_that_is_said(project: Path) -> None:
    request = parse_request("fit", [str(project / "const.yaml"), "--startup-hook"])
    assert request.startup_hook and "--startup-hook" not in request.words()
    with pytest.raises(FitError, match=r"there is no startup-hook\.sh in"):
        startup_hook.run_first(request)


def test_processes_of_a_launcher_do_not_run_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "startup-hook.sh").write_text("")
    monkeypatch.setitem(os.environ, "LOCAL_RANK", "0")
    request = parse_request("fit", [str(project / "const.yaml"), "--startup-hook"])
    with pytest.raises(FitError, match=r"run `bash startup-hook\.sh` once before it"):
        startup_hook.run_first(request)
