"""What the files of a project have beside trial classes: functions, classes, variables, imports."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.analysis.given.values import Given

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
#: What Determined's ``fit()`` takes, and no other is known to.
_FIT = {"max_length", "validation_period", "checkpoint_period", "latest_checkpoint"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Elsewhere:
    """What is known of the code that trial classes call.

    Attributes:
        variables: those that files have.
        functions: each function that has a name of its own.
        asked: the attributes that some code asks for of an object that is not its own, by name or
            by a text.
        texts: each class and function at the top of a file, by name.
        given: what attributes of an object that is not its own some code sets, and to what.
        imported: the paths that each name is imported from.
        tables: the names in each dict of names at the top of a file, which nothing changes.
        trees: the files.
    """

    variables: frozenset[str] = frozenset()
    functions: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    imported: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    trees: Sequence[ast.Module] = ()

    @cached_property
    def made(self) -> Given:
        """What is made in these files, and given to what."""
        return Given(self.trees)

    @cached_property
    def classes_with(self) -> dict[str, list[str]]:
        """The texts of classes that have each method."""
        found: dict[str, list[str]] = {}
        for text in self.texts.values():
            for name in {*_DEF.findall(text)} if _CLASS.match(text) else ():
                found.setdefault(name, []).append(text)
        return found

    @cached_property
    def fits(self) -> list[dict[str | None, ast.expr]]:
        """What Determined's ``fit()`` is given where these files call it, by name."""
        calls = (
            node for tree in self.trees for node in ast.walk(tree) if isinstance(node, ast.Call)
        )
        named = (c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "fit")
        given = [{keyword.arg: keyword.value for keyword in call.keywords} for call in named]
        return [each for each in given if not _FIT.isdisjoint(each)]

    @cached_property
    def looked_up(self) -> frozenset[str]:
        """The texts that some code asks objects for which need not have them."""
        found: list[ast.AST] = []
        for node in (node for tree in self.trees for node in ast.walk(tree)):
            if isinstance(node, ast.Call) and _name(node.func) in _ASKING:
                found += node.args[:2]
            elif isinstance(node, ast.Compare):
                found.append(node.left)
            elif isinstance(node, ast.Try):
                found += [each for line in node.body for each in ast.walk(line)]
        return frozenset(
            each.value
            for each in found
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )

    @cached_property
    def has_core_contexts(self) -> bool:
        """Whether some file is a script of the Core API."""
        nodes = (node for tree in self.trees for node in ast.walk(tree))
        inits = (n.value for n in nodes if isinstance(n, ast.Attribute) and n.attr == "init")
        return any("core" in (getattr(n, "attr", ""), getattr(n, "id", "")) for n in inits)

    def is_unread(self, name: str) -> bool:
        """Whether what a dotted name stands for is imported, and in none of these files."""
        paths = self.imported.get(name.partition(".")[0], frozenset())
        owner, _, last = name.rpartition(".")
        classes = [owner.rpartition(".")[2]]
        for each in classes:
            text = self.texts.get(each, "")
            if f"def {last}(" in text:
                return False
            bases = _BASES.match(text)
            classes += [n for n in _NAME.findall(bases[1]) if n not in classes] if bases else []
        return bool(paths) and last not in self.texts

    @cached_property
    def properties(self) -> set[str]:
        """What classes have that is called without brackets."""
        return {name for text in self.texts.values() for name in _PROPERTY.findall(text)}

    def holds(self, code: str) -> bool:
        """Whether what a file or module has as ``code`` is a variable, which may hold anything."""
        names = {path.rpartition(".")[2] for path in self.imported.get(code, (code,))}
        return not names.isdisjoint(self.variables - self.functions.keys())

    def reached(self, code: Iterable[str]) -> list[str]:
        """Some code, and all that it names in the project, and that this names."""
        found, known = [*code], set[str]()
        for text in found:
            names = {match.group() for match in _NAME.finditer(text)} & self.texts.keys() - known
            known |= names
            found += [self.texts[each] for each in names]
        return found

    def may_draw(self, code: Iterable[str]) -> bool:
        """Whether some code, or what it names in the project, may draw random numbers."""
        return any(DRAWS.search(text) or _CHANCE.search(text) for text in self.reached(code))


