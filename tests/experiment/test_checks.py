from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from det_compat.experiment.checks import check_runnable, cluster_only_notes
from det_compat.experiment.errors import FitError
from det_compat.shared.masking import without_secrets
from tests.config.samples import parsed


def config_with(*mounts: dict[str, Any]) -> Any:
    return parsed(name="x", bind_mounts=list(mounts))


def test_a_mount_that_is_not_there_is_told_with_the_link_that_would_make_it(
    tmp_path: Path,
) -> None:
    host, container = tmp_path / "host data", tmp_path / "container"
    host.mkdir()
    config = config_with({"host_path": str(host), "container_path": str(container)})
    [note] = cluster_only_notes(config, tmp_path)
    assert f"the trial expects {container}, which is not there" in note
    link = note.split("`")[1]
    assert shlex.split(link) == ["ln", "-s", str(host), str(container)]
    subprocess.run(link, shell=True, check=True)
    assert cluster_only_notes(config, tmp_path) == []


def test_a_relative_mount_is_in_the_folder_of_the_code(tmp_path: Path) -> None:
    config = config_with({"host_path": "/no/such/place", "container_path": "data"})
    [note] = cluster_only_notes(config, tmp_path)
    assert note.endswith(
        f"`ln -s /no/such/place {tmp_path}/data` would do, once /no/such/place is there"
    )
    (tmp_path / "data").mkdir()
    assert cluster_only_notes(config, tmp_path) == []


def test_a_startup_hook_is_named(tmp_path: Path) -> None:
    (tmp_path / "startup-hook.sh").write_text("pip install x\n")
    [note] = cluster_only_notes(config_with(), tmp_path)
    assert str(tmp_path / "startup-hook.sh") in note and "--startup-hook" in note


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"hyperparameters": {"net": {"api_key": "hush"}}}, r"\['net'\]\['api_key'\]"),
        ({"environment": {"environment_variables": ["A=hush"]}}, "environment_variables"),
    ],
)
def test_a_copy_without_secrets_is_not_run(given: dict[str, Any], where: str) -> None:
    config = {"entrypoint": "model_def:Trial", "description": "********", **given}
    check_runnable(parsed(**config), Path())
    with pytest.raises(FitError, match=f"without secrets: .*{where}"):
        check_runnable(parsed(**without_secrets(config)), Path())


def test_a_script_that_is_in_another_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    config = parsed(entrypoint="python3 code/train.py --data x.py", max_restarts=0)
    check_runnable(config, tmp_path / "configs")  # The script itself says that it is nowhere.
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").touch()
    check_runnable(config, tmp_path)
    with pytest.raises(FitError, match=r"no code/train.py in .*configs.*after the config: .* \.$"):
        check_runnable(config, tmp_path / "configs")
