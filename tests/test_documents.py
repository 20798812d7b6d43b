"""The documents' Python compiles, their YAML parses, and their links lead somewhere."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml

from det_compat.catalog import members, names
from tests.documented_project import FILES
from tests.markdown import ROOT, Block, anchors, blocks, links, read
from tests.preloaded import python

DOCUMENTS = ["README.md", "MIGRATION.md", "CHANGELOG.md", "SECURITY.md"]
DOCUMENTS += [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/*.md"))]
DOCUMENTS += [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("examples/*/README.md"))]
SHELL_OR_CODE = {"", "sh", "python", "yaml"}


def blocks_in(language: str) -> list[tuple[str, Block]]:
    return [(name, b) for name in DOCUMENTS for b in blocks(read(name)) if b.language == language]


def compiled(block: Block) -> None:
    """Compile code of a module's, or else of a function's."""
    try:
        compile(block.code, "module", "exec")
    except SyntaxError:
        compile(f"def function():\n{textwrap.indent(block.code, '    ')}", "function", "exec")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_are_in_known_languages(name: str) -> None:
    assert {block.language for block in blocks(read(name))} <= SHELL_OR_CODE


@pytest.mark.parametrize(
    ("name", "block"), blocks_in("python"), ids=lambda v: v if isinstance(v, str) else str(v.line)
)
def test_python_compiles(name: str, block: Block) -> None:
    compiled(block)


@pytest.mark.parametrize(
    ("name", "block"), blocks_in("yaml"), ids=lambda v: v if isinstance(v, str) else str(v.line)
)
def test_yaml_parses(name: str, block: Block) -> None:
    assert yaml.safe_load(block.code)


def test_the_wrapped_trial_of_the_readme_trains(tmp_path: Path) -> None:
    (block,) = (b for _, b in blocks_in("python") if "trainer.fit(module)" in b.code)
    (tmp_path / "model_def.py").write_text(FILES["model_def.py"])
    done = python("-c", f"{block.code}\nprint(trainer.global_step)", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5"


def test_the_run_of_the_page_on_python_trains(tmp_path: Path) -> None:
    code = "\n".join(block.code for name, block in blocks_in("python") if name == "docs/python.md")
    (tmp_path / "model_def.py").write_text(FILES["model_def.py"])
    (tmp_path / "const.yaml").write_text(FILES["const.yaml"])
    done = python("-c", f"{code}\nprint(sorted(weights))", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\ndone {'batches': 24, 'error': 0." in done.stdout
    assert done.stdout.endswith("['bias', 'weight']\n")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    for link in links(read(name)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = ROOT / Path(name).parent / path if path else ROOT / name
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


def headings_that_check_names() -> set[str]:
    """The headings of MIGRATION.md that verdicts of ``check`` link to."""
    tables = (*names.EXPORTS.values(), *members.MEMBERS.values(), names.REFUSED, members.OTHERS)
    links = {verdict.link for table in tables for verdict in table.values()}
    return {link.removeprefix("MIGRATION.md#") for link in links if link}


def test_every_link_of_check_leads_to_a_heading() -> None:
    found = headings_that_check_names()
    assert len(found) > 30
    assert found <= set(anchors(read("MIGRATION.md")))


def test_every_difference_has_a_before_and_an_after() -> None:
    parts = re.split(r"^(##+ .+)$", read("MIGRATION.md"), flags=re.MULTILINE)
    chapter, lacking = "", []
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        if heading.startswith("## "):
            chapter = heading[3:]
        elif chapter in ("What behaves differently", "Other modules of `determined`"):
            is_told = "before" in text and "after" in text and "```" in text
            lacking += [] if is_told or "| Determined" in text else [heading]
    assert lacking == []
