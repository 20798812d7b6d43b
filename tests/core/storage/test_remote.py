from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import fsspec
import pytest

from det_compat.core import CheckpointStore
from det_compat.core.storage import CloudStorageManager
from det_compat.core.storage.remote import is_url, local_path
from det_compat.errors import CheckpointWriteError
from tests.core import disk_filesystem
from tests.fresh_python import ROOT, environment


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    disk_filesystem.register()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def store(context: CheckpointStore) -> str:
    with context.store_path({"steps_completed": 1}) as (path, name):
        (path / "code").mkdir()
        (path / "code" / "model_def.py").write_text("pass")
        (path / "state").write_text("content")
    return name


def test_a_trial_does_not_notice_that_a_filesystem_draws_random_numbers(tmp_path: Path) -> None:
    state = random.getstate()
    store(CheckpointStore(f"disk://{tmp_path}/base"))
    assert random.getstate() == state


@pytest.mark.parametrize("fails_at", ["model_def.py", "state", "metadata.json"])
def test_an_upload_that_fails(tmp_path: Path, temporary: Path, fails_at: str) -> None:
    base = f"disk://{tmp_path}/base"
    previous = store(CheckpointStore(base))
    context = CheckpointStore(base, {"fails_at": fails_at})
    with pytest.raises(CheckpointWriteError, match=rf"{base}/.*NotAnOSError: 503.*{fails_at}"):
        store(context)
    assert os.listdir(tmp_path / "base") == [previous]
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("cut", ["model_def.py", "state"])
def test_a_file_that_is_cut_off_on_its_way(tmp_path: Path, temporary: Path, cut: str) -> None:
    base = f"disk://{tmp_path}/base"
    with pytest.raises(CheckpointWriteError, match=rf"{cut} did not arrive whole"):
        store(CheckpointStore(base, {"truncates": cut}))
    assert os.listdir(tmp_path / "base") == os.listdir(temporary) == []
    name = store(CheckpointStore(base))
    with pytest.raises(OSError, match=rf"{cut} was not downloaded whole"):
        CheckpointStore(base, {"truncates": cut}).find(name)
    with pytest.raises(OSError, match=rf"{cut} was not downloaded whole"):
        CloudStorageManager(base, {"truncates": cut}).download(name, tmp_path / "copy")


def test_what_is_uploaded_does_not_stay_here(tmp_path: Path, temporary: Path) -> None:
    store(CheckpointStore(f"disk://{tmp_path}/base"))
    assert os.listdir(temporary) == []


def test_a_download_stays_while_the_process_does(tmp_path: Path) -> None:
    name = store(CheckpointStore(f"disk://{tmp_path}/base"))
    path = CheckpointStore(f"disk://{tmp_path}/base").find(name)
    gc.collect()
    assert (path / "state").read_text() == "content"


def test_a_download_goes_with_the_process(tmp_path: Path, temporary: Path) -> None:
    name = store(CheckpointStore(f"disk://{tmp_path}/base"))
    script = (
        "from tests.core import disk_filesystem; disk_filesystem.register()\n"
        "from det_compat.core import CheckpointStore\n"
        f"print(CheckpointStore('disk://{tmp_path}/base').find('{name}'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment(), "TMPDIR": str(temporary)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(temporary))
    assert os.listdir(temporary) == []


def test_an_object_store_has_marks_of_directories(tmp_path: Path) -> None:
    """Determined writes an empty object with a name that ends in / for each directory."""
    name = store(CheckpointStore(f"memory://{tmp_path}"))
    filesystem = fsspec.filesystem("memory")
    filesystem.store[f"{tmp_path}/{name}/code/"] = filesystem.store[f"{tmp_path}/{name}/state"]
    path = CheckpointStore(f"memory://{tmp_path}").find(name)
    assert sorted(file.name for file in path.rglob("*")) == [
        "code",
        "metadata.json",
        "model_def.py",
        "state",
    ]


def test_a_file_may_not_leave_the_directory(tmp_path: Path) -> None:
    name = store(CheckpointStore(f"memory://{tmp_path}"))
    filesystem = fsspec.filesystem("memory")
    key = f"{tmp_path}/{name}/../../evil"
    filesystem.store[key] = filesystem.store[f"{tmp_path}/{name}/state"]
    try:
        with pytest.raises(OSError, match=r"'\.\./.*', which is no place in it"):
            CheckpointStore(f"memory://{tmp_path}").find(name)
    finally:
        del filesystem.store[key]


@pytest.mark.parametrize(
    "url, extra", [("s3://b", "s3"), ("gs://b/c", "gs"), ("abfs://b", "azure")]
)
def test_a_missing_package_is_told_with_its_extra(
    url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, {"s3": "s3fs", "gs": "gcsfs", "azure": "adlfs"}[extra], None)
    with pytest.raises(ImportError, match=rf"pip install .*\[{extra}\]"):
        CheckpointStore(url)


def test_an_unknown_protocol() -> None:
    with pytest.raises(ValueError, match=r"cannot keep checkpoints on nowhere://.*s3://bucket"):
        CheckpointStore("nowhere://a/b")


def test_urls_and_paths() -> None:
    assert is_url("s3://a/b") and is_url("simplecache::s3://a") and is_url("file:///a")
    assert not is_url("/a/b") and not is_url("a://"[1:]) and not is_url("C:\\a") and not is_url("")
    assert local_path("file:///a/b") == Path("/a/b") and local_path("s3://a") is None


def test_a_password_in_a_url_is_in_no_message(tmp_path: Path) -> None:
    class Secret(fsspec.implementations.memory.MemoryFileSystem):
        protocol = "secret"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return "/" + path.rpartition("@")[2].removeprefix("secret:").lstrip("/")

    fsspec.register_implementation("secret", Secret, clobber=True)
    context = CheckpointStore(f"secret://user:hunter2@{tmp_path}")
    with pytest.raises(FileNotFoundError) as caught:
        context.find("0000")
    assert "hunter2" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_fsspec_is_imported_when_it_is_needed(tmp_path: Path) -> None:
    script = (
        "import sys; from det_compat.core import CheckpointStore\n"
        f"CheckpointStore({str(tmp_path)!r}).list()\n"
        "print('fsspec' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
