"""Files that nobody named, and that have to do with those that were: they change with these.

A part of a project would call what the other parts no longer have.
"""

import ast
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from det_compat.analysis.tree import SKIPPED
from det_compat.catalog.support import is_determined
from det_compat.migrate.review.project import Code, imports, paths

#: More are not looked at: whoever names one file of a large tree waits for it alone.
_MOST_FILES, _MOST_BESIDE = 1000, 300
_MOST_FOLDERS = 2000
_MOST_FOLLOWED = 200
#: PEDL found a trial's data functions in the other files of its folder.
_PEDL = re.compile(rb"^\s*(from|import) pedl\b", re.MULTILINE)
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+)?import\b[ \t]*"
    rb"(?P<names>\([^)]*\)|(?:\\\r?\n|[^\r\n#;\\])+)",
    re.MULTILINE,
)
#: What a trial hands to code that need not import Determined.
_HANDED = re.compile(rb"\b(?:context|trial)\b")


@dataclass(frozen=True)
class Named:
    """What to read for the paths that a user gave.

    Attributes:
        paths: what was given, with the files that belong with one of these, or with the whole
            folder of a project that cannot be told apart.
        folders: the same, with the folder of a project in place of its files.
        companions: the files that belong with one that was given, each with this one.
        importers: the files beside a folder that was given which use Determined, each with the
            file in it that they lead to.
    """

    paths: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    companions: dict[Path, Path] = field(default_factory=dict)
    importers: dict[Path, Path] = field(default_factory=dict)


def named(given: Sequence[str], *, is_lightning: bool) -> Named:
    """What to read for some paths: with each file whatever would not work with it any more.

    Only LightningModules need the whole of a project, and PEDL's trials, whatever they become.
    """
    found, known = Named(), dict[tuple[Path, bool], Surroundings]()
    for path in dict.fromkeys(given):
        file = Path(path)
        # Files of one folder have the same ones around them.
        key = (file, True) if file.is_dir() else (file.parent, False)
        around = known.setdefault(key, Surroundings(file))
        if file.is_dir() and is_lightning:
            found.importers.update(_importers(file, around))
        if file.suffix != ".py" or not file.is_file():
            _add(found, [path], path)
            continue
        me = _absolute(file)
        others = around.companions(me)
        folder = os.path.commonpath([each.parent for each in (me, *others)])
        # The same file must not go by two paths: none goes up and down again.
        here = [Path(folder), *Path(folder).parents]
        is_below = not file.is_absolute() and _absolute(Path.cwd()) in here
        whole = _shown(Path(folder), is_below)
        beside = [each for each in around.files if each.parent == me.parent]
        if any(_PEDL.search(around.text(each)) for each in (*beside, *others)):
            _add(found, [whole], whole)
        elif is_lightning and others:
            like = [_shown(each, is_below) for each in others]
            found.companions.update(dict.fromkeys(map(Path, like), file))
            _add(found, [_shown(me, is_below), *like], whole)
        else:
            _add(found, [path], path)
    return found


def _add(found: Named, read: Iterable[str], folder: str) -> None:
    found.paths.extend(each for each in read if each not in found.paths)
    found.folders.extend([folder] if folder not in found.folders else [])


def _importers(folder: Path, around: "Surroundings") -> Iterator[tuple[Path, Path]]:
    """The files beside a folder that use Determined, each with what it leads to in this one."""
    top = _absolute(folder)
    within = [path for path in around.files if path.is_relative_to(top)]
    if len(within) < len(around.files):
        for path, start in around.leading_to(within):
            if not path.is_relative_to(top) and around.uses_determined(path):
                like = (
                    (start, path) if folder.is_absolute() else map(os.path.relpath, (start, path))
                )
                start, path = map(Path, like)
                yield path, start


