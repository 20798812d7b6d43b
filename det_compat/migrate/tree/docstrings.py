"""What docstrings say of parameters and results that a rewritten method does not have any more."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, comments_of

#: What a method was called before it was rewritten, by what it is called now.
Renamed = Mapping[str, Sequence[str]]

_Block = TypeVar("_Block", bound=cst.ClassDef | cst.FunctionDef | cst.Module)


def following(tree: cst.Module, before: cst.Module, renamed: Renamed) -> cst.Module:
    """The file, whose docstrings say no more of what is Determined's, or has gone.

    Args:
        tree: what the file has become.
        before: the file as it was.
        renamed: the names that methods had before, where they have other ones.
    """
    known = {node.name.value: syntax.methods(node) for node in syntax.find(before, cst.ClassDef)}

    def followed(node: cst.ClassDef) -> cst.ClassDef:
        was = known.get(node.name.value, {})

        def made(line: cst.BaseStatement) -> cst.BaseStatement:
            if not isinstance(line, cst.FunctionDef):
                return line
            name = line.name.value
            old = next((was[each] for each in (name, *renamed.get(name, ())) if each in was), None)
            if old is None:
                return line
            returns = name == old.name.value or _returned(line) == _returned(old)
            return without_entries(line, _parameters(old) - _parameters(line), returns=returns)

        changed = syntax.with_body(node, [made(line) for line in syntax.body_of(node)])
        old, new = was.get("__init__"), syntax.methods(node).get("__init__")
        gone = _parameters(old) - _parameters(new) if old and new else set()
        # What __init__ takes is often said of the class.
        return without_entries(changed, gone, returns=True)

    tree = syntax.each(tree, cst.ClassDef, followed)
    code = {name.value for name in syntax.find(tree, cst.Name)}
    new = {was: name for name, every in renamed.items() for was in every[-1:] if was not in code}
    gone = "|".join(name for name in _GONE if name not in code)

    def renewed(node: _Block) -> _Block:
        return _with_docstring(node, lambda text: _renewed(text, gone, new))

    tree = syntax.each(tree, cst.FunctionDef, renewed)
    return renewed(syntax.each(tree, cst.ClassDef, renewed))


def of_loaders(tree: cst.Module) -> cst.Module:
    """A file without trials, whose docstrings say no more that loaders are Determined's."""
    return syntax.each(
        tree,
        cst.FunctionDef,
        lambda node: _with_docstring(node, lambda text: _LOADERS.sub("", text)),
    )


#: What a trial calls or has that a module does not.
_GONE = ("wrap_model", "wrap_optimizer", "wrap_lr_scheduler", "evaluate_full_dataset")
_PLATFORM = re.compile(
    r"\b(the )?(new )?Determined('s)? PyTorch (Trial |training |Lightning Adapter\s+)?"
    r"(APIs?|interface)\b"
)
_API = re.compile(r"\b(?<!Determined )(?<!Determined's )[Tt]he PyTorch API\b")
#: What is said of objects that a trial wraps, and of what Determined did, which no module does.
_OLD = re.compile(
    r"\bwrapped\s+in\s+(the|your|a)\s+trial\b|\bLightningAdapter\b|\bstep_every_(batch|epoch)\b"
    r"|\b[Ii]n\s+the\s+new\s+interface\b|\bDetermined('s)?\s+(\w+\s+)?(control\s+loop|will\s+handle)\b"
    r"|\bDetermined\s+(LR\s*)?[Ss]cheduler(\s+object)?\b"
)
_TRIAL = re.compile(r"\bPyTorchTrial\b|\b(Determined|PEDL)('s)? ([Pp]y[Tt]orch )?[Tt]rial\b")
#: Whose the loaders were, which are torch's now.
_LOADERS = re.compile(r"\b(?:Determined|PEDL)(?:'s)? (?=DataLoaders?\b)")
#: How a sentence begins that says more of the one before.
_GOING_ON = re.compile(r"By\s+doing\s+so\b|If\s+both\b|This\s+way\b|Otherwise\b")
#: A sentence, with the blanks before it or behind it.
_SENTENCE = re.compile(
    r"(?m)(?P<indent>^ *)?(?P<text>[A-Z`](?:(?!\n\s*\n)[\s\S])*?[.!?])(?P<blank> *\n| +|(?=\s|$))"
)


