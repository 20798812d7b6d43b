"""Migrates the files below some paths, each as far as it can be."""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from det_compat.analysis.expressions import walked
from det_compat.analysis.groups import groups
from det_compat.analysis.source import Source, parsed, read
from det_compat.analysis.tree import list_files
from det_compat.migrate import line_length
from det_compat.migrate.formatting import formatted
from det_compat.migrate.from_adapter.target import AdaptedModules, Adapters
from det_compat.migrate.package import PACKAGES, in_package
from det_compat.migrate.processes import in_processes, without_collector
from det_compat.migrate.refused import with_what_refused_ones_use
from det_compat.migrate.results import FileResult, Migration
from det_compat.migrate.review.local_imports import named
from det_compat.migrate.review.notebooks import using
from det_compat.migrate.review.nothing_to_migrate import set_aside
from det_compat.migrate.review.process_counts import ProcessCounts
from det_compat.migrate.review.review import reviewed
from det_compat.migrate.target import Problems, Target
from det_compat.migrate.to_context.created import Created
from det_compat.migrate.to_context.old_hooks import OldHooks
from det_compat.migrate.to_context.pedl_left import PedlLeft
from det_compat.migrate.to_context.pedl_names import PedlNames
from det_compat.migrate.to_context.target import Context
from det_compat.migrate.to_det_compat import DetCompat
from det_compat.migrate.to_lightning.context.quoted import Unquoted
from det_compat.migrate.to_lightning.script_contexts.factories import Factories
from det_compat.migrate.to_lightning.taken.asked import AskedContexts
from det_compat.migrate.to_lightning.taken.devices import OwnDevices
from det_compat.migrate.to_lightning.taken.own_parameters import OwnParameters
from det_compat.migrate.to_lightning.target import Lightning
from det_compat.migrate.tree.facts import Analysis
from det_compat.migrate.tree.imports import without_unused

#: The steps to each target, in order: each reads what the one before has written.
#:
#: PEDL's names come first, since an older trial is known by Determined's; Lightning is reached
#: through the context API, so that there is one way to it.
TARGETS: dict[str, tuple[type[Target], ...]] = {
    "det_compat": (DetCompat,),
    # Lightning's callbacks are made of those that older trials had.
    "context": (PedlNames, OldHooks, Context, Created, PedlLeft),
    # What an adapter trained is a trial in between, and becomes a module with the others.
    # Scripts tell modules last what these have asked for by then.
    "lightning": (
        *(Unquoted, PedlNames, Context, Created, AskedContexts, OwnDevices, OwnParameters),
        *(Factories, Adapters, Lightning, AdaptedModules, ProcessCounts),
    ),
}

_Made: TypeAlias = tuple[dict[Path, FileResult], dict[Path, str]]


@without_collector()
def migrate(
    paths: Sequence[str], to: str, package: str = PACKAGES[0], processes: int = 1
) -> Migration:
    """Rewrite the files below ``paths`` for a target, one of TARGETS; nothing is written.

    Trials of older generations go to Lightning through the context API. ``package`` is the one
    that the code has Lightning from, one of PACKAGES. ``processes`` is how many may share the work
    where there is much of it.
    """
    asked = named(paths, is_lightning=to == "lightning")
    listing = list_files(asked.paths)
    for path, reason in listing.problems:
        if str(path) in {str(Path(given)) for given in asked.paths}:
            raise OSError(f"{path}: {reason}")
    read_ones = (file for file in listing.files if file[0].suffix in (".py", ".ipynb"))
    found = {path: read(path, root) for path, root in read_ones}
    aside = set_aside(found) if to == "lightning" else {}
    sources = {path: source for path, source in found.items() if path.suffix == ".py"}
    texts = {path: path.read_bytes() for path in sources if not sources[path].unreadable}
    results = {path: FileResult(path, text, text) for path, text in texts.items()}
    unreadable = {
        path: source.unreadable[0].reason
        for path, source in sources.items()
        if source.unreadable and path not in aside
    }
    # What is found out of all files together holds for those that have to do with one another.
    grouped = groups([sources[path] for path in texts])
    jobs = [{path: texts[path] for path in group if path not in aside} for group in grouped]
    jobs = [job for job in jobs if any(map(_USES.search, job.values()))]
    sizes = [sum(map(len, job.values())) for job in jobs]
    made: Iterable[_Made]
    work = partial(_rewritten, to, _imported_names(sources.values()))
    if 2 * max(sizes, default=0) > sum(sizes):
        # Most is one project, whose files share what each step has found out of all of them.
        made = (work(sources, processes, job) for job in jobs)
    else:
        made = in_processes(partial(work, sources, 1), jobs, _useful(processes, sum(sizes)))
    for rewritten, more in made:
        results |= rewritten
        unreadable |= more
    problems = [*unreadable.items(), *listing.problems]
    failed = {path: FileResult(path, b"", b"", why) for path, why in problems}
    migrated = {path: r for path, r in results.items() if r.problem or path not in failed}
    files, left_out = _reviewed([*(failed | migrated).values()], grouped, to, aside)
    files = [formatted(in_package(file, package)) for file in files]
    others = (found[path] for path in found if path not in sources and path not in aside)
    # Trials of the context API still use Determined, and so may whatever they import.
    left_out = {} if to == "context" else left_out
    changed = {file.path for file in files if file.is_changed}
    reasons = {
        path: f"{by.name} imports it, and it uses Determined" for path, by in left_out.items()
    }
    reasons |= {
        path: f"it leads to {start.name}, and uses Determined"
        for path, start in asked.importers.items()
        if start in changed
    }
    copies = listing.skipped[".ipynb_checkpoints"]
    found_with = {p: by for p, by in asked.companions.items() if p in changed}
    return Migration(files, using(others, files), reasons, aside, copies, found_with, asked.folders)


