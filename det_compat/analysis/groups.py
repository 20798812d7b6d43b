"""Which files of a tree have to do with one another: several experiments may lie side by side."""

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from det_compat.analysis.expressions import walked
from det_compat.analysis.source import Source

#: What imports, or makes, something of which it is told the name.
_BY_NAME = re.compile(r"\b(?:import_module|__import__|instantiate|runpy|exec)\b")
#: PEDL found the parts of a trial in the files of its folder.
_PEDL = re.compile(r"^\s*(?:from|import) pedl\b", re.MULTILINE)
#: What uses what trials do, and is no script of the Core API, or of the cluster's client.
_USES = re.compile(r"\b(?:determined\.pytorch|det\.pytorch|determined import pytorch|pedl)\b")
_TRIAL = re.compile(r"^\s*class \w+\(.*Trial\b", re.MULTILINE)


def groups(sources: Sequence[Source]) -> list[list[Path]]:
    """The files in groups, between which no import leads, in their order.

    Where it is not known what an import names, it may be any file of that name. What has parts of
    trials, and is neither a trial nor imported, may belong to any trial beside it.
    """
    files = _Files(sources)
    leader = {source.path: source.path for source in sources}

    def led(path: Path) -> Path:
        while leader[path] != path:
            leader[path] = path = leader[leader[path]]
        return path

    for source in sources:
        for other in files.named_by(source):
            leader[led(other)] = led(source.path)
    many = Counter(led(source.path) for source in sources)
    for source in sources:
        if many[led(source.path)] == 1 and files.is_part(source):
            for other in files.beside(source):
                leader[led(other)] = led(source.path)
    found: dict[Path, list[Path]] = {}
    for source in sources:
        found.setdefault(led(source.path), []).append(source.path)
    return [*found.values()]


class _Files:
    """The files of a tree by their paths, and by their names."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._modules = {_module(source.path): source.path for source in sources}
        self._named: dict[str, list[Path]] = {}
        #: What a package or module of the tree may be called: the others are installed.
        self._parts = {part for source in sources for part in source.path.with_suffix("").parts}
        self._beside: dict[Path, list[Path]] = {}
        self._using: dict[Path, list[Path]] = {}
        self._texts: dict[Path, str] = {}
        for source in sources:
            text = self._texts[source.path] = "\n".join(source.lines)
            if _USES.search(text):
                self._using.setdefault(source.path.parent, []).append(source.path)
            name = os.path.basename(_module(source.path))
            self._named.setdefault(name, []).append(source.path)
            self._beside.setdefault(source.path.parent, []).append(source.path)

    def named_by(self, source: Source) -> Iterator[Path]:
        """The files that one imports, or may."""
        folders = [str(folder) for folder in source.path.absolute().parents]
        for module, level, names in _imports(source):
            within = folders[level - 1 : level] if level else folders
            found = [*self._below(within, module, names)]
            yield from found
            if not found and (level or module.partition(".")[0] in self._parts):
                last = module.rpartition(".")[2]
                yield from (p for name in (last, *names) for p in self._named.get(name, ()))
        text = self._texts[source.path]
        if _PEDL.search(text):
            yield from self._beside[source.path.parent]
        if _BY_NAME.search(text):
            for word in {*re.findall(r"\w+", text)} & self._named.keys():
                yield from self._named[word]

    def is_part(self, source: Source) -> bool:
        """Whether a file may have a part of a trial, and has none itself."""
        text = self._texts[source.path]
        return _USES.search(text) is not None and not _TRIAL.search(text)

    def beside(self, source: Source) -> list[Path]:
        """The files of its folder that have trials, or parts of them."""
        return self._using.get(source.path.parent, [])

    def _below(self, folders: Sequence[str], module: str, names: Sequence[str]) -> Iterator[Path]:
        """The file of a module in the first of some folders, with its packages and what it has."""
        parts = module.split(".") if module else []
        for folder in folders:
            paths = [os.path.join(folder, *parts[:end]) for end in range(len(parts) + 1)]
            found = [self._modules[path] for path in paths[1:] if path in self._modules]
            of_names = (os.path.join(paths[-1], name) for name in names)
            found += [self._modules[path] for path in of_names if path in self._modules]
            if found:
                yield from found
                return


def _module(path: Path) -> str:
    """The path of a module, without its ending; that of its folder for a package."""
    whole = path.absolute()
    return str(whole.parent if whole.name == "__init__.py" else whole.with_suffix(""))


def _imports(source: Source) -> Iterator[tuple[str, int, list[str]]]:
    """The module of each import, with its dots, and the names that it takes of it."""
    for node in (node for tree in source.trees for node in walked(tree)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level, [alias.name for alias in node.names]
