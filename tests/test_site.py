"""The site has every document. `make docs` looks at the links, with what the tests do not need."""

from __future__ import annotations

import importlib
from typing import Any

import yaml

from tests.markdown import ROOT


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for item in nav for entry in item.values() for page in _pages(entry)]


def test_every_document_has_its_place() -> None:
    found = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    documents = {
        str(path.relative_to(ROOT))
        for pattern in ("*.md", "docs/*.md", "examples/*/README.md")
        for path in ROOT.glob(pattern)
    }
    assert sorted(_pages(found["nav"])) == sorted({*documents, "api.md", "names.md"})


def test_the_modules_of_the_reference_are_there() -> None:
    text = (ROOT / "docs" / "site_pages.py").read_text()
    names = text.split("MODULES = (")[1].split(")")[0].split(",")
    modules = [name.strip().strip('"') for name in names if name.strip()]
    assert "det_compat.pytorch" in modules
    for name in modules:
        assert importlib.import_module(name).__doc__
