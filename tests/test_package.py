"""What is built, what is in it, and what importing it does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import preloaded

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "det_compat", "adapters")

BUILD_SDIST = """
import sys
from setuptools import build_meta
print(build_meta.build_sdist(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the build needs, because a build writes into its source tree."""
    copy = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build_wheel(source: Path, target: Path) -> Path:
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run(*pip_wheel, "--no-index", "--wheel-dir", str(target), str(source))
    (wheel,) = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


def python_files() -> set[str]:
    """The modules in the repository, under the names that they are imported by."""
    own = {path.relative_to(ROOT) for path in (ROOT / "det_compat").rglob("*.py")}
    names = {path.as_posix() for path in own if "adapters" not in path.parts}
    adapters = {path.relative_to(ROOT) for path in (ROOT / "adapters").rglob("*.py")}
    return names | {f"det_compat/{path.as_posix()}" for path in adapters}


def contents(wheel: Path) -> set[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name}


@pytest.mark.xdist_group("package")
def test_the_wheel_holds_every_module_and_the_typing_marker(wheel: Path) -> None:
    expected = python_files()
    assert {"det_compat/adapters/__init__.py", "det_compat/pytorch/__init__.py"} <= expected
    assert contents(wheel) == expected | {
        "det_compat/py.typed",
        "det_compat/adapters/lightning/known.yaml",
        "det_compat/catalog/members.yaml",
        "det_compat/catalog/names.json",
        "det_compat/catalog/releases.json",
        "det_compat/config/keys/keys.yaml",
    }


@pytest.mark.xdist_group("package")
def test_a_wheel_from_the_sdist_holds_the_same(source: Path, wheel: Path, tmp_path: Path) -> None:
    printed = run(sys.executable, "-c", BUILD_SDIST, str(tmp_path), cwd=source)
    sdist = tmp_path / printed.splitlines()[-1]
    assert contents(build_wheel(sdist, tmp_path / "wheel")) == contents(wheel)


@pytest.mark.xdist_group("package")
def test_the_wheel_works_where_the_repository_is_not(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    # Nothing is found of the repository, nor by what an editable install put into the interpreter.
    code = f"""
import sys
sys.path[:] = [{str(tmp_path)!r}, *(path for path in sys.path if path != {str(ROOT)!r})]
sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in repr(one).lower()]
import det_compat, det_compat.pytorch
from det_compat import TrialModule, to_lightning
print(det_compat.__file__, TrialModule.__module__)
"""
    file, module = in_fork(code, cwd=tmp_path).split()
    assert Path(file) == tmp_path / "det_compat" / "__init__.py"
    assert module.startswith("det_compat.adapters.")


def in_fork(code: str, cwd: Path) -> str:
    """What code prints in a process that has imported torch, and nothing of det_compat."""
    done = preloaded.python("-c", code, cwd=cwd, side="neither")
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_python(code: str, *options: str, cwd: Path = ROOT) -> str:
    return run(sys.executable, *options, "-c", code, cwd=cwd)


def modules_after(statement: str) -> set[str]:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(run_python(code).splitlines()[-1]))


def test_importing_det_compat_imports_no_framework() -> None:
    loaded = modules_after("import det_compat")
    assert "det_compat" in loaded
    frameworks = {"torch", "numpy", "yaml", "lightning", "pytorch_lightning", "determined"}
    assert loaded.isdisjoint(frameworks)


def test_importing_the_trial_api_imports_torch_but_no_trainer() -> None:
    loaded = modules_after("import det_compat.pytorch")
    assert {"torch", "det_compat.pytorch"} <= loaded
    assert loaded.isdisjoint({"lightning", "pytorch_lightning", "determined", "tensorboard"})


GLOBAL_STATE = """
import logging, random, sys, warnings
import numpy, torch, {framework}

def state():
    loggers = {{
        name: (logger.level, logger.disabled, logger.propagate, list(map(repr, logger.handlers)))
        for name, logger in {{"root": logging.root, **logging.root.manager.loggerDict}}.items()
        if isinstance(logger, logging.Logger) and not name.startswith(("determined", "det_compat"))
    }}
    determined = {{
        name: logging.getLogger(name).handlers for name in ("determined", "determined.pytorch")
    }}
    return {{
        "loggers": loggers,
        "handlers": determined,
        "warnings": list(map(repr, warnings.filters)),
        "random": random.getstate(),
        "numpy": [str(part) for part in numpy.random.get_state()],
        "torch": torch.random.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "finders": list(map(repr, sys.meta_path)),
        "path": list(sys.path),
        "hook": repr(sys.excepthook),
        "determined": [name for name in sys.modules if name.split(".")[0] == "determined"],
    }}

before = state()
import {module}
after = state()
changed = [key for key in before if before[key] != after[key]]
print(changed)
"""


@pytest.mark.parametrize(
    ("module", "framework"),
    [
        ("det_compat", "torch"),
        ("det_compat.alias", "torch"),
        ("det_compat.pytorch", "torch"),
        ("det_compat.adapters", "pytorch_lightning"),
    ],
)
def test_importing_changes_no_global_state(module: str, framework: str, tmp_path: Path) -> None:
    shown = in_fork(GLOBAL_STATE.format(module=module, framework=framework), tmp_path)
    assert shown.splitlines()[-1] == "[]"


def test_the_checkout_has_no_importable_adapters_package() -> None:
    code = "try:\n    import adapters\nexcept ImportError as error:\n    print(error)"
    assert "det_compat.adapters" in run_python(code)
