from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh_python import python

pytest.importorskip("ray", reason="needs det-compat[search]")


def test_actors_collect_no_garbage_while_they_import(tmp_path: Path) -> None:
    code = (
        "import gc, det_compat.search.tune.actor\n"
        "print(sum(generation['collections'] for generation in gc.get_stats()))"
    )
    found = python("-c", code, cwd=tmp_path)
    # Otherwise there are 400.
    assert int(found.stdout) < 200, found.stderr
