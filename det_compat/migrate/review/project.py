"""The files of a migration, before and after, as the checks read them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """What is not in order: the statement that it is about, and why; or a note, which it is."""

    line: int
    message: str
    is_note: bool = False


@dataclass(frozen=True)
class Text:
    """A file as it was, or as it is now."""

    path: Path
    source: bytes
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Everything in it, in order of depth."""
        return [*ast.walk(self.tree)]

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Its classes, by name."""
        return {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}


#: What calls the methods of trials, in Determined's own code.
_CONTROLLERS = {"PyTorchTrialController", "_PyTorchTrialController"}


@dataclass(frozen=True)
class Code:
    """All files that were read together, before or after.

    Attributes:
        files: each by its path.
    """

    files: dict[Path, Text] = field(default_factory=dict)

    @cached_property
    def _by_name(self) -> dict[str, list[ast.ClassDef]]:
        found: dict[str, list[ast.ClassDef]] = {}
        for text in self.files.values():
            for name, node in text.classes.items():
                found.setdefault(name, []).append(node)
        return found

    def ancestors(self, node: ast.ClassDef) -> tuple[list[ast.ClassDef], set[str]]:
        """A class with its bases in these files, and the names of the bases that are not."""
        found, others = [node], set[str]()
        for current in found:
            for base in map(written, current.bases):
                known = self._by_name.get(base.rpartition(".")[2], [])
                found += [each for each in known if each not in found]
                others |= set() if known else {base}
        return found, others

    def constructor(self, name: str, node: ast.ClassDef | None = None) -> ast.FunctionDef | None:
        """The ``__init__`` of a class, or that of its bases; none of a name that several have."""
        known = [node] if node is not None else self._by_name.get(name, [])
        found = self.ancestors(known[0])[0] if len(known) == 1 else []
        return next(
            (methods(each)["__init__"] for each in found if "__init__" in methods(each)), None
        )

    def bases_of(self, name: str) -> set[str]:
        """The names of a class's bases that are elsewhere, or ``object`` where it has none.

        There are none of a name that no class has, or several.
        """
        known = self._by_name.get(name, [])
        found = self.ancestors(known[0])[1] if len(known) == 1 else set[str]()
        return found or ({"object"} if len(known) == 1 else set())

    def bases_of_heirs(self, node: ast.ClassDef) -> set[str]:
        """The names of the bases of what derives from a class, as far as they are elsewhere."""
        return self._bases_of_heirs.get(node, set())

    @cached_property
    def _bases_of_heirs(self) -> dict[ast.ClassDef, set[str]]:
        found: dict[ast.ClassDef, set[str]] = {}
        for each in (each for same in self._by_name.values() for each in same):
            ancestors, others = self.ancestors(each)
            for ancestor in ancestors:
                found.setdefault(ancestor, set()).update(others)
        return found

    @cached_property
    def function_names(self) -> set[str]:
        """Every function and method that is defined anywhere."""
        nodes = (node for text in self.files.values() for node in text.nodes)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name for node in nodes if isinstance(node, kinds)}

    @cached_property
    def set_names(self) -> set[str]:
        """Every attribute that is set or defined anywhere, whoever has it."""
        nodes = [node for text in self.files.values() for node in text.nodes]
        stored = {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        stored.update(name for call in calls if (name := _registered(call) or _option(call)))
        return stored.union(*(members(node) for node in nodes if isinstance(node, ast.ClassDef)))

    @cached_property
    def read_names(self) -> set[str]:
        """Every attribute and name that is read anywhere."""
        nodes = (node for text in self.files.values() for node in text.nodes)
        return {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in nodes
            if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load)
        }

    @cached_property
    def copies(self) -> Code:
        """The files of Determined's own code that a project has copied and changed."""
        found = {p: each for p, each in self.files.items() if each.classes.keys() & _CONTROLLERS}
        return Code(found)

    @cached_property
    def own(self) -> Code:
        """The other files."""
        left = {path: text for path, text in self.files.items() if path not in self.copies.files}
        return Code(left) if self.copies.files else self

    @cached_property
    def asked_of_trials(self) -> set[str]:
        """Every attribute that is read of something called a trial."""
        nodes = (node for text in self.files.values() for node in text.nodes)
        asked = (node for node in nodes if isinstance(node, ast.Attribute))
        return {node.attr for node in asked if written(node.value).split(".")[-1] == "trial"}

    @cached_property
    def asked_names(self) -> set[str]:
        """Every attribute that is read of another object than ``self``, by name or by a text."""
        nodes = [node for text in self.files.values() for node in text.nodes]
        asked = {asked_by_name(node) for node in nodes if isinstance(node, ast.Call)}
        return asked.union(
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") != "self"
        )

    def lookup(self, path: Path, module: str, level: int = 0) -> Path | None:
        """The file of these that an import in ``path`` names."""
        return next((found for found in paths(path, module, level) if found in self.files), None)