#: What may draw random numbers.
DRAWS = re.compile(r"(?i)\brandom\.|(rand|seed|normal|shuffle|permut|sample|dropout)\w*\(")
#: What splits data by chance, or makes weights, which losses have none of.
_CHANCE = re.compile(
    r"(?i)choice|test_split|kfold|xavier|kaiming|\bnn\.init\b|\bnn\.(?!\w+Loss\()\w+\("
)
_NAME = re.compile(r"[^\W\d]\w*")
#: What asks whether something is there.
_ASKING = ("get", "pop", "setdefault", "getattr", "hasattr")
_BASES = re.compile(r"(?:@.*\n)*class \w+\(([^)]*)\)")


def _name(function: ast.expr) -> str:
    """The last part of what is called."""
    return str(getattr(function, "attr", getattr(function, "id", "")))


def elsewhere(sources: Iterable[bytes]) -> Elsewhere:
    """What is known of the code in some files."""
    texts = _Functions()
    variables: set[str] = set()
    asked: set[str] = set()
    definitions = _Texts()
    given: dict[str, str] = {}
    imported: dict[str, frozenset[str]] = {}
    tables: dict[str, list[str]] = {}
    sources = [*sources]
    for source in sources:
        tree = parsed(source)
        variables |= variables_of(tree)
        if b"attr(" in source:
            asked |= {name for node in ast.walk(tree) if (name := _asked(node))}
        asked |= {name.decode() for owner, name in _OF_OTHERS.findall(source) if owner not in _OWN}
        for owner, name, value in _GIVEN.findall(source):
            if owner not in _OWN:
                text = f"{given.get(name.decode(), '')}\n{value.decode(errors='replace')}"
                given[name.decode()] = text
        for name, path in _imported(tree.body):
            imported[name] = imported.get(name, frozenset()) | {path}
        for node in tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                definitions.add(node, source)
        for function in _functions(tree.body):
            texts.add(function, source)
        for name, names in _tables(tree):
            tables[name] = [] if name in tables else names
    tables = {n: names for n, names in tables.items() if names and not _changes(n, sources)}
    return Elsewhere(
        frozenset(variables),
        texts,
        frozenset(asked),
        definitions,
        given,
        imported,
        tables | _filled_by_decorators(sources),
        [*map(parsed, sources)],
    )


_OF_OTHERS = re.compile(rb"(\w+)[\])]*(?=\.([A-Za-z_]\w*))")
_GIVEN = re.compile(rb"^[ \t]*(\w+)\.([A-Za-z_]\w*) *= *(.+)", re.M)
#: What an attribute of these is, is none of a trial's.
_OWN = {b"self", b"cls", b"super", b"optim", b"torch", b"args", b"hparams", b"config", b"cfg"}


