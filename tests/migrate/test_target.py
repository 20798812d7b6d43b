from __future__ import annotations

from det_compat.migrate.target import Problems
from det_compat.migrate.tree.transformers import CannotRewriteError


def test_what_is_wrong_with_a_file_is_no_bug(tmp_path):
    problems = Problems()
    with problems.of(tmp_path):
        raise CannotRewriteError("why")
    assert (problems[tmp_path].reason, problems[tmp_path].traceback) == ("why", "")


def test_any_other_error_is(tmp_path):
    problems = Problems()
    with problems.of(tmp_path):
        raise AttributeError("no such node")
    assert problems[tmp_path].reason == (
        "internal error: AttributeError: no such node; please report it"
    )
    assert problems[tmp_path].traceback.startswith("Traceback")
