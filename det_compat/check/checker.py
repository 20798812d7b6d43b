"""Checks a tree: reads the files, infers what their names stand for, and reports."""

from collections.abc import Sequence
from pathlib import Path

from det_compat.analysis.generations import SCRIPT, TrialClass
from det_compat.analysis.inference import Inference
from det_compat.analysis.scopes import Name, Scope
from det_compat.analysis.source import Position, Source, Unreadable, printable, read, read_text
from det_compat.analysis.tree import is_script, list_files
from det_compat.catalog.status import Status, Support, different
from det_compat.catalog.support import home
from det_compat.check import configs, scripts
from det_compat.check.references import References, position_of
from det_compat.check.report import Finding, Report, Trial

_HOOK = "startup-hook.sh"
_HOOK_SUPPORT = different(
    "a cluster ran it before each trial: `det-compat fit --startup-hook` does, or run it once",
    "the-tasks-environment",
)


def check(paths: Sequence[str]) -> Report:
    """Find every reference to Determined in the files below ``paths``, without running them.

    What cannot be read is in the report's ``unreadable`` and ``dynamic``, never left out.
    """
    report = Report()
    listing = list_files(paths, follow_links=True)
    report.skipped.update(listing.skipped)
    report.unreadable.extend(
        Unreadable(Position(printable(path)), reason) for path, reason in listing.problems
    )
    code_files = []
    for path, root in listing.files:
        if path.name == _HOOK:
            report.files += 1
            report.findings.append(Finding(Position(printable(path)), _HOOK, _HOOK_SUPPORT))
        if configs.is_yaml(path):
            report.files += configs.check(path, report) or _check_script(path, report)
        elif is_script(path):
            report.files += _check_script(path, report)
        else:
            code_files.append((path, root))
    _check_code(code_files, report)
    report.findings.sort(key=lambda found: (found.position, found.name))
    report.trials.sort(key=lambda trial: trial.position)
    return report


def _check_code(files: list[tuple[Path, Path]], report: Report) -> None:
    sources = [read(path, root) for path, root in files]
    report.files += len(sources)
    inference = Inference(sources)
    for source in sources:
        report.unreadable.extend(source.unreadable)
        _add_commands(source, report)
    References(inference, report).add_all()
    for code in inference.codes:
        for scope in code.classes:
            if inference.hierarchy.is_trial(scope):
                _add_trial(scope, inference, report)
        for call in code.calls:
            values = inference.evaluate(call.node.func, call.scope)
            names = [value.path for value in values if isinstance(value, Name)]
            if any(home(name) == "det_compat.pytorch.init" for name in names):
                position = position_of(call.scope, call.node)
                report.trials.append(Trial(position, code.module.name, SCRIPT))


def _check_script(path: Path, report: Report) -> bool:
    """Whether a script could not be read, or has commands of Determined's."""
    source = read_text(path)
    report.unreadable.extend(source.unreadable)
    return _add_commands(source, report) or bool(source.unreadable)


def _add_commands(source: Source, report: Report) -> bool:
    file = printable(source.path)
    found = [
        Finding(Position(file, cell, line, column), name, support)
        for cell, text in source.shell
        for line, column, name, support in scripts.references(text)
    ]
    report.findings.extend(found)
    return bool(found)


def _add_trial(scope: Scope, inference: Inference, report: Report) -> None:
    trial = TrialClass(scope, inference.hierarchy)
    position = position_of(scope, scope.node)
    report.trials.append(Trial(position, scope.name, trial.description))
    problem = trial.problem
    if problem and trial.refused_base is None:
        status = Status.REFUSED if trial.is_known else Status.UNKNOWN
        support = Support(status, problem, "MIGRATION.md#older-generations")
        report.findings.append(Finding(position, scope.name, support))