def _useful(processes: int, size: int) -> int:
    """How many processes are worth their while for so many bytes."""
    return min(processes, size // _BYTES_OF_A_PROCESS)


def _rewritten(
    to: str,
    exported: dict[str, set[str]],
    sources: dict[Path, Source],
    processes: int,
    texts: dict[Path, bytes],
) -> _Made:
    """The files of a group as the steps to a target leave them, and why some cannot be read."""
    analyses = _Analyses(sources, texts)
    made = {path: FileResult(path, text, text) for path, text in texts.items()}
    processes = _useful(processes, sum(map(len, texts.values())))
    with without_collector():
        for step in TARGETS[to]:
            made, is_last = _step(step, analyses, made, processes)
            if is_last:
                break
        else:
            made = with_what_refused_ones_use(made)
            tidied = in_processes(partial(_tidied, exported), [*made.values()], processes)
            made = {result.path: result for result in tidied}
    # The analysis may have found more that cannot be read.
    return made, {p: sources[p].unreadable[0].reason for p in texts if sources[p].unreadable}


def _reviewed(
    files: list[FileResult], grouped: Iterable[list[Path]], to: str, aside: dict[Path, str]
) -> tuple[list[FileResult], dict[Path, Path]]:
    """The files as a review leaves them, group by group, and those that were not read."""
    found = {file.path: file for file in files}
    left_out: dict[Path, Path] = {}
    for group in grouped:
        results, problems = [found[path] for path in group if path in found], Problems()
        with problems.of(*group), without_collector():
            results, more = reviewed(results, is_lightning=to == "lightning", but=aside)
            left_out |= more
        if problems:
            results = [each if each.problem else _failed(each, problems) for each in results]
        found |= {each.path: each for each in results}
    # What is read with another group is not left out of this one.
    there = {path.absolute() for path in found}
    return [*found.values()], {p: by for p, by in left_out.items() if p.absolute() not in there}


#: Without one of these names there is nothing to migrate.
_USES = re.compile(rb"determined|det_compat|pedl|model_hub")
#: How much text is worth a process of its own.
_BYTES_OF_A_PROCESS = 20_000


def _imported_names(sources: Iterable[Source]) -> dict[str, set[str]]:
    """The names that the files import from one another, by the last part of the module's name."""
    sources = [*sources]
    found: dict[str, set[str]] = {source.path.stem: set() for source in sources}
    nodes = (node for source in sources for tree in source.trees for node in walked(tree))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").rpartition(".")[2]
            found.setdefault(module, set()).update(alias.name for alias in node.names)
    return found


def _tidied(exported: dict[str, set[str]], result: FileResult) -> FileResult:
    """The file without what rewriting has left over: imports without a use, and long lines."""
    if not result.is_changed:
        return result
    problems = Problems()
    with problems.of(result.path):
        asked = exported.get(result.path.stem, set())
        is_open = result.path.name == "__init__.py" or "*" in asked
        after = result.after if is_open else without_unused(result.after, result.before, asked)
        return replace(result, after=line_length.apply(after, result.before))
    # The lines are long, which is no reason to lose what has been migrated.
    return result


class _Analyses:
    """The analysis that each step needs: a new one only where a step has changed something.

    What has not changed is parsed once.
    """

    def __init__(self, sources: dict[Path, Source], texts: dict[Path, bytes]) -> None:
        self._sources = {path: sources[path] for path in texts}
        self._texts = texts
        self._analysis: Analysis | None = None

    def of(self, texts: dict[Path, bytes]) -> Analysis:
        """The analysis of the files, given what is in them by now."""
        if self._analysis is None or texts != self._texts:
            self._sources = {path: self._source(path, text) for path, text in texts.items()}
            self._texts = texts
            self._analysis = Analysis(self._sources.values())
        return self._analysis

    def _source(self, path: Path, text: bytes) -> Source:
        source = self._sources[path]
        return source if text == self._texts[path] else parsed(path, source.root, text)


def _step(
    step: type[Target], analyses: _Analyses, results: dict[Path, FileResult], processes: int
) -> tuple[dict[Path, FileResult], bool]:
    """The files after a step, and whether none follows it."""
    texts = {path: result.after for path, result in results.items() if not result.problem}
    if not step.is_needed(texts.values()):
        return results, False
    problems = Problems()
    # What is found out of all files together keeps all of them as they are where it fails.
    with problems.of(*texts):
        target = step(analyses.of(texts), texts, problems)
        made = in_processes(partial(_apply, target), [*results.values()], processes)
        results = {result.path: result for result in made}
        kept = target.kept_whole({path: result.before for path, result in results.items()})
        if kept:
            results = {
                path: result if result.problem else replace(result, after=kept[path], trials=())
                for path, result in results.items()
            }
        return results, bool(kept)
    failed = {p: _failed(r, problems) if p in texts else r for p, r in results.items()}
    return failed, False


def _failed(result: FileResult, problems: Problems) -> FileResult:
    """A file as it was, with what kept it so."""
    found = problems[result.path]
    before = result.before
    return FileResult(result.path, before, before, found.reason, traceback=found.traceback)


def _apply(target: Target, result: FileResult) -> FileResult:
    if result.problem:
        return result
    path, problems, after = result.path, target.problems, None
    with problems.of(path):
        after = None if path in problems else target.migrated(path)
        if after is not None:
            compile(after, str(path), "exec")
    if path in problems:
        return _failed(result, problems)
    if after is None:
        return result
    trials = (*result.trials, *target.trials(path))
    return FileResult(path, result.before, after, trials=tuple(dict.fromkeys(trials)))
