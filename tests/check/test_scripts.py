from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.analysis.tree import is_script
from det_compat.check.checker import check
from det_compat.check.scripts import references
from tests.check.guide import anchors
from tests.check.trees import check_files, statuses


def found(text: str) -> list[str]:
    return [reference.name for reference in references(text)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("det experiment create const.yaml .", "det experiment"),
        ("det e create const.yaml .", "det experiment"),
        ("  sudo det -m http://host:80 --user x exp list", "det experiment"),
        ("ID=`det project list --json | jq`", "det project"),
        ("cd x && det t logs 3", "det trial"),
        ("RUN pip install determined==0.19.4", "pip install determined"),
        ("pip3 install -q torch 'determined[x]'", "pip install determined"),
        ("FROM determinedai/environments:cuda-11.3", "determinedai/environments"),
        ("python3 -m determined.launch.torch_distributed x", None),
        ("python -u -m \\\n  determined.cli e list", "python -m determined.cli"),
        ("      run: det experiment create a.yaml .", "det experiment"),
        ("\t@det notebook start", "det notebook"),
    ],
)
def test_commands(line: str, name: str | None) -> None:
    assert found(line) == [name or "python -m determined.launch.torch_distributed"]


@pytest.mark.parametrize(
    "line",
    [
        "# det experiment create const.yaml .",
        "det-compat fit const.yaml",
        "echo the det version of a matrix",
        "det = 3; det e=4",
        "det e=4",
        "pip install determined-to-succeed ./determined",
        "python determined.py -m x",
        "cp determinedai /x",
        "det detail",
    ],
)
def test_what_is_no_command(line: str) -> None:
    assert found(line) == []


def test_every_link_leads_to_a_heading() -> None:
    lines = "\n".join(
        f"det {noun} x"
        for noun in (
            "experiment",
            "checkpoint",
            "trial",
            "tensorboard",
            "notebook",
            "shell",
            "command",
            "agent",
        )
    )
    text = f"{lines}\npip install determined\nFROM determinedai/x\npython -m pedl.x\n"
    supports = [reference.support for reference in references(text)]
    assert len(supports) == 11
    assert {support.link.partition("#")[2] for support in supports} <= anchors()
    assert all(support.note for support in supports)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("run.sh", True),
        ("Dockerfile", True),
        ("Dockerfile.gpu", True),
        ("gpu.Dockerfile", True),
        ("Makefile", True),
        ("job.sbatch", True),
        ("model_def.py", False),
        ("README.md", False),
        ("Dockerfiles", False),
    ],
)
def test_names_of_scripts(name: str, is_one: bool) -> None:
    assert is_script(Path(name)) == is_one


def test_scripts_beside_the_code_are_read(tmp_path: Path) -> None:
    report = check_files(
        tmp_path,
        {
            "submit.sh": "#!/bin/sh\nset -e\n  det e create const.yaml .\n",
            "ci.yml": "jobs:\n  - run: det experiment list\n",
            "Dockerfile": "FROM python\n",
            "a.py": "",
        },
    )
    assert statuses(report) == {"det experiment": "refused"}
    places = [
        (Path(f.position.file).name, f.position.line, f.position.column) for f in report.findings
    ]
    assert places == [("ci.yml", 2, 10), ("submit.sh", 3, 3)]
    # a script without a reference says nothing of the project
    assert report.files == 3
    assert not report.works


def test_programs_without_a_suffix_are_read(tmp_path: Path) -> None:
    files = {
        "submit": "#!/bin/bash\ndet e list\n",
        "train": "#!/usr/bin/python\nimport determined\n",
    }
    report = check_files(tmp_path, files)
    assert statuses(report) == {"det experiment": "refused", "determined": "same"}
    assert report.unreadable == []


def test_a_script_that_is_no_text_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_bytes(b"echo \xff\xfe\r\ndet e list\r\n")
    report = check([str(tmp_path)])
    assert [(found.name, found.position.line) for found in report.findings] == [
        ("det experiment", 2)
    ]
