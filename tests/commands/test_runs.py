"""``det-compat runs``, as it is typed."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from pathlib import Path

import pytest

from det_compat.cli import main
from det_compat.experiment.run_state import state_noted
from tests.fresh_python import environment, python
from tests.preloaded import executable
from tests.runs.made import make_run, make_search


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs/a/001", [0.5, 0.25], lr=0.1)
    make_run(tmp_path / "runs/a/002", [0.9], lr=0.01, state="failed", started=2e9)
    make_search(tmp_path / "search_many", [[0.3], [0.8]])
    for name, lr in (("001", 0.1), ("002", 0.01)):
        constant = f"{{type: const, val: {lr}}}"
        text = f"name: digits\nhyperparameters: {{lr: {constant}, net: {{depth: 3}}}}\n"
        (tmp_path / "runs/a" / name / "config.yaml").write_text(text)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["runs", *words]) == 0
    return capsys.readouterr().out


def test_the_list(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = shown(capsys).splitlines()
    texts = [["runs/a/001", "done", "2 epochs", "20", "0.5"], ["search_many", "2 trials", "0.8"]]
    for texts_of_row in (*texts, ["runs/a/002", "failed", "2033-05-18"]):
        assert any(all(text in row for text in texts_of_row) for row in rows), texts_of_row
    assert "trials/0001" not in "".join(rows)
    assert "trials/0001" in shown(capsys, "list", "--trials")
    listed = json.loads(shown(capsys, "--sort", "best", "--json", "--where", "accuracy>0.6"))
    assert [Path(run["path"]).name for run in listed] == ["002", "search_many"]
    told = shown(capsys, "--where", "lrr>0.1", "--where", "accuracy>0")
    assert told == "no runs like that in .; none has lrr; did you mean lr?\n"
    assert shown(capsys, "--state", "killed") == "no runs like that in .\n"
    assert shown(capsys, "--dir", str(runs / "runs/a/001/checkpoints")).startswith("no runs in")


def test_one_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "show", "a/001")
    for known in ("hyperparameter lr", "0.5 after batch 10", "again", "the last 2"):
        assert known in text
    assert text.count("runs/a/001/checkpoints/") == 2
    assert "trials/0001" in shown(capsys, "show", "search_many")


def test_two_runs_side_by_side(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "compare", "a/001", "a/002")
    rows = {row.split("│")[1].strip(): row for row in text.splitlines() if row.startswith("│")}
    assert set(rows) == {
        *("hyperparameters.lr", "state", "batches", "last accuracy", "best accuracy")
    }
    assert [cell.strip() for cell in rows["last accuracy"].split("│")[2:4]] == ["0.25", "0.9"]


def test_the_best_checkpoints(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in ("0", "-1", "x"):
        with pytest.raises(SystemExit):
            main(["runs", "checkpoints", "search_many", f"--best={number}"])
        assert f"'{number}' is no number of 1 or more" in capsys.readouterr().err
    found = json.loads(shown(capsys, "checkpoints", "search_many", "--best", "1", "--json"))
    assert found == [
        {"path": str(runs / "search_many/trials/0001/checkpoints/1"), "batches": 10, "value": 0.8}
    ]


def test_what_runs_is_not_deleted(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with state_noted(runs / "runs/a/001"):
        assert main(["runs", "delete", "a/001", "--yes"]) == 2
    assert "runs/a/001 runs" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["runs", "delete", "a/001"]) == 1
    assert (runs / "runs/a/001").exists()
    assert main(["runs", "delete", "a/001", "--yes"]) == 0
    assert not (runs / "runs/a/001").exists()
    assert (runs / "runs/a/002").exists()


def test_a_run_is_followed_and_stopped(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import signal, sys, time\n"
        "from pathlib import Path\n"
        "from det_compat.experiment.run_state import state_noted\n"
        "from det_compat.script.run_log import run_logged\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "folder = Path('runs/a/001')\n"
        "with state_noted(folder, 'resume me'), run_logged(folder):\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(60)\n"
    )
    words = [executable(), "-c", code]
    with subprocess.Popen(words, cwd=runs, env=environment(), stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        with subprocess.Popen(
            [executable(), "-m", "det_compat", "runs", "logs", "a/001", "--follow"],
            cwd=runs,
            env=environment(),
            stdout=subprocess.PIPE,
        ) as interrupted:
            assert interrupted.stdout is not None
            interrupted.stdout.readline()
            interrupted.send_signal(signal.SIGINT)
            assert interrupted.wait(timeout=60) == 130
        follows = subprocess.Popen(
            [executable(), "-m", "det_compat", "runs", "logs", "a/001", "--follow"],
            cwd=runs,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert main(["runs", "stop", "a/001"]) == 0
        assert follows.communicate(timeout=60)[0] == "begun\n"
        assert follows.returncode == 0
    out = capfd.readouterr().out
    assert "runs/a/001 is stopped" in out
    assert "go on with it by: resume me" in out
    assert main(["runs", "stop", "a/001"]) == 2
    assert "does not run: it is stopped" in capfd.readouterr().err


def test_logs_of_a_search(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (0, 1):
        (runs / f"search_many/trials/000{number}/log.txt").write_text(f"line of {number}\n")
    assert shown(capsys, "logs", "search_many") == "trial 0:\nline of 0\ntrial 1:\nline of 1\n"
    assert shown(capsys, "logs", "search_many", "--trial", "1") == "line of 1\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "003"], "there is no run 003 in .; `det-compat runs` lists"),
        (["logs", "a/002"], "has no log.txt"),
        (["--where", "lr"], "'lr' is no condition"),
        (["--since", "soon"], "'soon' is no time"),
        (["--dir", "nowhere"], "there is no folder nowhere"),
        (["--dir", "s3://there/runs"], "s3://there/runs: runs are read from a folder"),
        (["logs", "search_many", "--trial", "7"], "there is no trial 7"),
        (["logs", "search_many", "--follow"], "with --trial N"),
    ],
)
def test_what_cannot_be_done_is_said(
    runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["runs", *words]) == 2
    assert said in capsys.readouterr().err


def test_who_reads_may_stop(runs: Path) -> None:
    for number in range(200):
        make_run(runs / f"runs/many/{number:03}", [])
    words = [executable(), "-m", "det_compat", "runs", "--json"]
    with subprocess.Popen(
        words,
        cwd=runs,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as listing:
        assert listing.stdout is not None and listing.stderr is not None
        assert listing.stdout.readline() == "[\n"
        listing.stdout.close()
        assert (listing.stderr.read(), listing.wait(timeout=60)) == ("", 0)


def test_neither_torch_nor_lightning_is_imported(runs: Path) -> None:
    code = (
        "import sys; from det_compat.cli import main; main(['runs']); main(['runs', 'show', '002'])"
        "; print({'torch', 'pytorch_lightning', 'ray', 'numpy'} & {*sys.modules})"
    )
    ended = python("-c", code, cwd=runs)
    assert ended.stdout.endswith("set()\n"), ended.stderr
