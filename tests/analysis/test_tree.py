from __future__ import annotations

import os
from pathlib import Path

import pytest

from det_compat.analysis.tree import list_files
from tests.check.trees import write


def found(*paths: Path) -> list[str]:
    return [path.name for path, _ in list_files([str(path) for path in paths]).files]


def test_code_notebooks_and_yaml_are_listed_in_order(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["b.py", "a.ipynb", "c.yaml", "d.yml", "e.txt", "f.pyc"], ""))
    assert found(tmp_path) == ["a.ipynb", "b.py", "c.yaml", "d.yml"]


def test_programs_without_a_suffix_are_listed(tmp_path: Path) -> None:
    write(tmp_path, {"train": "#!/usr/bin/env python3\n", "submit": "#!/bin/bash\n", "LICENSE": ""})
    write(tmp_path, {"awk": "#!/usr/bin/awk -f\n", "notes": "python", "data.bin": "#!python"})
    assert found(tmp_path) == ["submit", "train"]


def test_other_peoples_folders_are_left_out_and_counted(tmp_path: Path) -> None:
    write(tmp_path, {".git/a.py": "", "x/__pycache__/b.py": "", "x/.venv/c.py": "", "x/d.py": ""})
    write(tmp_path, {"mine/pyvenv.cfg": "", "mine/lib/e.py": ""})
    listing = list_files([str(tmp_path)])
    assert [path.name for path, _ in listing.files] == ["d.py"]
    counted = {".git": 1, "__pycache__": 1, ".venv": 1, "virtual environment": 1}
    assert listing.skipped == counted


def test_a_file_is_listed_once_whatever_its_suffix(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "script": ""})
    assert found(tmp_path, tmp_path / "a.py", tmp_path / "script") == ["a.py", "script"]


@pytest.mark.parametrize("follow", [True, False])
def test_links_in_circles_end(tmp_path: Path, follow: bool) -> None:
    write(tmp_path, {"a/b.py": ""})
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "again.py").symlink_to(tmp_path / "a" / "b.py")
    listing = list_files([str(tmp_path)], follow_links=follow)
    assert len(listing.files) == 1
    assert listing.skipped == {"link to a directory": 1}


def test_links_out_of_the_tree_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path, {"trial/a.py": "", "shared/b.py": "", "shared/c/d.py": "", "more/e.py": ""})
    (tmp_path / "trial" / "shared").symlink_to(tmp_path / "shared")
    (tmp_path / "trial" / "again").symlink_to(tmp_path / "shared" / "c")
    (tmp_path / "shared" / "more").symlink_to(tmp_path / "more")
    (tmp_path / "more" / "back").symlink_to(tmp_path)
    listing = list_files([str(tmp_path / "trial")], follow_links=True)
    assert [path.relative_to(tmp_path / "trial").as_posix() for path, _ in listing.files] == [
        "a.py",
        "shared/b.py",
        "shared/c/d.py",
        "shared/more/e.py",
    ]
    assert listing.skipped == {"link to a directory": 2}


def test_what_training_has_written_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "code/b.py": "", "runs/x/001/det_compat_run.json": ""})
    write(
        tmp_path, {"runs/x/001/config.yaml": "", "saved/metadata.json": "", "saved/code/a.py": ""}
    )
    listing = list_files([str(tmp_path)])
    assert [path.name for path, _ in listing.files] == ["a.py", "b.py"]
    assert listing.skipped == {"results of a run": 1, "code of a checkpoint": 1}
    # asked for, it is read
    assert found(tmp_path / "saved" / "code") == ["a.py"]
    assert found(tmp_path / "runs" / "x" / "001") == ["config.yaml"]


def test_what_is_not_there_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "dead.py").symlink_to(tmp_path / "gone.py")
    problems = list_files([str(tmp_path / "nowhere"), str(tmp_path)]).problems
    assert [(path.name, reason) for path, reason in problems] == [
        ("nowhere", "there is no such path"),
        ("dead.py", "No such file or directory"),
    ]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    os.mkfifo(tmp_path / "pipe.py")
    listing = list_files([str(tmp_path)])
    assert [reason for _, reason in listing.problems] == ["not a regular file"]