class Surroundings:
    """The Python files around a path, and which of them import which others."""

    def __init__(self, path: Path) -> None:
        self._start = _absolute(path)
        self._texts: dict[Path, bytes] = {}
        self._uses: dict[Path, bool] = {}

    @cached_property
    def files(self) -> list[Path]:
        """The files, the nearest first."""
        return [*_files(self._start)]

    @cached_property
    def _modules(self) -> dict[str, Path]:
        return {_module(path): path for path in self.files}

    @cached_property
    def _by_end(self) -> dict[str, list[str]]:
        """The modules by the last part of their names."""
        found: dict[str, list[str]] = {}
        for module in self._modules:
            found.setdefault(os.path.basename(module), []).append(module)
        return found

    @cached_property
    def _imported(self) -> dict[Path, list[Path]]:
        """The files around that each file imports."""
        return {path: [*dict.fromkeys(self._imports(path))] for path in self.files}

    @cached_property
    def _importing(self) -> dict[Path, list[Path]]:
        found: dict[Path, list[Path]] = {}
        for path, others in self._imported.items():
            for other in others:
                found.setdefault(other, []).append(path)
        return found

    def text(self, path: Path) -> bytes:
        """What is in a file; nothing where it cannot be read."""
        if path not in self._texts:
            try:
                self._texts[path] = path.read_bytes()
            except OSError:
                self._texts[path] = b""
        return self._texts[path]

    def uses_determined(self, path: Path) -> bool:
        """Whether a file imports anything of Determined's."""
        if path not in self._uses:
            self._uses[path] = any(is_determined(name) for name, _ in _imports(self.text(path)))
        return self._uses[path]

    def companions(self, given: Path) -> list[Path]:
        """The files that have to change with one, or that tell how this one has to.

        These are the files that it imports and, of whatever changes, those that import it.
        """
        found = {given: None}
        followed = [given]
        for path in followed:
            # What imports something that changes may change, too.
            changes = self.uses_determined(path) if path == given else self._may_change(path)
            above = [each for each, _ in self.leading_to([path])] if changes else []
            below = self._imported.get(path, [])
            found |= dict.fromkeys((*above, *below))
            more = (*filter(self.uses_determined, above), *below)
            followed += [each for each in dict.fromkeys(more) if each not in followed]
            if len(found) > _MOST_FOLLOWED:
                break
        if not any(map(self.uses_determined, found)):
            return []
        return [path for path in found if path != given]

    def leading_to(self, given: Collection[Path]) -> list[tuple[Path, Path]]:
        """The files whose imports lead to some, each with the one of these that it leads to."""
        found = {path: path for path in given if self._may_change(path)}
        for path in (waiting := [*found]):
            others = [each for each in self._importing.get(path, []) if each not in found]
            found |= dict.fromkeys(others, found[path])
            waiting += others
        return [(path, start) for path, start in found.items() if path not in given]

    def _may_change(self, path: Path) -> bool:
        return self.uses_determined(path) or _HANDED.search(self.text(path)) is not None

    def _imports(self, path: Path) -> Iterator[Path]:
        """The files around that a file imports: by their place, or else by their end."""
        folders = [str(folder) for folder in path.parents]
        for module, names in _imports(self.text(path)):
            name = module.lstrip(".")
            dots = len(module) - len(name)
            within = folders[dots - 1 : dots] if dots else folders
            parts = name.replace(".", "/")
            wanted = [parts, *(f"{parts}/{each}".lstrip("/") for each in names)]
            found = [self._below(within, each) for each in wanted]
            if not any(found) and not dots and not is_determined(module):
                found = [self._ending(each) for each in wanted if "/" in each]
            yield from (each for each in found if each is not None and each != path)

    def _below(self, folders: Iterable[str], parts: str) -> Path | None:
        """The module of some name in the first of some folders."""
        places = (f"{folder}/{parts}".rstrip("/") for folder in folders)
        return next((self._modules[each] for each in places if each in self._modules), None)

    def _ending(self, parts: str) -> Path | None:
        """The one module of some name below a folder that is put on the path for its packages.

        Such a folder has no scripts, as projects have.
        """
        same = self._by_end.get(os.path.basename(parts), [])
        found = [module for module in same if module.endswith(f"/{parts}")]
        top = found[0].removesuffix(f"/{parts}") if len(found) == 1 else ""
        is_one = top and not any(str(each.parent) == top for each in self.files)
        return self._modules[found[0]] if is_one else None


