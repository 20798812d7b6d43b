"""Advice never names a package that a stranger could publish."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from det_compat.shared.extras import how_to_install, too_old

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("noted", "command"),
    [
        (None, "pip install '.[cli]' in a checkout of det_compat"),
        ({"url": "file:///a/b", "dir_info": {"editable": True}}, "pip install -e '/a/b[cli]'"),
        ({"url": "file:///a%20b", "dir_info": {}}, "pip install '/a b[cli]'"),
        (
            {"url": "https://x/d.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'det-compat[cli] @ git+https://x/d.git@abc'",
        ),
        (
            {"url": "file:///d.whl", "archive_info": {}},
            "pip install 'det-compat[cli] @ file:///d.whl'",
        ),
    ],
)
def test_it_installs_from_where_det_compat_came_from(
    noted: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Distribution:
        def read_text(self, name: str) -> str | None:
            return json.dumps(noted) if noted else None

    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [Distribution()])
    assert how_to_install("cli") == f"{command} (det_compat is on no package index)"


def test_what_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert too_old("search") == []
    versions = {"ray": "2.9.3", "rich": "15.0.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    asked = ["numpy>=9", 'ray[tune]>=2.43; extra == "search"', 'rich>=99; extra == "cli"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: asked)
    monkeypatch.setattr(importlib.metadata, "version", version)
    assert too_old("search") == ["ray>=2.43 (2.9.3 is installed)"]
    assert too_old("mlflow") == []
    monkeypatch.setattr(importlib.metadata, "requires", version)
    assert too_old("search") == []


def test_nothing_advises_to_install_from_an_index() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    files += [*(ROOT / "det_compat").rglob("*.py"), *(ROOT / "adapters").rglob("*.py")]
    bad = "pip install 'det-compat", 'pip install "det-compat', "pip install det"
    found = [
        f"{file}: {line}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if any(text in line for text in bad) and "@" not in line
    ]
    assert found == []
