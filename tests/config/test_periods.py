"""Schedules, compared with those of the real Determined."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from det_compat.config import parse_config
from tests.config import schedules
from tests.preloaded import executable

ROOT = Path(__file__).parents[2]
CASES = [
    # length, validation, checkpoint, report, epoch_batches, global_batch_size, initial, policy
    ({"batches": 20}, {"batches": 5}, {"batches": 7}, 4, 6, 1, False, "none"),
    ({"epochs": 3}, {"batches": 4}, {"epochs": 2}, 100, 7, 1, False, "none"),
    ({"epochs": 4}, {"epochs": 1}, {"batches": 0}, 5, 5, 1, True, "none"),
    ({"batches": 23}, {"epochs": 2}, {"epochs": 1}, 6, 5, 1, True, "all"),
    ({"records": 130}, {"records": 33}, {"records": 7}, 10, 4, 10, False, "none"),
    ({"records": 5}, {"records": 0}, {"epochs": 0}, 1, 3, 10, False, "all"),
    ({"batches": 12}, {"batches": 0}, {"batches": 3}, 12, 50, 1, False, "all"),
    ({"batches": 11}, {"batches": 50}, {"batches": 50}, 4, 2, 1, True, "none"),
    ({"epochs": 2}, {"records": 64}, {"records": 100}, 3, 9, 32, False, "all"),
    ({"batches": 1}, {"epochs": 1}, {"epochs": 1}, 1, 1, 1, True, "all"),
]
NAMES = (
    "length",
    "validation",
    "checkpoint",
    "report",
    "epoch_batches",
    "global_batch_size",
    "initial_validation",
    "checkpoint_policy",
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[int]]]:
    pytest.importorskip("determined.pytorch", reason="the real determined is not installed")
    home = tmp_path_factory.mktemp("home")
    cases = json.dumps([dict(zip(NAMES, case, strict=True)) for case in CASES])
    done = subprocess.run(
        [executable("determined"), str(ROOT / "tests/config/determined_schedule.py"), cases],
        cwd=home,
        env={"HOME": str(home), "PATH": "", "XDG_DATA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, list[int]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("number", range(len(CASES)))
def test_it_is_that_of_determined(number: int, real: list[dict[str, list[int]]]) -> None:
    case: dict[str, Any] = dict(zip(NAMES, CASES[number], strict=True))
    config = parse_config(
        {
            "searcher": {"name": "single", "metric": "loss", "max_length": case["length"]},
            "min_validation_period": case["validation"],
            "min_checkpoint_period": case["checkpoint"],
            "scheduling_unit": case["report"],
            "perform_initial_validation": case["initial_validation"],
            "checkpoint_policy": case["checkpoint_policy"],
            "hyperparameters": {"global_batch_size": case["global_batch_size"]},
        }
    )
    plan = schedules.resolved(config, case["epoch_batches"])
    assert {
        "validations": schedules.validations(plan),
        "checkpoints": schedules.checkpoints(plan),
        "reports": schedules.reports(plan),
    } == real[number]


def test_bare_numbers_count_steps() -> None:
    single = {"name": "single", "metric": "loss", "max_steps": 5}
    periods = parse_config(
        {"searcher": single, "min_validation_period": 2, "min_checkpoint_period": 0}
    ).periods
    assert (str(periods.validation), str(periods.report)) == ("200 batches", "100 batches")
    assert periods.checkpoint.period().is_never
    config = parse_config({"searcher": single, "batches_per_step": 16, "validation_period": 3})
    assert str(config.periods.validation) == "48 batches"
    assert schedules.resolved(config, 7).total_batches == 80
