from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.rewriting import method, rewritten, trial

DRAWN = "torch.randn(3, 2)"


def source(used: str, drawn: str = DRAWN, more: str = "") -> str:
    kept = ("self.context = context\n", f"self.context = context\n        self.z = {drawn}\n{more}")
    step = '        return {"error"'
    return trial(kept, (step, f"        # as ever\n        {used}\n{step}"))


@pytest.mark.parametrize(
    ("used", "after"),
    [
        ("self.z = self.context.to_device(self.z)\n        print(self.z)", "print(self.z)"),
        ("z = self.context.to_device(self.z)", "z = self.z"),
        ("z = self.z.to(self.context.device)", "z = self.z"),
    ],
)
def test_what_is_drawn_once_and_moved_is_a_buffer(used, after, tmp_path):
    made = rewritten(tmp_path, source(used))
    assert f'self.register_buffer("z", {DRAWN})' in method(made, "__init__")
    assert f"    # as ever\n    {after}\n" in method(made, "validation_step")
    found: dict[str, Any] = {}
    exec(made, found)
    assert "z" in found["Trial"](global_batch_size=1).state_dict()


@pytest.mark.parametrize(
    ("used", "drawn", "more"),
    [
        # Nothing moves it, or not wherever it is read.
        ("print(self.z)", DRAWN, ""),
        ("print(self.z, self.context.to_device(self.z))", DRAWN, ""),
        # It is set again.
        ("z = self.context.to_device(self.z)\n        self.z = z + 1", DRAWN, ""),
        ("z = self.context.to_device(self.z)", DRAWN, "        self.z = self.z * 2\n"),
        # It is learnt, or drawn by somebody else.
        ("z = self.context.to_device(self.z)", "torch.randn(3, 2, requires_grad=True)", ""),
        ("z = self.context.to_device(self.z)", "noise(3)", ""),
    ],
)
def test_others_stay_attributes(used, drawn, more, tmp_path):
    assert "register_buffer" not in rewritten(tmp_path, source(used, drawn, more))