def _imported(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The names that the top level of a file imports, each with the path of what it is."""
    for line in body:
        if isinstance(line, ast.ImportFrom):
            # What is relative is of the tree.
            path = "." * line.level + (line.module or "")
            yield from ((each.asname or each.name, f"{path}.{each.name}") for each in line.names)
        elif isinstance(line, ast.Import):
            for each in line.names:
                yield (
                    each.asname or each.name.partition(".")[0],
                    (each.name if each.asname else each.name.partition(".")[0]),
                )
        elif isinstance(line, (ast.Try, ast.If)):
            handlers = [each for h in getattr(line, "handlers", ()) for each in h.body]
            yield from _imported([*line.body, *handlers, *line.orelse])


def _tables(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The dicts at the top of a file, each with the last parts of the names that are in it.

    So are functions that return entries of dicts, each with the names of these.
    """
    for line in tree.body:
        if isinstance(line, ast.FunctionDef) and not line.decorator_list:
            yield line.name, [*_dicts_returned(line)]
        value = line.value if isinstance(line, (ast.Assign, ast.AnnAssign)) else None
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        if not isinstance(value, ast.Dict) or len(targets) != 1:
            continue
        names = [getattr(each, "id", getattr(each, "attr", "")) for each in value.values]
        if isinstance(target := targets[0], ast.Name):
            yield target.id, names if all(names) else []


def _dicts_returned(function: ast.FunctionDef) -> Iterator[str]:
    """The dicts of which a function returns an entry; nothing if it may return something else."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    owners = [each.value for each in returned if isinstance(each, ast.Subscript)]
    names = [each.id for each in owners if isinstance(each, ast.Name)]
    yield from names if len(names) == len(returned) else ()


def _filled_by_decorators(sources: Sequence[bytes]) -> dict[str, list[str]]:
    """The dicts that one decorator fills, each with the names of the classes below it."""
    lines = [line for source in sources for line in parsed(source).body]
    functions = [line for line in lines if isinstance(line, ast.FunctionDef)]
    tables = {each.name: table for each in functions if (table := _filled(each))}
    found: dict[str, list[str]] = {}
    for node in lines:
        for each in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            func = each.func if isinstance(each, ast.Call) else each
            name = getattr(func, "attr", getattr(func, "id", ""))
            if isinstance(node, ast.ClassDef) and name in tables:
                found.setdefault(tables[name], []).append(node.name)
    return {table: names for table, names in found.items() if _changes(table, sources) == 1}


def _filled(decorator: ast.FunctionDef) -> str:
    """The dict into which a decorator puts the class that it is given; ``""`` for no such one."""
    inner = [*_functions(decorator.body)] or [decorator]
    given = {arg.arg for arg in inner[0].args.args}
    for line in ast.walk(inner[0]):
        target = line.targets[0] if isinstance(line, ast.Assign) else None
        is_given = isinstance(line, ast.Assign) and getattr(line.value, "id", "") in given
        if is_given and isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            return target.value.id
    return ""


def _changes(name: str, sources: Iterable[bytes]) -> int:
    """How often some code may put something into a dict."""
    changing = re.compile(rb"\b%b(\[[^\]\n]*\] *=[^=]|\.(update|setdefault)\()" % name.encode())
    return sum(len(changing.findall(source)) for source in sources)


def _asked(node: ast.AST) -> str:
    """The attribute that ``getattr(owner, "name")`` asks for; ``""`` for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return ""
    if node.func.id not in ("getattr", "hasattr", "attrgetter"):
        return ""
    texts = (each.value for each in node.args if isinstance(each, ast.Constant))
    return next((text for text in texts if isinstance(text, str)), "")


def parsed(source: bytes | str) -> ast.Module:
    """A file; an empty one where it cannot be read."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _functions(body: Iterable[ast.stmt]) -> Iterator[_Function]:
    return (line for line in body if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef)))


def variables_of(tree: ast.Module) -> set[str]:
    """The variables that a file sets at its top level."""
    lines = [line for line in tree.body if not isinstance(line, _DEFINITIONS)]
    found = (node for line in lines for node in ast.walk(line))
    return {n.id for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _text(node: _Function | ast.ClassDef, source: bytes) -> str:
    lines = _lines(source)
    start = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "".join(lines[start - 1 : node.end_lineno])


@lru_cache(maxsize=1024)
def _lines(source: bytes) -> list[str]:
    return source.decode("utf-8-sig", errors="replace").splitlines(keepends=True)


class _Texts(Mapping[str, str]):
    """Classes and functions by name, each with all others of its name."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[_Function | ast.ClassDef, bytes]]] = {}
        self._texts: dict[str, str] = {}

    def add(self, node: _Function | ast.ClassDef, source: bytes) -> None:
        """Note what a file defines."""
        self._known.setdefault(node.name, []).append((node, source))
        self._texts.pop(node.name, None)

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            found = self._known[name]
            self._texts[name] = "\n".join(_text(node, source) for node, source in found)
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class _Functions(Mapping[str, cst.FunctionDef]):
    """Functions by name, parsed when they are asked for; none of a name that several have."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Function, bytes] | None] = {}
        self._parsed: dict[str, cst.FunctionDef] = {}

    def add(self, function: _Function, source: bytes) -> None:
        """Note a function of a file."""
        is_new = function.name not in self._known
        self._known[function.name] = (function, source) if is_new else None

    def __getitem__(self, name: str) -> cst.FunctionDef:
        if name not in self._parsed:
            function, source = self._known[name] or (None, b"")
            if function is None:
                raise KeyError(name)
            made = cst.parse_module(_text(function, source)).body[0]
            self._parsed[name] = ensure_type(made, cst.FunctionDef)
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, found in self._known.items() if found is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_DEF = re.compile(r"^\s+(?:async )?def (\w+)\(", re.M)
_CLASS = re.compile(r"(?m)^class ")
_PROPERTY = re.compile(r"@(?:\w+\.)*\w*property\s+def (\w+)\(")


def of_samplers(path: Path, sources: Mapping[Path, bytes]) -> Elsewhere:
    """What the files that one imports, and these, have of samplers that may hear of epochs."""
    words = (b"set_epoch", b"DistributedSampler")
    have = {other for other, text in sources.items() if any(word in text for word in words)}
    found = [each for each in reached(path, sources) if each in have] if have else []
    return elsewhere(sources[each] for each in found)


def reached(start: Path, sources: Mapping[Path, bytes]) -> list[Path]:
    """The files that one imports, and these, with itself: of several of a name, the nearest."""
    known = {path: f"/{path.absolute().with_suffix('').as_posix()}/" for path in sources}
    named: dict[str, list[Path]] = {}
    for path in known:
        named.setdefault(path.parent.name if path.stem == "__init__" else path.stem, []).append(
            path
        )
    found = [start]
    for path in found:
        for name in _modules(sources[path]):
            ends = (f"/{name}/", f"/{name}/__init__/")
            far = {
                each: len(os.path.relpath(known[each], known[path]).split(os.sep))
                for each in named.get(name.rpartition("/")[2], ())
                if known[each].endswith(ends)
            }
            nearest = min(far.values(), default=0)
            found += [each for each in far if far[each] == nearest and each not in found]
    return found


@lru_cache(maxsize=4096)
def _modules(source: bytes) -> tuple[str, ...]:
    """What a file imports that may be another: modules as paths, without their suffix."""
    found: list[str] = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found += (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found += (module, *(f"{module}.{each.name}" for each in node.names))
    return tuple(name.strip(".").replace(".", "/") for name in dict.fromkeys(found) if name)


class Importers:
    """What the files of a project may take of each other.

    Args:
        sources: the files.
    """

    def __init__(self, sources: Mapping[Path, bytes]) -> None:
        self._sources = sources
        #: The files whose imports have a word in them.
        self._naming: dict[bytes, set[Path]] = {}
        for path, text in sources.items():
            lines = re.findall(rb"^\s*(?:from|import)\b.*", text, re.M)
            for word in re.findall(rb"[\w\x80-\xff]+", b" ".join(lines)):
                self._naming.setdefault(word, set()).add(path)

    def asked(self, path: Path) -> frozenset[str]:
        """The names that the files which import one may take of it; "*" if they may be any."""
        found: set[str] = set()
        for other in self._naming.get(path.stem.encode(), set()) - {path}:
            try:
                nodes = [*ast.walk(ast.parse(self._sources[other]))]
            except (SyntaxError, ValueError, RecursionError):
                return frozenset("*")
            imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
            found.update(alias.name for node in imports for alias in node.names)
            found.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
            # getattr() and patches of tests name what they ask for.
            texts = (node.value for node in nodes if isinstance(node, ast.Constant))
            found.update(str(text).rpartition(".")[2] for text in texts)
            found.add(path.stem)
        return frozenset(found)
