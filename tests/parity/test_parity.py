"""The same trials under determined 0.38.1 and under det_compat: equal to the last bit.

Starting either takes seconds, so one process runs many cases; the tests compare what they dumped.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("determined", reason="the reference to compare with is not installed")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from case import Case
from cases import CASES
from compare import SECTIONS, WEIGHTS, load, report
from runner import HERE as SCRIPTS
from runner import command, environment, run_driver

Dumps = Callable[[str, int], Path]


def _marks(ranks: int, case: Case) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.xdist_group(f"parity-{ranks}"), pytest.mark.timeout(1500)]
    if ranks > 1 and not case.lightning:
        marks.append(pytest.mark.thorough)
    if case.differs:
        marks.append(pytest.mark.xfail(reason=case.differs, strict=True))
    return marks


def _parameters(lightning: bool) -> list[object]:
    return [
        pytest.param(case, ranks, id=f"{case.name}-{ranks}", marks=_marks(ranks, case))
        for case in CASES
        for ranks in case.ranks
        if case.lightning or not lightning
    ]


@pytest.fixture(scope="session")
def dumps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dumps:
    """Where a side's dumps are: made by the first test that asks, for all those selected."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base

    def dumps_of(side: str, ranks: int) -> Path:
        out = shared / f"{side}-{ranks}"
        with (shared / f"{side}-{ranks}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not out.exists():
                run_driver(side, ranks, out, _selected(request.session, side, ranks))
        return out

    return dumps_of


def _selected(session: pytest.Session, side: str, ranks: int) -> list[str]:
    found = {}
    for item in session.items:
        parameters = getattr(item, "callspec", None) and item.callspec.params
        if parameters and isinstance(parameters.get("case"), Case):
            is_lightning = item.originalname == "test_to_lightning"
            if parameters["ranks"] == ranks and (is_lightning or side != "lightning"):
                found[parameters["case"].name] = True
    return list(found)


def _compare(reference: Path, ours: Path, case: Case, ranks: int, sections: tuple) -> None:
    for rank in range(ranks):
        name = f"{case.name}.{rank}.pt"
        expected = load(reference / name)
        assert (ours / name).exists(), f"no dump; see {ours / 'log.txt'}"
        got = load(ours / name)
        error = (got["error"] or {}).get("full", "no error")
        found = report(expected, got, sections)
        assert not found, f"rank {rank} of {case.trial}:\n{found}\nended with: {error}"


@pytest.mark.parametrize(("case", "ranks"), _parameters(lightning=False))
def test_run(case: Case, ranks: int, dumps: Dumps) -> None:
    _compare(dumps("determined", ranks), dumps("det_compat", ranks), case, ranks, SECTIONS)


@pytest.mark.parametrize(("case", "ranks"), _parameters(lightning=True))
def test_to_lightning(case: Case, ranks: int, dumps: Dumps) -> None:
    _compare(dumps("determined", ranks), dumps("lightning", ranks), case, ranks, WEIGHTS)


def _run_script(side: str, ranks: int, tmp_path: Path, *arguments: str) -> tuple[int, list, str]:
    cwd = tmp_path / side / "cwd"
    cwd.mkdir(parents=True)
    ended = subprocess.run(
        [*command(side, ranks), str(SCRIPTS / "script.py"), *arguments],
        cwd=cwd,
        env=environment(side, ranks, tmp_path / side),
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, sorted(ended.stdout.splitlines()), ended.stderr


@pytest.mark.xdist_group("parity-1")
@pytest.mark.parametrize(
    ("ending", "status"), [("done", 0), ("invalid", 0), ("error", 1), ("exit", 3), ("return", 4)]
)
def test_output_and_exit_status(ending: str, status: int, tmp_path: Path) -> None:
    arguments = (1, tmp_path, ending, "--flag")
    reference = _run_script("determined", *arguments)
    ours = _run_script("det_compat", *arguments)
    assert reference[0] == status, reference[2]
    assert ours[:2] == reference[:2], ours[2]


@pytest.mark.xdist_group("parity-2")
def test_plain_init_under_torchrun_distributes(tmp_path: Path) -> None:
    """As the same script did that was told to."""
    reference = _run_script("determined", 2, tmp_path, "distributed")
    ours = _run_script("det_compat", 2, tmp_path, "plain")
    assert reference[0] == 0, reference[2]
    assert ours[:2] == reference[:2], ours[2]
