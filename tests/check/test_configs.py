from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.check.checker import check
from tests.check.trees import check_files, statuses

CONFIG = """\
name: trial
entrypoint: model_def:T
hyperparameters:
  global_batch_size: 64
searcher:
  name: single
  metric: loss
  max_length: {epochs: 2}
"""


def test_keys_of_a_config_are_findings(tmp_path: Path) -> None:
    text = CONFIG + "bind_mounts: [{host_path: /a, container_path: /b}]\n"
    report = check_files(tmp_path, {"const.yaml": text})
    found = statuses(report)
    assert found["config: entrypoint"] == "same"
    assert found["config: bind_mounts"] == "different"
    assert report.works


def test_problems_of_a_config_have_their_places(tmp_path: Path) -> None:
    text = CONFIG.replace("name: single", "name: 3")
    report = check_files(tmp_path, {"const.yaml": text})
    assert not report.works
    assert any(f.position.line == 6 for f in report.findings if f.support.status.value == "refused")


@pytest.mark.parametrize("text", ["a: 1\n", "name: x\nmetrics: [1]\n", "- 1\n", ""])
def test_other_yaml_is_left_alone(tmp_path: Path, text: str) -> None:
    report = check_files(tmp_path, {"docker-compose.yml": text})
    assert (report.files, report.findings, report.works) == (0, [], False)


def test_yaml_that_is_no_text_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe")
    assert len(check([str(tmp_path)]).unreadable) == 1


def test_configs_that_people_have(tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "shared" / "experiment-configs"
    if not folder.is_dir():
        pytest.skip("the shared experiment configs are not beside the repository")
    report = check([str(folder)])
    assert report.files == len([*folder.glob("*.yaml")])
    assert report.works
