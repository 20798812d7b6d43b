from __future__ import annotations

import subprocess
from typing import Any

import pytest

from det_compat import gpu

NVIDIA = "1, GPU-b, 50, 1000, 4000\n0, GPU-a, [N/A], 0, 4000\nbroken\n"
ROCM = '{"card0": {"Unique ID": "0x1"}}'


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    answers: dict[str, str] = {}

    def run(command: list[str], **_: Any) -> Any:
        if command[0] not in answers:
            raise FileNotFoundError(command[0])
        return subprocess.CompletedProcess(command, 0, stdout=answers[command[0]])

    monkeypatch.setattr(subprocess, "run", run)
    return answers


def test_a_machine_without_any(tools: dict[str, str]) -> None:
    assert gpu.get_gpus() == ([], "") and gpu.get_gpu_uuids() == []


def test_gpus_of_nvidia(tools: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    tools["nvidia-smi"] = NVIDIA
    assert gpu.get_gpus() == ([gpu.GPU(1, "GPU-b", 0.5, 0.25), gpu.GPU(0, "GPU-a", 0, 0)], "cuda")
    assert gpu.get_gpu_uuids() == ["GPU-a", "GPU-b"]
    assert "broken" in caplog.text


def test_gpus_of_amd(tools: dict[str, str]) -> None:
    tools["rocm-smi"] = ROCM
    assert gpu.get_gpus() == ([gpu.GPU(0, "0x1", 0, 0)], "rocm")
