"""The same scenarios with det_compat's import_from_path and with Determined's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fresh_python import python

OURS = "from det_compat import import_from_path"
THEIRS = "from determined import import_from_path"


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A working directory and a checkpoint with modules of the same names."""
    for folder in ("here", "checkpoint"):
        (tmp_path / folder / "package").mkdir(parents=True)
        (tmp_path / folder / "model_def.py").write_text(f"import helper\nvalue = {folder!r}")
        (tmp_path / folder / "helper.py").write_text(f"value = {folder!r}")
        (tmp_path / folder / "package" / "__init__.py").write_text("")
        (tmp_path / folder / "package" / "part.py").write_text(f"value = {folder!r}")
    (tmp_path / "here" / "only_here.py").write_text("value = 'only here'")
    return tmp_path / "here"


def show(code: str, folders: Path) -> object:
    (folders / "train.py").write_text(f"import json, sys\n{code}")
    done = python("train.py", cwd=folders)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TWO_VERSIONS = """
import model_def, package.part
path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
with import_from_path("../checkpoint"):
    import model_def as old, package.part as old_part, only_here
    inside = [model_def.value, old.value, old.helper.value, old_part.value, only_here.value]
import model_def as again, package.part as part_again
same = [again is model_def, part_again.value, sys.modules["helper"].value]
same += [sys.path == path, sys.meta_path == finders, sys.dont_write_bytecode]
print(json.dumps([inside, same, sorted({m for m in sys.modules if "part" in m} - modules)]))
"""


def test_both_versions_can_be_imported(folders: Path) -> None:
    inside, same, left = show(f"{OURS}\n{TWO_VERSIONS}", folders)
    # the working directory stays on the path, behind the checkpoint
    assert inside == ["here", "checkpoint", "checkpoint", "checkpoint", "only here"]
    assert same == [True, "here", "here", True, True, False]
    assert left == []


def test_determined_does_the_same(folders: Path) -> None:
    pytest.importorskip("determined")
    ours, *rest = show(f"{OURS}\n{TWO_VERSIONS}", folders)
    theirs, *their_rest = show(f"{THEIRS}\n{TWO_VERSIONS}", folders)
    assert rest == their_rest
    # package.part: Determined 0.38.1 forgets the package, but not what is in it
    assert (ours.pop(3), theirs.pop(3)) == ("checkpoint", "here")
    assert ours == theirs


def test_nothing_is_written_into_the_directory(folders: Path) -> None:
    code = f"""{OURS}
import only_here
with import_from_path("../checkpoint"):
    import model_def, package.part
print(json.dumps([]))"""
    show(code, folders)
    assert (folders / "__pycache__").is_dir()
    assert list((folders.parent / "checkpoint").rglob("__pycache__")) == []


def test_an_error_inside_leaves_everything_as_it_was(folders: Path) -> None:
    code = f"""{OURS}
import model_def
path = list(sys.path)
try:
    with import_from_path("../checkpoint"):
        import model_def
        raise KeyError
except KeyError:
    pass
import model_def
with import_from_path("../checkpoint"):
    import helper
print(json.dumps([model_def.value, sys.path == path, helper.value]))"""
    assert show(code, folders) == ["here", True, "checkpoint"]


def test_blocks_do_not_nest(folders: Path) -> None:
    code = f"""{OURS}
with import_from_path("../checkpoint"):
    try:
        with import_from_path("."):
            pass
    except RuntimeError as error:
        print(json.dumps(str(error)))"""
    assert "active already" in str(show(code, folders))


def test_packages_without_init_are_told_apart_too(folders: Path) -> None:
    for folder in ("here", "checkpoint"):
        (folders.parent / folder / "package" / "__init__.py").unlink()
    inside, same, left = show(f"{OURS}\n{TWO_VERSIONS}", folders)
    assert inside[3] == "checkpoint"
    assert (same[1], left) == ("here", [])


def test_the_program_and_det_compat_are_not_reloaded(folders: Path) -> None:
    (folders / "det_compat").symlink_to(Path(__file__).parents[1] / "det_compat")
    (folders / "train.py").write_text(f"""
import json, sys
sys.path.insert(0, {str(folders)!r})
{OURS}
import det_compat
main = sys.modules["__main__"]
with import_from_path("../checkpoint"):
    same = [sys.modules["__main__"] is main, sys.modules["det_compat"] is det_compat]
print(json.dumps(same))
""")
    done = python("train.py", cwd=folders)
    assert json.loads(done.stdout) == [True, True], done.stderr
