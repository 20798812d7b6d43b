from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.pytorch.libraries import Library

QUESTIONS = ["is_epoch_start", "is_epoch_end", "current_train_epoch", "current_train_batch"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_there_is_no_progress_before_training(lib: Library, question: str) -> None:
    with lib.init() as context, pytest.raises(lib.errors.InternalException, match=r"(?i)training"):
        getattr(context, question)()


@pytest.mark.parametrize("question", QUESTIONS[:3])
def test_there_are_no_epochs_without_a_loader(lib: Library, question: str) -> None:
    with lib.init() as context:
        context._current_batch_idx = 0
        assert context.current_train_batch() == 0
        with pytest.raises(lib.errors.InternalException, match=r"(?i)loader"):
            getattr(context, question)()


def test_progress_in_epochs_of_three_batches(lib: Library) -> None:
    with lib.init() as context:
        context._epoch_len = 3
        seen = []
        for batch in range(7):
            context._current_batch_idx = batch
            seen.append([getattr(context, question)() for question in QUESTIONS])
    start, end, epoch, batch_idx = zip(*seen, strict=True)
    assert start == (True, False, False, True, False, False, True)
    assert end == (False, False, True, False, False, True, False)
    assert epoch == (0, 0, 0, 1, 1, 1, 2)
    assert batch_idx == tuple(range(7))


def test_stop_request(lib: Library, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "determined.pytorch")
    with lib.init() as context:
        assert context.get_stop_requested() is False
        context.set_stop_requested(True)
        assert context.get_stop_requested() is True
        context.set_stop_requested(False)
        assert context.get_stop_requested() is False
    assert "stop" in caplog.text


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_a_stop_request_is_a_bool(lib: Library, value: Any) -> None:
    with lib.init() as context:
        with pytest.raises(AssertionError, match="bool"):
            context.set_stop_requested(value)
        assert context.get_stop_requested() is False


def test_the_error_shows_what_it_got(ours: Library) -> None:
    with ours.init() as context, pytest.raises(AssertionError, match="got 'yes'"):
        context.set_stop_requested("yes")