def _module(path: Path) -> str:
    """The path of a module without its ending; that of its folder for a package."""
    return path.parent.as_posix() if path.name == "__init__.py" else path.with_suffix("").as_posix()


def _imports(text: bytes) -> Iterator[tuple[str, list[str]]]:
    """The module of each import, its dots included, and the names that it takes of it.

    Many files are read for the few that matter, which is quick only without a tree of each.
    """
    for found in _IMPORT.finditer(text):
        listed = re.sub(r"#.*|[()\\\\]", "", found["names"].decode(errors="replace"))
        names = [name.split()[0] for name in listed.split(",") if name.strip()]
        if found["module"]:
            yield found["module"].decode(errors="replace"), names
        else:
            yield from ((name, []) for name in names)


def _files(start: Path) -> Iterator[Path]:
    """The Python files around a path, the nearest folders first."""
    seen: set[Path] = set()
    files = 0
    tops = [*_folders(start)]
    # Above what is no repository, others' projects may lie side by side.
    most = _MOST_FILES if _is_repository(tops[-1]) else _MOST_BESIDE
    for top in tops:
        waiting = [top]
        for folder in waiting:
            if folder in seen or len(seen) > _MOST_FOLDERS or files > most:
                continue
            seen.add(folder)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                path = folder / entry.name
                if entry.is_dir(follow_symlinks=False):
                    is_others = entry.name in SKIPPED or (path / "pyvenv.cfg").exists()
                    waiting += [] if is_others else [path]
                elif path.suffix == ".py" and entry.is_file():
                    files += 1
                    yield path


def _folders(start: Path) -> Iterator[Path]:
    """The folders that a project may be in: up to its repository, or above its packages.

    What all projects of a machine are in is no project.
    """
    folder = start if start.is_dir() else start.parent
    above = [folder, *folder.parents]
    top = next((each for each in above if _is_repository(each)), None)
    if top is None:
        top = next(each for each in above if not _is_inner(each))
        top = top if start.is_dir() else top.parent
    shared = [Path.home(), Path(tempfile.gettempdir())]
    for each in above[: above.index(top) + 1]:
        if each != folder and any(other.is_relative_to(each) for other in shared):
            return
        yield each


def _shown(path: Path, is_below: bool) -> str:
    return os.path.relpath(path) if is_below else str(path)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists() or (folder / ".hg").exists()


def _is_inner(folder: Path) -> bool:
    """Whether code above a folder may import from it: it is a package, or there is code above."""
    if folder.parent == folder:
        return False
    return (folder / "__init__.py").is_file() or any(folder.parent.glob("*.py"))


def left_out(code: Code) -> dict[Path, Path]:
    """The files that still use Determined and were not read, each with one that imports it."""
    found: dict[Path, Path] = {}
    waiting = [(path, text.tree, path) for path, text in code.files.items()]
    known = {path.absolute() for path in code.files}
    for path, tree, asking in waiting:
        if path not in code.files and _uses_determined(tree):
            found[path] = asking
        for other in _imported(tree, path):
            if other.absolute() not in known and len(waiting) < len(code.files) + _MOST_FOLLOWED:
                known.add(other.absolute())
                parsed = _tree(other)
                waiting += [(other, parsed, path)] if parsed is not None else []
    return found


def _uses_determined(tree: ast.Module) -> bool:
    return any(is_determined(module) for _, module, level in imports(ast.walk(tree)) if not level)


def _imported(tree: ast.Module, path: Path) -> Iterator[Path]:
    """The files beside a file, and above it, that its imports name."""
    for node, module, level in imports(ast.walk(tree)):
        names = [module]
        if isinstance(node, ast.ImportFrom):
            names += [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
        for name in names:
            there = next((found for found in paths(path, name, level) if found.is_file()), None)
            if there is not None and SKIPPED.isdisjoint(there.parts):
                yield there


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
