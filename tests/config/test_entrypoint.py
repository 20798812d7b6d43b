from __future__ import annotations

from typing import Any

import pytest

from det_compat.config import ConfigError
from det_compat.config.entrypoint import Entrypoint, EntrypointKind
from tests.config.samples import parsed

LAUNCH = "python3 -m determined.launch.torch_distributed"


def entrypoint(value: Any) -> Entrypoint | None:
    return parsed(entrypoint=value).entrypoint


@pytest.mark.parametrize("name", ["model_def:Trial", "a.b.c:D.E", ":Trial", "m:T "])
def test_trial_classes(name: str) -> None:
    assert entrypoint(name) == Entrypoint(EntrypointKind.TRIAL, trial=name.strip())


@pytest.mark.parametrize(
    ("value", "argv"),
    [
        ("python3 train.py --epochs 1", ("python3", "train.py", "--epochs", "1")),
        (["python3", "a b.py"], ("python3", "a b.py")),
        ("./run.sh", ("./run.sh",)),
        ("python3 t.py '{\"a\": 1}'", ("python3", "t.py", '{"a": 1}')),
        ("cd x && python3 t.py", ("sh", "-c", "cd x && python3 t.py")),
        ("A=1 python3 t.py", ("sh", "-c", "A=1 python3 t.py")),
        ("python3 t.py $HOME", ("sh", "-c", "python3 t.py $HOME")),
        ("python3 t.py > log", ("sh", "-c", "python3 t.py > log")),
        ("python3 -m pkg.train", ("python3", "-m", "pkg.train")),
    ],
)
def test_commands(value: Any, argv: tuple[str, ...]) -> None:
    assert entrypoint(value) == Entrypoint(EntrypointKind.SCRIPT, argv=argv)


def test_launchers() -> None:
    found = entrypoint(f"{LAUNCH} --nnodes 2 -- python3 train.py --x -- y")
    assert found == Entrypoint(
        EntrypointKind.LAUNCHER,
        argv=("python3", "train.py", "--x", "--", "y"),
        launcher="torch_distributed",
        launcher_args=("--nnodes", "2"),
    )
    plain = entrypoint(f"{LAUNCH} python train.py")
    assert plain and plain.argv == ("python", "train.py")
    for text in (
        f"{LAUNCH} --trial m:T",
        f"{LAUNCH} -- --trial=m:T",
        [*LAUNCH.split(), "--trial", "m:T"],
    ):
        trial = entrypoint(text)
        assert trial and (trial.kind, trial.trial) == (EntrypointKind.LAUNCHER, "m:T")
    older = entrypoint(["python3", "-m", "determined.launch.autodeepspeed", "gpt2:Trial"])
    assert older and (older.launcher, older.trial, older.argv) == (
        "autodeepspeed",
        "gpt2:Trial",
        (),
    )
    horovod = entrypoint("python3 -m determined.launch.horovod --autohorovod --trial m:T")
    assert horovod and (horovod.launcher, horovod.trial) == ("horovod", "m:T")


def test_what_determined_started_for_a_trial_class() -> None:
    harness = "python3 -m determined.exec.harness m:T"
    assert entrypoint(harness) == Entrypoint(EntrypointKind.TRIAL, trial="m:T")
    for launched in (f"{LAUNCH} {harness}", f"{LAUNCH} --nnodes 1 -- {harness}"):
        found = entrypoint(launched)
        assert found and (found.kind, found.trial) == (EntrypointKind.LAUNCHER, "m:T")
        assert found.argv == ()


def test_pedl() -> None:
    found = parsed(
        entrypoints={"trial_class": "m:T", "data_loaders_function": "m:make", "other": None}
    ).entrypoint
    assert found == Entrypoint(
        EntrypointKind.TRIAL, trial="m:T", functions={"data_loaders_function": "m:make"}
    )


def test_none() -> None:
    assert entrypoint(None) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "module:Class, a command"),
        ([], "module:Class, a command"),
        ({"a": 1}, "found a mapping of a, expected text"),
        (["a", 1], r"entrypoint\[1\]: found 1, expected text"),
        ("python3 'unclosed", "No closing quotation"),
        (LAUNCH, "a script, or --trial"),
    ],
)
def test_what_is_wrong(value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        entrypoint(value)
    with pytest.raises(ConfigError, match="module:name"):
        parsed(entrypoints={"trial_class": "no colon"})