def _renewed(text: str, gone: str, new: Mapping[str, str]) -> str:
    """A docstring without sentences that name what is ``gone``, and with ``new`` names."""

    # Where the last sentence that has gone ended.
    end = -1

    def kept(found: re.Match[str]) -> str:
        nonlocal end
        is_gone = gone and re.search(rf"\b({gone})\b", found["text"])
        goes_on = found.start() == end and _GOING_ON.match(found["text"])
        if not is_gone and not goes_on and not _OLD.search(found["text"]):
            return found[0]
        end = found.end()
        # What follows on its last line stands where it began.
        is_whole = found["indent"] is not None and found["blank"].endswith("\n")
        return "" if is_whole else found["indent"] or found["blank"].lstrip(" ")

    left = _SENTENCE.sub(kept, text)
    if left != text:
        left = re.sub(r" +(?=\n)", "", left)
        # No blank lines around what has gone, and none at the beginning or the end.
        text = re.sub(r"^\n\n+|\n\n+(?= *$)", "\n", re.sub(r"\n{3,}", "\n\n", left))
    if _PLATFORM.search(text):
        text = _API.sub("Lightning", text)
    text = _TRIAL.sub("LightningModule", _PLATFORM.sub("PyTorch Lightning", text))
    text = _LOADERS.sub("", text)
    for was, name in new.items():
        text = re.sub(rf"\b{was}\b", name, text)
    return text


def _parameters(method: cst.FunctionDef) -> set[str]:
    return {param.name.value for param in syntax.find(method.params, cst.Param)}


def _returned(method: cst.FunctionDef) -> set[str]:
    return {syntax.code(found) for found in syntax.find(method.body, cst.Return)}


_TRIPLE = re.compile(r"""([rRuU]?(?P<quotes>\"{3}|'{3}))(.*)(?P=quotes)""", re.DOTALL)


def without_entries(node: _Block, gone: Collection[str], *, returns: bool) -> _Block:
    """A class or method whose docstring says nothing of parameters and results that are gone."""
    if returns and not gone:
        return node
    return _with_docstring(node, lambda text: without(text, gone, returns=returns))


def _with_docstring(node: _Block, change: Callable[[str], str]) -> _Block:
    """A class, method or file whose docstring has another text; none if nothing is left of it."""
    body = [*node.body] if isinstance(node, cst.Module) else [*syntax.body_of(node)]
    if not syntax.has_docstring(body):
        return node
    small = syntax.simple(body[0])
    value = small.value if isinstance(small, cst.Expr) else None
    found = _TRIPLE.fullmatch(value.value) if isinstance(value, cst.SimpleString) else None
    if found is None or not isinstance(value, cst.SimpleString):
        return node
    text = change(found[3])
    if text == found[3]:
        return node
    if text.strip() or len(body) == 1 or isinstance(node, cst.Module):
        made = value.with_changes(value=f"{found[1]}{text}{found['quotes']}")
        return syntax.with_node(node, value, made)
    return syntax.with_body(node, [above(body[1], comments_of(body[0])), *body[2:]])


def without(text: str, gone: Collection[str], *, returns: bool) -> str:
    """A docstring without its entries of parameters that are ``gone``.

    If it ``returns`` no longer what it did, what is said of that goes as well. Known is Google's
    style.
    """
    if not returns:
        text = _RETURNED.sub("log them", text)
    lines = text.split("\n")
    for start, end in reversed([*_outdated(lines, gone, returns=returns)]):
        _cut(lines, start, end)
        if len(lines) == 2 and lines[0].strip()[-1:] not in ("", '"', "'", "\\"):
            # What is left fits on the line of its quotes.
            lines[1:] = [line for line in lines[1:] if line.strip()]
    return "\n".join(lines)


