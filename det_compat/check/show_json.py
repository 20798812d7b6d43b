"""A report as JSON."""

from __future__ import annotations

import json
from typing import Any

from det_compat.check.findings import Place, Report, Status, Unreadable


def show(report: Report) -> str:
    """One JSON object; lines and columns count from 1, ``cell`` is there in notebooks only."""
    return json.dumps(
        {
            "works": report.works,
            "files": report.files,
            "counts": {
                **{status.value: len(report.with_status(status)) for status in Status},
                "unreadable": len(report.unreadable),
                "dynamic": len(report.dynamic),
            },
            "findings": [
                {
                    **_place(found.place),
                    "name": found.name,
                    "status": found.support.status.value,
                    "note": found.support.note,
                    "link": found.support.link,
                }
                for found in report.findings
            ],
            "trials": [
                {**_place(trial.place), "name": trial.name, "generation": trial.generation}
                for trial in report.trials
            ],
            "unreadable": [_problem(problem) for problem in report.unreadable],
            "dynamic": [_problem(problem) for problem in report.dynamic],
            "skipped": report.skipped,
        },
        indent=2,
    )


def _place(place: Place) -> dict[str, Any]:
    cell = {"cell": place.cell} if place.cell else {}
    return {"file": place.file, **cell, "line": place.line, "column": place.column}


def _problem(problem: Unreadable) -> dict[str, Any]:
    return {**_place(problem.place), "reason": problem.reason}
