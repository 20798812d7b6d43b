"""Checks a tree: reads the files, infers what their names stand for, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from det_compat.analysis import generations
from det_compat.analysis.collect import collect
from det_compat.analysis.generations import TrialClass
from det_compat.analysis.inference import Inference
from det_compat.analysis.relevant import is_relevant
from det_compat.analysis.scopes import Scope
from det_compat.analysis.source import Source, read, read_text
from det_compat.analysis.values import Name
from det_compat.catalog.support import home
from det_compat.check import configs
from det_compat.check.findings import (
    Finding,
    Place,
    Report,
    Status,
    Support,
    Trial,
    Unreadable,
    printable,
    start_of,
)
from det_compat.check.references import References, place_of
from det_compat.check.scripts import is_script, references
from det_compat.check.tree import list_files


def check(paths: Sequence[str]) -> Report:
    """Find every reference to Determined in the files below ``paths``, without running them.

    What cannot be read is in the report's ``unreadable`` and ``dynamic``, never left out.
    """
    report = Report()
    listing = list_files(paths, follow_links=True)
    report.skipped.update(listing.skipped)
    report.unreadable.extend(
        Unreadable(start_of(path), reason) for path, reason in listing.problems
    )
    code_files = []
    for path, root in listing.files:
        if configs.is_yaml(path):
            report.files += configs.check(path, report) or _check_script(path, report)
        elif is_script(path):
            report.files += _check_script(path, report)
        else:
            code_files.append((path, root))
    _check_code(code_files, report)
    report.findings.sort(key=lambda found: (found.place, found.name))
    return report


def _check_code(files: list[tuple[Path, Path]], report: Report) -> None:
    sources = [read(path, root) for path, root in files]
    report.files += len(sources)
    for source in sources:
        report.unreadable.extend(source.unreadable)
        _add_commands(source, report)
    inference = Inference([collect(source) for source in sources if is_relevant(source)])
    References(inference, report).add_all()
    for code in inference.codes:
        for scope in code.classes:
            if inference.hierarchy.is_trial(scope):
                _add_trial(scope, inference, report)
        for call in code.calls:
            values = inference.evaluate(call.node.func, call.scope)
            names = [value.path for value in values if isinstance(value, Name)]
            if any(home(name) == "det_compat.pytorch.init" for name in names):
                place = place_of(call.scope, call.node)
                report.trials.append(Trial(place, code.module.name, generations.SCRIPT))
    report.trials.sort(key=lambda trial: trial.place)


def _check_script(path: Path, report: Report) -> bool:
    """Whether a script could not be read, or has commands of Determined's."""
    source = read_text(path)
    report.unreadable.extend(source.unreadable)
    return _add_commands(source, report) or bool(source.unreadable)


def _add_commands(source: Source, report: Report) -> bool:
    found = [
        Finding(_place_in(text, offset, cell, source), name, support)
        for cell, text in source.shell
        for offset, name, support in references(text)
    ]
    report.findings.extend(found)
    return bool(found)


def _place_in(text: str, offset: int, cell: int, source: Source) -> Place:
    before = text[:offset]
    line = before.count("\n") + 1
    return Place(printable(source.path), cell, line, offset - before.rfind("\n"))


def _add_trial(scope: Scope, inference: Inference, report: Report) -> None:
    trial = TrialClass(scope, inference.hierarchy)
    place = place_of(scope, scope.node)
    report.trials.append(Trial(place, scope.name, generations.described(trial)))
    problem = trial.problem
    if problem and trial.refused_base is None:
        status = Status.REFUSED if trial.is_known else Status.UNKNOWN
        support = Support(status, problem, "MIGRATION.md#older-generations")
        report.findings.append(Finding(place, scope.name, support))
