from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from det_compat.cli import main
from det_compat.commands.search import what_to_do_with
from det_compat.shared.extras import how_to_install
from tests.fresh_python import environment, python
from tests.search.tiny import write_project


def test_errors_are_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = write_project(tmp_path / "project")
    assert main(["search", "missing.yaml"]) != 0
    assert main(["search", str(config), "--resume"]) == 2
    assert "there is no search to resume in" in capsys.readouterr().err
    text = config.read_text()
    config.write_text(text.replace("name: random", "name: pbt"))
    assert main(["search", str(config)]) != 0
    assert "population based training" in capsys.readouterr().err
    config.write_text(text.replace("max_trials: 3", "max_trials: none"))
    assert main(["search", str(config)]) == 1
    error = capsys.readouterr().err
    assert "searcher.max_trials" in error
    assert "Traceback" not in error
    launcher = "python3 -m determined.launch.deepspeed python3 train.py"
    config.write_text(text.replace("model_def:TinyTrial", launcher))
    assert main(["search", str(config)]) == 2
    assert "DeepSpeed trials are not supported" in capsys.readouterr().err
    storage = "checkpoint_storage: {type: s3, bucket: b, endpoint_url: 'http://127.0.0.1:9'}"
    config.write_text(f"{text}\n{storage}")
    if importlib.util.find_spec("s3fs") is None:
        assert main(["search", str(config)]) == 2
        assert how_to_install("s3") in capsys.readouterr().err
    assert not list(tmp_path.glob("search_*"))


def test_a_scripts_own_checkpoint_is_not_said_to_be_exported(tmp_path: Path) -> None:
    (tmp_path / "state_dict.pth").touch()
    said = what_to_do_with(str(tmp_path), is_script=True)
    assert said.endswith(str(tmp_path)) and "export" not in said
    assert "checkpoint export" in what_to_do_with(str(tmp_path), is_script=False)
    (tmp_path / "load_data.json").touch()
    assert "checkpoint export" in what_to_do_with(str(tmp_path), is_script=True)


def test_without_the_extra(tmp_path: Path) -> None:
    config = write_project(tmp_path / "project")
    code = (
        "import sys; sys.modules['ray'] = None; import importlib.util as u; f = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'ray' else f(n, *a)\n"
        "from det_compat.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    found = python("-c", code, "search", str(config), cwd=tmp_path)
    assert found.returncode == 2
    assert f"a hyperparameter search needs ray: {how_to_install('search')}" in found.stderr


def test_a_full_disk_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from det_compat.search.search import Search

    def run(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Search, "run", run)
    assert main(["search", str(write_project(tmp_path / "project")), "--run-dir", "mine"]) == 2
    said = capsys.readouterr()
    assert "--run-dir" in said.out and "--resume" in said.out
    assert f"cannot write in {tmp_path / 'mine'}: [Errno 28]" in said.err


def test_nothing_of_ray_is_imported_otherwise(tmp_path: Path) -> None:
    code = (
        "import sys, det_compat, det_compat.cli, det_compat.search\n"
        "det_compat.cli.whole_parser()\n"
        "print([n for n in ('ray', 'torch', 'rich', 'matplotlib') if n in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
