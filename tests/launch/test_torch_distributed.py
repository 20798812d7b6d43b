from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from det_compat.launch import torch_distributed, worker, wrap_rank
from tests import preloaded


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("script arg", ([], ["script", "arg"])),
        ("-- script -- arg", ([], ["script", "--", "arg"])),
        ("one two -- script arg", (["one", "two"], ["script", "arg"])),
        ("script --trial", ([], ["script", "--trial"])),
    ],
)
def test_arguments_are_split_as_determined_splits_them(line: str, expected: Any) -> None:
    reference = pytest.importorskip("determined.launch.torch_distributed")
    assert torch_distributed.parse_args(line.split()) == expected
    assert reference.parse_args(line.split()) == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", "empty script"),
        ("--trial a:B script", "extra arguments"),
        ("--asdf 1 script", "unrecognized arguments"),
    ],
)
def test_what_is_no_command_ends_it(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        torch_distributed.parse_args(line.split())
    assert text in capsys.readouterr().err


def test_machines_meet_at_a_port_and_one_machine_needs_none() -> None:
    one = torch_distributed.create_launch_cmd(1, 2, 0, "localhost", [])
    assert "--standalone" in one and "--master_port" not in one
    for several in (
        torch_distributed.create_launch_cmd(2, 2, 1, "10.0.0.1", ["--max_restarts", "1"]),
        torch_distributed.create_launch_cmd(1, 2, 0, "10.0.0.1", ["--master-port=5"]),
    ):
        assert "--standalone" not in several
        assert several[several.index("--master_addr") + 1] == "10.0.0.1"


def test_a_worker_becomes_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Any] = []
    monkeypatch.setattr(os, "execvp", lambda file, argv: commands.append(argv))
    worker.main(["python3", "-u", "train.py", "--lr", "1"])
    worker.main(["./train.sh"])
    run = [sys.executable, "-u", "-m", "det_compat", "run", "train.py", "--lr", "1"]
    assert commands == [run, ["./train.sh"]]
    with pytest.raises(SystemExit, match=r"det-compat fit CONFIG\.yaml"):
        worker.main(["python3", "-m", "determined.exec.harness", "a:B"])
    monkeypatch.undo()
    with pytest.raises(SystemExit, match=r"cannot run './no-such-script'"):
        worker.main(["./no-such-script"])


SCRIPT = """
import json, sys
from determined import core
distributed = core.DistributedContext.from_torch_distributed()
with core.init(distributed=distributed) as context:
    found = context.distributed.allgather((distributed.rank, sys.argv[1:]))
if distributed.rank == 0:
    print("found", json.dumps(found), flush=True)
sys.exit(distributed.rank * int(sys.argv[1]))
"""


def test_a_script_runs_on_all_slots(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    launched = preloaded.python(
        *["-m", "det_compat", "run", "-m", "determined.launch.torch_distributed"],
        *["--nproc_per_node=2", "--", "python3", "train.py", "0", "a b"],
        cwd=tmp_path,
    )
    assert launched.returncode == 0, launched.stderr
    found = json.loads(launched.stdout.partition("found ")[2].splitlines()[0])
    assert found == [[0, ["0", "a b"]], [1, ["0", "a b"]]]


def test_lines_are_marked_with_the_rank(tmp_path: Path) -> None:
    code = r"import sys; print('a'); print('b', end='\r'); print('c', end='', file=sys.stderr)"
    command = [sys.executable, wrap_rank.__file__, "--no-redirect-stdio", "RANK,3", sys.executable]
    ended = subprocess.run(
        [*command, "-c", code],
        env={**os.environ, "RANK": "3", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "[rank=3] a\n[rank=3] b\n"
    assert ended.stderr == "[rank=3] c\n"


def test_long_lines_come_in_parts() -> None:
    size = io.DEFAULT_BUFFER_SIZE
    found = list(wrap_rank.lines(io.BytesIO(b"x" * (size + 10) + b"\nend")))
    assert "".join(found).replace("\n", "") == "x" * (size + 10) + "end"
    assert found[-1] == "end\n"
