"""What of the working directory comes into a checkpoint."""

from __future__ import annotations

import logging
import os
import uuid
from pathlib import Path

import pytest

from det_compat.adapters.checkpoints import code_folder
from det_compat.adapters.checkpoints.code_folder import CodeFolder


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    return folder


def make(origin: Path, *names: str, text: str = "x = 1") -> None:
    for name in names:
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(text)


def copied(origin: Path, storage: str = "storage") -> list[str]:
    target = origin.parent / uuid.uuid4().hex
    CodeFolder(origin, origin / storage).copy_to(target)
    return sorted(p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file())


def test_sources_are_copied_and_what_tools_and_runs_write_is_not(origin: Path) -> None:
    sources = ["model_def.py", "pkg/net.py", "const.yaml", "notes.ipynb", "requirements.txt"]
    make(origin, *sources, text="")
    checkpoint = str(uuid.uuid4())
    make(
        origin,
        "venv/pyvenv.cfg",
        "venv/lib/a.py",
        "conda/conda-meta/history",
        "conda/a.py",
        ".git/hooks/a.py",
        "__pycache__/a.py",
        "node_modules/a.json",
        "lightning_logs/version_0/hparams.yaml",
        "runs/20241018/events.out.tfevents.1729000000.host.7.0",
        "runs/20241018/hparams.yaml",
        "runs/20241018/a/hparams.yaml",
        "wandb/a.yaml",
        "storage/a.py",
        # The storages of other runs, complete, begun and of the old layout:
        f"other/{checkpoint}/code/model_def.py",
        f"other/{checkpoint}/metadata.json",
        f"other/{uuid.uuid4()}/code/model_def.py",
        "downloaded/state_dict.pth",
        "of_pedl/pedl/state_dict.pth",
        "of_pedl/code/model_def.py",
        "begun/metadata.json.partial",
        "begun/code/model_def.py",
        "downloaded/code/model_def.py",
        "runs/x/001/det_compat_run.json",
        "runs/x/001/config.yaml",
        "searches/x/search.json",
        "searches/x/trials/0000/trial.json",
        ".hidden.py",
        "data.bin",
    )
    assert copied(origin) == sorted(sources)


def test_code_beside_events_of_tensorboard_is_copied(origin: Path) -> None:
    make(origin, "events.out.tfevents.1729000000.host.7.0", "train.py", "const.yaml")
    assert copied(origin) == ["const.yaml", "train.py"]


def test_checkpoints_do_not_grow_from_run_to_run(origin: Path) -> None:
    make(origin, "model_def.py")
    for number in range(4):
        storage = origin / f"checkpoints{number}"
        for _ in range(3):
            path = storage / str(uuid.uuid4())
            path.mkdir(parents=True)
            CodeFolder(origin, storage).copy_to(path / "code")
            found = [p.name for p in (path / "code").rglob("*") if p.is_file()]
            assert found == ["model_def.py"]


def test_what_detignore_excludes_stays_out(origin: Path) -> None:
    make(origin, "a.py", "b.py", "data/x.py", "data/keep.py", "pkg/data/y.py")
    (origin / ".detignore").write_text("# mine\n/data/*\n!data/keep.py\nb.*\n")
    assert copied(origin) == ["a.py", "data/keep.py", "pkg/data/y.py"]


def test_nothing_comes_back_from_a_folder_that_is_excluded(origin: Path) -> None:
    make(origin, "a/b.py", "c.py")
    (origin / ".detignore").write_text("a/\n!a/b.py\n")
    assert copied(origin) == ["c.py"]


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")  # of sets such as []&&x]
def test_any_line_of_detignore_can_be_read(origin: Path) -> None:
    make(origin, "a.py", "]b.py", "&.py", "c/d.py")
    (origin / ".detignore").write_text(
        "\ufeff[!\\]a-d&].py\n[]&&x].py\n[z-a]*\n[\n***/d.py\n[[a--b]\n\\\n"
    )
    assert copied(origin) == ["]b.py", "a.py"]


def test_secrets_stay_out_and_are_named_once(
    origin: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(origin, "token.txt", text="abc")
    make(origin, "service.json", text='{"private_key": "-----BEGIN PRIVATE KEY-----\\nab"}')
    make(origin, "settings.toml", text='api_key = "hush"')
    make(origin, "login.py", text='KEY = "AKIAABCDEFGHIJKLMNOP"')
    make(origin, "notes.ipynb", text='{"source": ["hf_token = \\"abcd1234\\""]}')
    (origin / "cfg.yaml").write_text("password: hush", "utf-16")
    make(origin, "model_def.py")
    folder = CodeFolder(origin, origin / "storage")
    with caplog.at_level(logging.WARNING, "determined.pytorch"):
        for name in ("first", "second"):
            folder.copy_to(origin.parent / name)
    assert [path.name for path in (origin.parent / "second").iterdir()] == ["model_def.py"]
    (record,) = caplog.records
    for name in (
        "token.txt",
        "service.json",
        "settings.toml",
        "login.py",
        "notes.ipynb",
        "cfg.yaml",
    ):
        assert f"{name} (it looks like a secret)" in record.message


def test_a_file_is_read_for_secrets_once(origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(origin, "a.py", "b.yaml")
    read = []
    monkeypatch.setattr(code_folder, "holds_secrets", lambda *_, **__: bool(read.append(1)))
    folder = CodeFolder(origin, origin / "storage")
    for name in ("first", "second"):
        folder.copy_to(origin.parent / name)
    assert len(read) == 2
    make(origin, "b.yaml", text="changed: true")
    folder.copy_to(origin.parent / "third")
    assert len(read) == 3


@pytest.mark.parametrize(
    ("limit", "value"), [("MOST_FILES", 3), ("MOST_BYTES", 20), ("MOST_ENTRIES", 5)]
)
def test_what_is_copied_is_bounded(
    origin: Path,
    limit: str,
    value: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make(origin, *(f"f{number}/{number}.py" for number in range(8)))
    monkeypatch.setattr(code_folder, limit, value)
    assert len(copied(origin)) < 8
    assert "beyond" in caplog.text and str(origin) in caplog.text


def test_files_that_vanish_or_cannot_be_read_end_nothing(
    origin: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make(origin, "a.py", "b.py", "c.py", "d.py")
    os.symlink(origin / "nowhere.py", origin / "e.py")
    os.mkfifo(origin / "f.py")
    copy = code_folder.shutil.copy2

    def copy2(source: Path, target: Path) -> None:
        if source.name == "a.py":
            source.unlink()
        if source.name == "b.py":
            raise PermissionError(13, "Permission denied")
        copy(source, target)

    monkeypatch.setattr(code_folder.shutil, "copy2", copy2)
    assert copied(origin) == ["c.py", "d.py"]
    assert "b.py (Permission denied)" in caplog.text and "a.py" not in caplog.text
