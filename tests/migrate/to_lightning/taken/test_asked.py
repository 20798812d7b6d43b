"""Contexts that are asked for by their name."""

from pathlib import Path

from tests.migrate.rewriting import rewritten, trial


def test_a_context_that_is_asked_for_by_name_is_the_trial(tmp_path: Path) -> None:
    before = """\
def penalty(trial):
    context = getattr(trial, "context")
    return context.get_hparams().get("penalty", 0.0) * getattr(trial, "scale")


class Trial"""
    call = ("loss = self.model(batch).sum()", "loss = self.model(batch).sum() + penalty(self)")
    made = rewritten(tmp_path, trial(("class Trial", before), call))
    assert "MIGRATE" not in made
    after = """\
    context = trial
    return context.hparams.get("penalty", 0.0) * getattr(trial, "scale")
"""
    assert after in made


def test_one_that_may_be_missing_is_marked(tmp_path: Path) -> None:
    before = """\
def penalty(trial):
    return getattr(trial, "context", None) is None


class Trial"""
    made = rewritten(tmp_path, trial(("class Trial", before)))
    assert "    # MIGRATE: a trial has no context any more" in made