def paths(path: Path, module: str, level: int = 0) -> Iterator[Path]:
    """Where the module that an import in ``path`` names may lie: beside the file, and above it."""
    folders = [*path.parents]
    for folder in folders[level - 1 : level] if level else folders:
        base = folder.joinpath(*module.split(".")) if module else folder
        yield base.with_name(f"{base.name}.py") if module else base / "__init__.py"
        yield base / "__init__.py"


def written(node: ast.AST) -> str:
    """A name or dotted name as it is written; ``""`` for anything else."""
    if isinstance(node, ast.Subscript):
        return written(node.value)
    if isinstance(node, ast.Attribute):
        owner = written(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return node.id if isinstance(node, ast.Name) else ""


def members(node: ast.ClassDef) -> set[str]:
    """The methods and variables that stand in a class."""
    found: set[str] = set()
    for line in node.body:
        if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(line.name)
        elif isinstance(line, (ast.Assign, ast.AnnAssign)):
            found |= {each.id for each in ast.walk(line) if isinstance(each, ast.Name)}
    return found


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    """The methods of a class, by name."""
    return {line.name: line for line in node.body if isinstance(line, ast.FunctionDef)}


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, int]]:
    """Each import with the module that it names, and its dots."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or "", node.level


def _registered(call: ast.Call) -> str:
    """What a module registers here, or what a call sets by its name; ``""`` for none."""
    at = _NAMED.get(getattr(call.func, "attr", ""))
    name = call.args[at] if at is not None and len(call.args) > at else None
    return str(name.value) if isinstance(name, ast.Constant) else ""


#: Which argument is the name.
_NAMED = {"register_buffer": 0, "register_parameter": 0, "__setattr__": 1}


def _option(call: ast.Call) -> str:
    """The attribute that argparse sets for an option that is added here; ``""`` for none."""
    if getattr(call.func, "attr", "") != "add_argument":
        return ""
    dest = [each.value for each in call.keywords if each.arg == "dest"]
    given = (each.value for each in (*dest, *call.args) if isinstance(each, ast.Constant))
    names = [*map(str, given)]
    # The first long name, or the first of all, as argparse takes it.
    long = [] if dest else [name for name in names if name.startswith("--")]
    return next(iter((*long, *names)), "").lstrip("-").replace("-", "_")


def asked_by_name(call: ast.Call) -> str:
    """The attribute that ``getattr(trial, "context")`` and its like ask for; ``""`` for others."""
    if getattr(call.func, "id", "") not in ("getattr", "hasattr", "setattr") or len(call.args) < 2:
        return ""
    name = call.args[1]
    return str(name.value) if isinstance(name, ast.Constant) else ""


def starts(text: Text) -> set[int]:
    """The lines on which a statement begins, with its decorators."""
    found = set()
    for node in text.nodes:
        if isinstance(node, ast.stmt):
            decorators = getattr(node, "decorator_list", ())
            found.add(min([node.lineno, *(each.lineno for each in decorators)]))
    return found
