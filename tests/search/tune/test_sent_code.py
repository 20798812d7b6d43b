"""Code that is sent to the machines of a cluster."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from det_compat.search.errors import SearchError

pytest.importorskip("ray", reason="needs det-compat[search]")

from det_compat.search.tune import sent_code


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "model_def.py": "one",
        "pkg/part.py": "two",
        "pkg/.gitignore": "!kept.bin\n/part.py.orig\n",
        "pkg/kept.bin": "three",
        "pkg/part.py.orig": "",
        "pkg/data/big": "",
        "other.bin": "",
        "runs/trial.json": "",
        ".gitignore": "*.bin\ndata/\n",
    }
    for name, text in files.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "/before")
    return tmp_path / "project"


def test_it_arrives_as_git_would_have_it(project: Path, tmp_path: Path) -> None:
    (project / "pkg" / "part.py").chmod(0o755)
    sent_code.unpack(sent_code.packed(project, ["/runs/"]), tmp_path / "there")
    found = {str(file.relative_to(Path.cwd())) for file in Path.cwd().rglob("*") if file.is_file()}
    assert found == {"model_def.py", "pkg/part.py", "pkg/kept.bin", ".gitignore", "pkg/.gitignore"}
    assert Path.cwd() == tmp_path / "there"
    assert os.access("pkg/part.py", os.X_OK)
    assert not os.access("model_def.py", os.X_OK)
    assert sys.path[0] == str(tmp_path / "there")
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(tmp_path / "there"), "/before"])


def test_there_may_be_none(tmp_path: Path, project: Path) -> None:
    sent_code.unpack(sent_code.packed(project, ["*"]), tmp_path / "there")
    assert list(Path.cwd().iterdir()) == []


def test_no_data(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_code, "_MOST_BYTES", 2)
    with pytest.raises(SearchError, match=r"more than 0 MB.*\.gitignore"):
        sent_code.packed(project, [])


def test_links_that_lead_up_have_no_end(project: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "used.py").touch()
    (project / "linked").symlink_to(tmp_path / "library")
    (project / "pkg" / "itself").symlink_to(".")
    (project / "pkg" / "latest").symlink_to("..")
    (project / "nowhere").symlink_to("gone")
    sent_code.unpack(sent_code.packed(project, ["*.bin", "/runs/"]), tmp_path / "there")
    found = {str(file.relative_to(Path.cwd())) for file in Path.cwd().rglob("*.py")}
    assert found == {"model_def.py", "pkg/part.py", "linked/used.py"}


def test_what_cannot_be_read_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "model_def.py")

    monkeypatch.setattr(zipfile.ZipFile, "write", write)
    with pytest.raises(SearchError, match=r"cannot be sent.*denied: 'model_def\.py'.*\.gitignore"):
        sent_code.packed(project, [])
