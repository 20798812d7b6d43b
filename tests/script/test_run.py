"""``det-compat run`` against ``python`` itself: same program, same output, same status."""

from __future__ import annotations

import ast
import compileall
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import preloaded
from tests.fresh_python import ROOT, det_compat_run, environment, python

# This is everything that a program can see of how it was started.
SHOW = """
import os, sys
print(sys.argv, __name__, __file__, __package__, __doc__, __cached__)
print(sys.path[0], type(__loader__).__name__, sorted(globals()))
print(sys.modules["__main__"].__dict__ is globals(), __builtins__ is sys.modules["builtins"])
print(__spec__ is None or __spec__.parent, __annotations__, os.getcwd())
try:
    from . import helper
    print(helper.__name__)
except ImportError as error:
    print(error)
"""

# __spec__ is the one difference: None for a script that python runs
SCRIPT_SHOW = SHOW.replace("print(__spec__ is None or __spec__.parent, ", "print(")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text(f'"""Trains."""{SCRIPT_SHOW}')
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "helper.py").write_text("")
    (folder / "pkg" / "train.py").write_text(SHOW)
    (folder / "pkg" / "__main__.py").write_text(SHOW)
    (folder / "app").mkdir()
    (folder / "app" / "__main__.py").write_text(SCRIPT_SHOW)
    (tmp_path / "link.py").symlink_to(folder / "train.py")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", SCRIPT_SHOW)
    compileall.compile_file(folder / "train.py", legacy=True, quiet=2)
    return folder


CONSOLE = "import sys; from det_compat.cli import main; sys.exit(main())"

FORMS = [
    ["project/train.py", "--lr", "0.1"],
    ["{tmp_path}/project/train.py"],
    ["./project/../project/train.py", "a b", ""],
    ["link.py"],
    ["project/train.pyc"],
    ["project/app", "-x"],
    ["app.zip"],
]
MODULES = [["-m", "pkg.train", "--lr", "0.1"], ["-m", "pkg", "-m", "pkg"]]
OPTIONS = [["--help"], ["-h", "--version"], ["-m", "x"], ["--", "--"], ["run"], ["-"]]


@pytest.mark.parametrize("started", ["module", "console"])
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_script_sees_what_python_shows_it(
    started: str, form: list[str], project: Path, tmp_path: Path
) -> None:
    form = [part.format(tmp_path=tmp_path) for part in form]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "det-compat").write_text(CONSOLE)
    command = ["-m", "det_compat"] if started == "module" else ["bin/det-compat"]
    seen = python(*command, "run", *form, cwd=tmp_path)
    expected = python(*form, cwd=tmp_path)
    assert expected.returncode == 0, expected.stderr
    assert (seen.stdout, seen.stderr, seen.returncode) == (expected.stdout, expected.stderr, 0)


@pytest.mark.parametrize("form", MODULES, ids=" ".join)
def test_a_module_sees_what_python_m_shows_it(form: list[str], project: Path) -> None:
    seen, expected = det_compat_run(*form, cwd=project), python(*form, cwd=project)
    assert "pkg.helper" in expected.stdout
    assert (seen.stdout, seen.stderr, seen.returncode) == (expected.stdout, expected.stderr, 0)


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("form", [["train.py"], ["-m", "pkg.train"]], ids=" ".join)
def test_what_follows_is_the_scripts_own(
    form: list[str], options: list[str], project: Path
) -> None:
    for file in ("train.py", "pkg/train.py"):
        (project / file).write_text("import sys; print(sys.argv[1:])")
    assert det_compat_run(*form, *options, cwd=project).stdout == f"{options}\n"


def test_the_collector_is_as_usual_once_a_script_trains(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import gc\nprint(gc.get_threshold())\n"
        "from determined import core\nprint(gc.get_threshold())\n"
        "with core.init(): print(gc.get_threshold())\n"
    )
    usual = ast.literal_eval(
        python("-c", "import gc; print(gc.get_threshold())", cwd=tmp_path).stdout
    )
    seldom = (*usual[:2], 1000)
    done = det_compat_run("train.py", cwd=tmp_path)
    assert done.stdout == f"{seldom}\n{seldom}\n{usual}\n", done.stderr


