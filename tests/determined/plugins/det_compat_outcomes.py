"""A plugin of pytest: aliases ``determined`` if told to, and notes how each test ended."""

from __future__ import annotations

import json
import os
from typing import Any

if os.environ.get("DET_COMPAT_ALIASES") == "1":
    import det_compat

    det_compat.alias_determined()


def pytest_collection(session: Any) -> None:
    names = ("DET_COMPAT_ALIASES", "DET_COMPAT_CONTROLLER")
    if all(os.environ.get(name) == "1" for name in names):
        from det_compat_controller import install

        install()


def _note(test: str, outcome: str, why: str) -> None:
    with open(os.environ["DET_COMPAT_OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps([test, outcome, why]) + "\n")


def _why(report: Any) -> str:
    lines = [line for line in str(report.longrepr or "").splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[0][:300] if report.outcome != "passed" else ""


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        _note(report.nodeid, report.outcome, _why(report))


def pytest_collectreport(report: Any) -> None:
    if report.outcome == "failed":
        _note(report.nodeid, "failed", _why(report))