_RETURNED = re.compile(r"\breturn (them|these) as a dict(ionary)?\b")
_GOOGLES = re.compile(r"\s*(args|arguments|params|parameters|returns?)\s*:(.*)", re.IGNORECASE)
#: ``name: text``, ``name (type): text``, ``- name - text`` and the like.
_ENTRY = re.compile(r"\s*([-*]\s+)?`*\*{0,2}(?P<name>\w+)`*\s*(\(.*?\))?\s*(:|--?)(\s|$)")


def _outdated(
    lines: Sequence[str], gone: Collection[str], *, returns: bool
) -> Iterator[tuple[int, int]]:
    """Where what is outdated begins and ends, in the order of the text."""
    at = 0
    while at < len(lines):
        start, at = at, at + 1
        title = _GOOGLES.fullmatch(lines[start])
        if title is None:
            continue
        first, at = at, _end(lines, start, at)
        if title[1].lower().startswith("return"):
            is_empty = at == first and not title[2].strip()
            if not returns and not is_empty and _is_end(lines, at):
                yield start, at
        elif not title[2].strip():
            entries = [*_entries(lines, first, at)]
            old = [(begin, end) for name, begin, end in entries if name in gone]
            yield from [(start, at)] if old and len(old) == len(entries) else old


def _entries(lines: Sequence[str], first: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The name of each entry of a section, and where it is; ``""`` where its form is unclear."""
    starts = [i for i in range(first, end) if lines[i].strip()]
    starts = [i for i in starts if _indent(lines, i) == _indent(lines, starts[0])]
    for start, after in zip(starts, [*starts, end][1:], strict=True):
        match = _ENTRY.match(lines[start])
        # It may go on there, or another entry may begin.
        is_clear = _ENTRY.match(lines[after]) if after < end else _is_end(lines, end)
        yield match["name"] if match and is_clear else "", start, _end(lines, start, start + 1)


def _indent(lines: Sequence[str], at: int) -> int:
    """How far a line is indented; the first one, behind the quotes, as the docstring is."""
    # Where the quotes stand at its end tells that, too.
    known = [line for line in lines[1:-1] if line.strip()] + [*lines[1:]][-1:]
    widths = [len(line) - len(line.lstrip()) for line in ([lines[at]] if at else known)]
    return min(widths, default=0)


def _end(lines: Sequence[str], start: int, at: int) -> int:
    """The end of what is indented further than the line ``start``, from the line ``at`` on."""
    inner = [i for i in range(at, len(lines)) if lines[i].strip()]
    out = next((i for i in inner if _indent(lines, i) <= _indent(lines, start)), len(lines))
    return max((i + 1 for i in inner if i < out), default=at)


def _is_end(lines: Sequence[str], at: int) -> bool:
    """Whether a line is blank, or begins something by itself; it may be wrapped text else."""
    return at == len(lines) or not lines[at].strip() or _BEGINNING.match(lines[at]) is not None


_BEGINNING = re.compile(r"\s*([:@]\w|\w[\w ]*:\s*$|\w+\s*:\s)")


def _cut(lines: list[str], start: int, end: int) -> None:
    """Take lines away, and one of the blank lines above and below them."""
    del lines[start:end]
    while start > 1 and not lines[start - 1].strip() and not "".join(lines[start:][:1]).strip():
        start -= 1
        del lines[start]
    is_first = start and lines[start - 1].rstrip().endswith(":")
    if is_first or not "".join(lines[:start]).strip():
        # The text, or the section, begins with what was below.
        while len(lines) > start + 1 and not lines[start].strip():
            del lines[start]
    if not start:
        lines[:1] = [line.lstrip() for line in lines[:1]]


def with_first(method: cst.FunctionDef, text: str) -> cst.FunctionDef:
    """A method that begins with these statements, but for its docstring."""
    lines = syntax.statements(text)
    return syntax.with_body(method, syntax.below_docstring(syntax.body_of(method), lines))