def test_determined_is_there_installed_or_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import determined as det\nfrom determined import util\nprint(det.InvalidHP.__module__)"
    )
    for hidden_by in (None, tmp_path / "hides"):
        done = det_compat_run("train.py", cwd=tmp_path, hidden_by=hidden_by)
        assert done.stdout == "det_compat.errors\n", done.stderr


ENDINGS = [
    "import sys; sys.exit()",
    "import sys; sys.exit(0)",
    "import sys; sys.exit(7)",
    "import sys; sys.exit('no data')",
    "raise SystemExit(None)",
    "import os; os._exit(5)",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "def f():\n    1 / 0\nf()",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('second')",
    "class Stop(BaseException): pass\nraise Stop('here')",
    "print(1\n",
    "import atexit; atexit.register(print, 'at exit'); 1 / 0",
    "import sys; sys.excepthook = lambda *a: print(a[0], a[2].tb_lineno); 1 / 0",
    "import threading as t; t.Thread(target=lambda: print('thread')).start(); 1 / 0",
]


@pytest.mark.parametrize("code", ENDINGS)
def test_it_ends_as_under_python(code: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(code)
    seen, expected = det_compat_run("train.py", cwd=tmp_path), python("train.py", cwd=tmp_path)
    assert seen.returncode == expected.returncode
    assert sorted(seen.stdout.splitlines()) == sorted(expected.stdout.splitlines())
    assert seen.stderr == expected.stderr


def test_an_interrupt_ends_it_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise KeyboardInterrupt")
    seen, expected = det_compat_run("train.py", cwd=tmp_path), python("train.py", cwd=tmp_path)
    assert seen.returncode == expected.returncode < 0
    assert "train.py" in seen.stderr


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ([], 2, "one of the arguments -m SCRIPT is required"),
        (["-m"], 2, "argument -m: expected one argument"),
        (["missing.py"], 2, "can't open file '{cwd}/missing.py': [Errno 2] No such file"),
        (["empty"], 1, "can't find '__main__' module in 'empty'"),
        (["-m", "missing"], 1, "no module named missing"),
        (["-m", "json.missing"], 1, "no module named json.missing"),
        (["-m", "empty"], 1, "no module named empty.__main__"),
        (["-m", "sys"], 1, "there is no Python code in sys"),
    ],
)
def test_what_cannot_be_run_is_named(
    args: list[str], status: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    done = det_compat_run(*args, cwd=tmp_path)
    assert done.returncode == status
    assert done.stderr.startswith(("det-compat: ", "usage: det-compat run SCRIPT"))
    assert message.format(cwd=tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_in_a_package_on_the_way_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text("")
    for line in ("import not_installed", "open('absent')", "import determined.nope"):
        (tmp_path / "pkg" / "__init__.py").write_text(line)
        done = det_compat_run("-m", "pkg.train", cwd=tmp_path)
        assert done.returncode == 1
        assert line in done.stderr


def test_determined_imported_by_the_environment_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("determined")
    (tmp_path / "train.py").write_text("")
    code = "import determined, sys; from det_compat.cli import main; main(['run', 'train.py'])"
    assert "alias_determined() came too late" in python("-c", code, cwd=tmp_path).stderr


PROCESSES = """
import dataclasses, multiprocessing, pickle, sys
import determined as det
import neighbour

@dataclasses.dataclass
class Sample:
    value: int

def work(queue, sample):
    context = multiprocessing.get_context(sys.argv[1])
    if sample.value:
        grandchild(context, queue, Sample(sample.value - 1))
    queue.put((sample.value, det.InvalidHP.__module__, sys.argv[1:], neighbour.value))

def grandchild(context, queue, sample):
    process = context.Process(target=work, args=(queue, sample))
    process.start()
    process.join()
    assert process.exitcode == 0

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Sample(3))) == Sample(3)
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.SimpleQueue()
    grandchild(context, queue, Sample(1))
    print(sorted(queue.get() for _ in range(2)))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("form", [["pkg/train.py"], ["-m", "pkg.train"]], ids=" ".join)
def test_processes_that_it_starts_have_the_alias_too(
    method: str, form: list[str], tmp_path: Path
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text(PROCESSES)
    for folder in (tmp_path, tmp_path / "pkg"):
        (folder / "neighbour.py").write_text("value = 'next door'")
    done = det_compat_run(*form, method, cwd=tmp_path, hidden_by=tmp_path / "hides")
    expected = [(n, "det_compat.errors", [method], "next door") for n in (0, 1)]
    assert (done.stdout, done.returncode) == (f"{expected}\n", 0), done.stderr


MAIN_FILE = """
import multiprocessing, work
print("main file")
if multiprocessing.parent_process() is None:
    process = multiprocessing.get_context("spawn").Process(target=work.work)
    process.start()
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize("form", [["pkg"], ["-m", "pkg"]], ids=" ".join)
def test_a_main_file_runs_once_and_its_processes_have_the_alias(
    form: list[str], tmp_path: Path
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__main__.py").write_text(MAIN_FILE)
    for folder in (tmp_path, tmp_path / "pkg"):
        (folder / "work.py").write_text(
            "import determined\ndef work(): print(determined.InvalidHP.__module__, flush=True)"
        )
    done = det_compat_run(*form, cwd=tmp_path, hidden_by=tmp_path / "hides", options=["-u"])
    assert done.stdout == "main file\ndet_compat.errors\n0\n", done.stderr


LOADER = """
import sys
import torch
from determined.pytorch import DataLoader

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, index):
        return index * index

if __name__ == "__main__":
    loader = DataLoader(
        Squares(), batch_size=2, num_workers=2, multiprocessing_context=sys.argv[1]
    ).get_data_loader()
    print([batch.tolist() for batch in loader])
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers_find_the_scripts_dataset(method: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOADER)
    command = ["-m", "det_compat", "run", "train.py", method]
    done = preloaded.python(*command, cwd=tmp_path, hidden_by=tmp_path / "hides")
    assert done.stdout == "[[0, 1], [4, 9], [16, 25]]\n", done.stderr


AGAIN = """
import subprocess, sys
import determined
spec = sys.modules["__main__"].__spec__
print(sys.argv[1:], __name__, sys.path[0], determined.InvalidHP.__module__, flush=True)
if sys.argv[1:] == ["first"]:
    # Lightning's ddp launcher and Hydra start the other ranks so.
    subprocess.run([sys.executable, "-m", spec.name, "second"], check=True, cwd="/")
"""


def test_main_can_be_started_again_by_its_spec(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(AGAIN)
    done = det_compat_run("code/train.py", "first", cwd=tmp_path, hidden_by=tmp_path / "hides")
    expected = [f"['{run}'] __main__ {tmp_path}/code det_compat.errors" for run in AGAIN_RUNS]
    assert done.stdout.splitlines() == expected, done.stderr


AGAIN_RUNS = ("first", "second")


def test_the_rerun_module_by_itself_says_what_it_is_for(tmp_path: Path) -> None:
    done = python("-m", "det_compat.script.rerun", cwd=tmp_path)
    assert done.returncode == 1
    assert "Use `det-compat run SCRIPT`" in done.stderr


def test_a_safe_path_stays_safe(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.path)")
    options = ["-P"] if sys.version_info >= (3, 11) else ["-E", "-s"]
    if options != ["-P"]:
        pytest.skip("python -P is new in 3.11")
    seen = det_compat_run("train.py", cwd=tmp_path, options=options)
    assert seen.stdout == python(*options, "train.py", cwd=tmp_path).stdout


def test_a_checkout_that_is_not_installed_serves_its_processes(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("value = 1")
    (tmp_path / "train.py").write_text(PROCESSES)
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    # -S leaves out an editable install
    done = subprocess.run(
        [sys.executable, "-S", "-m", "det_compat", "run", str(tmp_path / "train.py"), "spawn"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


RANKS = """
import os
from determined import core
context = core.DistributedContext.from_torch_distributed()
ranks = context.allgather((context.rank, os.environ["WORLD_SIZE"], __name__))
if context.rank == 0:
    print(ranks)
context.close()
"""


def test_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--no-python"]
    command = [*torchrun, preloaded.executable(), "-m", "det_compat", "run", "train.py"]
    done = preloaded.python(*command, cwd=tmp_path, hidden_by=tmp_path / "hides")
    assert done.stdout == "[(0, '2', '__main__'), (1, '2', '__main__')]\n", done.stderr
