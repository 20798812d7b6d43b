"""The checks of files that were rewritten, and the comments that they leave."""

import ast
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from det_compat.migrate.results import FileResult
from det_compat.migrate.review import arguments, attributes, hooks, imports, names, trainers
from det_compat.migrate.review.displaced import displaced
from det_compat.migrate.review.files import of_determined
from det_compat.migrate.review.local_imports import left_out
from det_compat.migrate.review.project import Code, Finding, Text, starts
from det_compat.migrate.review.stand_ins import stand_ins
from det_compat.migrate.tree.marks import MARK, comment

_Results = Sequence[FileResult]


def reviewed(
    results: _Results, *, is_lightning: bool, but: Collection[Path] = ()
) -> tuple[list[FileResult], dict[Path, Path]]:
    """The files with a comment above whatever is not shown to be right.

    Args:
        results: of all files that were read.
        is_lightning: whether they were rewritten for Lightning.
        but: those in which there is nothing to rewrite.

    Returns:
        The files, and those that were not read and still use Determined, each with one that
        imports it.
    """
    before = Code({r.path: text for r in results if (text := _text(r.path, r.before)) is not None})
    after = Code({r.path: text for r in results if (text := _after(r, before)) is not None})
    if is_lightning:
        kept = [*map(id, results)]
        # It goes by lines, of which imports may leave some out.
        results = trainers.with_trainers(results, but, after)
        results = imports.without_unneeded(results, but, after)
        new = [result for result in results if id(result) not in kept]
        made = {r.path: text for r in new if (text := _text(r.path, r.after)) is not None}
        after = Code(after.files | made)
    if not any(result.is_changed for result in results):
        return [*results], left_out(after)
    reviewed_ones = []
    trials = {name for result in results for name in result.trials}
    for result in results:
        text = after.files.get(result.path)
        found: list[Finding] = []
        if text is not None and not result.problem and result.path not in but:
            found = [*_findings(before, after, text, result, is_lightning)]
            if is_lightning:
                found += [*arguments.misfits(after, text, trials)] or stand_ins(text, trials)
        reviewed_ones.append(_with_comments(result, text, found) if text and found else result)
    return reviewed_ones, left_out(after)


def _findings(
    before: Code, after: Code, text: Text, result: FileResult, is_lightning: bool
) -> Iterator[Finding]:
    if result.is_changed:
        yield from names.undefined(before.files[text.path], text)
        yield from names.too_early(before.files[text.path], text)
    yield from names.not_there(before, after, text)
    if is_lightning:
        yield from imports.still_there(text)
        yield from attributes.gone(before, after, text)
        yield from attributes.overridden(after, text)
        yield from of_determined(text)
        yield from trainers.never_fitted(after, text)
        yield from hooks.called_by_hand(after, text)
        if result.is_changed:
            yield from attributes.of_context(after, text)
            yield from attributes.not_set(before, after, text)
            yield from trainers.too_early(after, text)
            yield from displaced(after, text)
            yield from hooks.idle(after, text)
            yield from hooks.hidden(after, text)
            yield from hooks.restored_too_early(after, text)
        yield from arguments.refused(after, text, result.trials)
        yield from arguments.needed_flags(before, after, text, result.trials)


def _text(path: Path, source: bytes) -> Text | None:
    try:
        return Text(path, source, ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _after(result: FileResult, before: Code) -> Text | None:
    return _text(result.path, result.after) if result.is_changed else before.files.get(result.path)


def _with_comments(result: FileResult, text: Text, found: Sequence[Finding]) -> FileResult:
    """The file with each finding above the statement that it is in, and once in each."""
    lines = result.after.decode(errors="replace").splitlines(keepends=True)
    begins = starts(text)
    above: dict[int, dict[str, None]] = {}
    for each in found:
        start = max((line for line in begins if line <= each.line), default=1)
        said = f"# {each.message}" if each.is_note else comment(each.message)
        above.setdefault(start, {})[said] = None
    for start in sorted(above, reverse=True):
        line = lines[start - 1]
        if start > 1 and MARK in lines[start - 2]:
            # Somebody has to look at this statement already.
            continue
        indent = line[: len(line) - len(line.lstrip())]
        new = [f"{indent}{each}\n" for each in above[start]]
        lines[start - 1 : start - 1] = [each for each in new if each != lines[start - 2]]
    return FileResult(result.path, result.before, "".join(lines).encode(), trials=result.trials)
