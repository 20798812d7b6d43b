from __future__ import annotations

import pytest

from det_compat.experiment.processes.launch import is_of_launch, launch_names


@pytest.fixture(autouse=True)
def torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)


def test_a_name_that_people_give_twice_counts_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, job = launch_names()
    assert is_of_launch([agent, job]) and not is_of_launch([job])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert is_of_launch([job])


def test_the_name_that_nobody_has_given_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert len(launch_names()) == 1
    assert not is_of_launch(["torchrun --rdzv_id none"])
    assert not is_of_launch(None)
