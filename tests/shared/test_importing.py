from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from det_compat.shared import importing
from det_compat.shared.importing import (
    NoSuchName,
    class_in_file,
    imported,
    imported_class,
    large_imports,
    load_file,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, with a module and a package whose import fails."""
    (tmp_path / "importing_mine.py").write_text("class Outer:\n    class Inner: pass\n")
    (tmp_path / "importing_odd.py").write_text("import importing_nowhere")
    (tmp_path / "importing_package").mkdir()
    (tmp_path / "importing_package" / "__init__.py").touch()
    (tmp_path / "importing_package" / "part.py").write_text("value = __name__")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("importing_")]:
        del sys.modules[name]


def test_what_a_path_names() -> None:
    assert imported("importing_mine:Outer.Inner").__qualname__ == "Outer.Inner"
    assert imported_class("importing_mine.Outer").__name__ == "Outer"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("importing_none:A", "there is no module importing_none"),
        ("importing_package.none:A", "there is no module importing_package.none"),
        ("importing_mine:Outer.Other", "importing_mine has no Outer.Other"),
        ("importing_mine", "importing_mine has no "),
    ],
)
def test_what_is_not_there(path: str, message: str) -> None:
    with pytest.raises(NoSuchName, match=message):
        imported(path)


def test_errors_of_the_code_itself_stay_as_they_are() -> None:
    with pytest.raises(ModuleNotFoundError, match="importing_nowhere"):
        imported("importing_odd:A")


@pytest.mark.parametrize("path", ["importing_none.A", "importing_mine.None", "no name"])
def test_a_class_that_cannot_be_imported(path: str) -> None:
    with pytest.raises(TypeError, match=f"cannot import the trial class '{path}'"):
        imported_class(path)


def test_a_file_in_a_package_whose_folder_has_a_dot_in_its_name(tmp_path):
    inner = tmp_path / "importing-v1.0" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").write_text("")
    (inner.parent / "part.py").write_text("value = __name__\n")
    (inner / "importing_trial.py").write_text("from ..part import value\n")
    module = load_file(inner / "importing_trial.py")
    assert module.__name__ == "importing-v1_0.inner.importing_trial"
    assert module.value == "importing-v1_0.part"


def test_a_file_has_the_name_that_it_has_in_its_package(folder: Path) -> None:
    file = folder / "importing_package" / "part.py"
    assert load_file(file).value == "importing_package.part"
    assert load_file(file) is sys.modules["importing_package.part"]
    with pytest.raises(ModuleNotFoundError):
        load_file(folder / "importing_odd.py")
    assert "importing_odd" not in sys.modules


def test_a_class_in_a_file(folder: Path) -> None:
    file = folder / "importing_mine.py"
    assert class_in_file(f"{file}:Outer") == (file, "Outer")
    for text, message in [
        (str(file), "expected FILE.py:Class"),
        (f"{file}:a b", "expected FILE.py:Class"),
        (f"{folder}/none.py:A", "there is no file"),
    ]:
        with pytest.raises(ValueError, match=message):
            class_in_file(text)


@pytest.fixture
def nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No object that the garbage collector never looks at, as in a process that has just begun."""
    monkeypatch.setattr(importing, "_is_frozen", False)
    was = gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.unfreeze()
    if was:
        gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
@pytest.mark.parametrize("collects", [True, False])
def test_large_imports_leave_a_guests_process_as_it_was(
    collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An attempt of a search that another test has made here took this process for its own.
    monkeypatch.setattr(importing, "process_is_ours", lambda: False)
    state = random.getstate()
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with large_imports("importing_large", before_users=True):
            assert not gc.isenabled()
            random.random()
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()
    assert random.getstate() == state
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_what_a_process_of_det_compat_imports_first_is_never_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importing, "process_is_ours", lambda: True)
    with large_imports("importing_large"):
        pass
    assert gc.get_freeze_count() == 0
    with large_imports("importing_large", before_users=True):
        kept: list[object] = [[]]
    assert gc.get_freeze_count() > 0
    # What a host has frozen stays so.
    with large_imports("importing_large"):
        pass
    assert gc.get_freeze_count() > 0
    del kept
