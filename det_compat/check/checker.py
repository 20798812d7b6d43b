"""Checks a tree: reads the files, infers what their names stand for, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from det_compat.check import configs, generations
from det_compat.check.collect import collect
from det_compat.check.findings import Finding, Report, Status, Support, Trial, Unreadable, start_of
from det_compat.check.generations import TrialClass
from det_compat.check.inference import Inference
from det_compat.check.references import References, place_of
from det_compat.check.relevant import is_relevant
from det_compat.check.scopes import Scope
from det_compat.check.source import read
from det_compat.check.support import home
from det_compat.check.tree import list_files
from det_compat.check.values import Name


def check(paths: Sequence[str]) -> Report:
    """Find every reference to Determined in the files below ``paths``, without running them.

    What cannot be read is in the report's ``unreadable`` and ``dynamic``, never left out.
    """
    report = Report()
    listing = list_files(paths)
    report.skipped.update(listing.skipped)
    report.unreadable.extend(
        Unreadable(start_of(path), reason) for path, reason in listing.problems
    )
    code_files = [(path, root) for path, root in listing.files if not configs.is_yaml(path)]
    _check_code(code_files, report)
    for path, _ in listing.files:
        if configs.is_yaml(path):
            report.files += configs.check(path, report)
    report.findings.sort(key=lambda found: (found.place, found.name))
    return report


def _check_code(files: list[tuple[Path, Path]], report: Report) -> None:
    sources = [read(path, root) for path, root in files]
    report.files += len(sources)
    for source in sources:
        report.unreadable.extend(source.unreadable)
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


def _add_trial(scope: Scope, inference: Inference, report: Report) -> None:
    trial = TrialClass(scope, inference.hierarchy)
    place = place_of(scope, scope.node)
    report.trials.append(Trial(place, scope.name, generations.described(trial)))
    problem = trial.problem
    if problem and trial.refused_base is None:
        status = Status.REFUSED if trial.is_known else Status.UNKNOWN
        support = Support(status, problem, "MIGRATION.md#older-generations")
        report.findings.append(Finding(place, scope.name, support))
