"""The callbacks of heirs, beside those of their base."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.rewriting import HEADER, rewritten, trial

CALLBACKS = """\
from determined.pytorch import PyTorchCallback


class One(PyTorchCallback):
    pass


class Two(PyTorchCallback):
    pass


"""
ONE = "    def build_callbacks(self):\n        return {'one': One()}\n\n    def evaluate_batch"
HEIR = "\n\nclass Heir(Trial):\n    def build_callbacks(self):\n        "


def made(tmp_path, lines: str) -> str:
    base = trial(("    def evaluate_batch", ONE), header=HEADER + CALLBACKS)
    return rewritten(tmp_path, base + HEIR + lines.replace("\n", "\n        ") + "\n")


@pytest.mark.parametrize(
    "lines",
    [
        "return {**super().build_callbacks(), 'two': Two()}",
        "return {**super(Heir, self).build_callbacks(), 'two': Two()}",
        "every = super().build_callbacks()\nevery['two'] = Two()\nreturn every",
        "every = dict(super().build_callbacks())\nevery['two'] = Two()\nreturn every",
        "every = super().build_callbacks()\nevery.update({'two': Two()})\nreturn every",
        "every = {**super().build_callbacks(), 'two': Two()}\nreturn every",
        "every = super().build_callbacks()\nif self.model:\n    every['two'] = Two()\nreturn every",
    ],
)
def test_an_heir_adds_to_the_callbacks_of_its_base(lines, tmp_path):
    text = made(tmp_path, lines)
    assert "MIGRATE" not in text
    found: dict[str, Any] = {}
    exec(compile(text, "made", "exec"), found)
    module = found["Heir"](global_batch_size=4)
    names = [type(each).__name__ for each in module.configure_callbacks()]
    assert names == ["One", "Two"]


def test_an_heir_may_only_hand_on_those_of_its_base(tmp_path):
    text = made(tmp_path, "print('heir')\nreturn super().build_callbacks()")
    assert "return super().configure_callbacks()\n" in text and "MIGRATE" not in text


@pytest.mark.parametrize(
    "lines",
    [
        "return {**super().build_callbacks(), 'one': Two()}",
        "every = super().build_callbacks()\nevery.pop('one')\nreturn every",
        "return {'two': super().build_callbacks()['one']}",
        "every = super().build_callbacks()\nprint(every['one'])\nreturn every",
    ],
)
def test_what_only_a_dict_can_is_marked(lines, tmp_path):
    said = "# MIGRATE: super().configure_callbacks() gives a list, and this was a dict"
    assert said in made(tmp_path, lines)
