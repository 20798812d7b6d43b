"""Files that are large, long or deep: the work grows with their size, and none ends the command."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from det_compat.check.checker import check
from det_compat.check.report import Report, print_text
from tests.check.trees import check_files

HEAD = "import determined as det\nfrom determined import pytorch\n"
TRIAL = """\
from determined.pytorch import PyTorchTrial
class T(PyTorchTrial):
    def __init__(self, context): self.context = context
    def train_batch(self, batch, epoch_idx, batch_idx): ...
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
"""


def numbered(text: str, count: int, between: str = "\n") -> str:
    return between.join(text.replace("#", str(index)) for index in range(count))


# each as a function of how many there are
SHAPES = {
    "references": lambda n: HEAD + numbered("pytorch.name_#", n),
    "one line": lambda n: HEAD + "x = ['é', " + numbered("pytorch.name_#", n, ", ") + "]",
    "list": lambda n: HEAD + f"x = [{numbered('pytorch.name_#', n)[:-1]}]".replace("\n", ",\n"),
    "elements": lambda n: (
        f"{HEAD}x = [{numbered('pytorch.name_#', n, ',')}]\n{numbered('x[#], x[i]', n)}"
    ),
    "keys": lambda n: (
        f"{HEAD}x = {{{numbered('`#`: pytorch.name_#', n, ',')}}}\n{numbered('x[`#`]', n)}"
    ).replace("`", "'"),
    "appended": lambda n: f"{HEAD}x = []\n{numbered('x.append(pytorch.name_#)', n)}",
    "set": lambda n: HEAD + numbered("x = pytorch.name_#; x.y", n),
    "given": lambda n: HEAD + "def f(a): a.b\n" + numbered("f(pytorch.name_#)", n),
    "functions": lambda n: HEAD + numbered("def f#(): ...\nx = f#", n) + "\nx(pytorch.init())",
    "classes": lambda n: HEAD + numbered("class C#(pytorch.PyTorchTrial):\n  a = 1", n),
    "annotations": lambda n: HEAD + numbered("a#: det.keras.TFKerasTrialContext", n),
    "methods": lambda n: TRIAL + numbered("    def m#(self): self.context.experimental", n),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_with_the_size(shape: str, tmp_path: Path) -> None:
    def calls(count: int) -> int:
        file = tmp_path / "a.py"
        file.write_text(SHAPES[shape](count))
        made = itertools.count()
        sys.setprofile(lambda *_: next(made) and None)
        try:
            report = check([str(file)])
        finally:
            sys.setprofile(None)
        assert not report.unreadable
        return next(made)

    calls(10)
    # What was quadratic made 64 times as many.
    assert calls(800) < 12 * calls(100)


def test_commands_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(
        numbered("det e list; det t kill 1", 20_000) + "\n" + "a=b" * 9999
    )
    report = check([str(tmp_path)])
    places = [(found.position.line, found.position.column) for found in report.findings]
    assert places == [place for line in range(1, 20_001) for place in ((line, 1), (line, 13))]


def test_so_many_values_are_told_and_not_followed(tmp_path: Path) -> None:
    code = HEAD + numbered("x = pytorch.name_#", 101) + "\nx.y\n"
    report = check_files(tmp_path, {"a.py": code})
    assert [(p.position.line, p.reason) for p in report.dynamic] == [
        (104, "more than 100 things of Determined's meet here")
    ]
    code = HEAD + numbered("def f#(a): a.b\nx = f#", 101) + "\nx(pytorch.init())\nx(1)\n"
    report = check_files(tmp_path, {"a.py": code})
    assert [(p.position.line, p.reason) for p in report.dynamic] == [
        (205, "one of more than 100 functions or classes is called here")
    ]


def test_a_long_line_of_classes_is_told(tmp_path: Path) -> None:
    classes = (f"class C{n}(C{n - 1}): ..." for n in range(1, 150))
    code = "\n".join([TRIAL, "class C0(PyTorchTrial): ...", *classes])
    report = check_files(tmp_path, {"a.py": code})
    assert "more than 100 ancestors" in report.dynamic[-1].reason


MANY = 20_000
DEEP = {
    "a.py": f"{HEAD}x = {'(' * MANY}",
    "b.py": f"{HEAD}x = {'not ' * MANY}1",
    "c.py": f"{HEAD}x = {'not ' * 1500}det.core",
    "d.py": f"{HEAD}x = {'1 + ' * 1500}det.core",
    "e.py": f"{HEAD}x = det{'.core' * 1500}",
    "f.py": f"{HEAD}if det: ...\n{'elif det: ...' + chr(10)}" + "elif det.core: ...\n" * 1500,
    "g.py": f"# coding: idna\n{HEAD}",
    "h.py": f"{TRIAL}class U(f{'.a' * 280}): build_training_data_loader = train_batch = 1; x[",
    "a.ipynb": "[" * 100_000,
    "b.ipynb": '{"a":' * 100_000,
    "c.ipynb": f'{{"cells": [{{"cell_type": "code", "source": {"[" * 950}{"]" * 950}}}]}}',
    "d.ipynb": '{"worksheets": [{"cells": 3}]}',
    "e.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": "x = '\ud800'"}]}),
    "a.sh": "\n" * 5_000_001,
    "a.yaml": "\n" * 5_000_001,
}


@pytest.mark.parametrize("name", DEEP)
def test_one_file_never_ends_the_command(name: str, tmp_path: Path) -> None:
    report = check_files(tmp_path, {name: DEEP[name], "z.py": "import determined\n"})
    assert [Path(problem.position.file).name for problem in report.unreadable] == [name]
    assert "z.py" in {Path(found.position.file).name for found in report.findings}


CONFIGS = {
    "open": "[" * 100_000,
    "closed": "[" * 300 + "]" * 300,
    "mappings": "{a: " * 100_000,
    "cycle": "&a [*a]",
    "lists": "\n " + "- " * 5000,
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_configs_that_never_end(text: str, tmp_path: Path) -> None:
    files = {"const.yaml": f"searcher: 1\nhyperparameters: {text}\n", "z.py": "import determined\n"}
    report = check_files(tmp_path, files)
    refused = [f for f in report.findings if f.name.startswith("config")]
    assert any("nesting" in f.support.note for f in refused)
    assert any(f.name == "determined" for f in report.findings)


def test_a_deep_statement_leaves_the_others(tmp_path: Path) -> None:
    code = f"{HEAD}def f():\n    x = {'1 + ' * 1500}1\ndet.keras.x\n"
    report = check_files(tmp_path, {"a.py": code})
    assert [p.position.line for p in report.unreadable] == [3]
    assert [f.position.line for f in report.findings] == [1, 2, 5]


def test_annotations_in_strings(tmp_path: Path) -> None:
    for annotation in ("list[" * 5000 + "det" + "]" * 5000, "A | " * 2000 + "B"):
        report = check_files(tmp_path, {"a.py": f"{HEAD}x: '{annotation}'\n"})
        assert len(report.findings) == 2


def test_names_through_many_files(tmp_path: Path) -> None:
    files = {f"m{n}.py": f"from m{n + 1} import pytorch\npytorch.init\n" for n in range(400)}
    report: Report = check_files(tmp_path, {**files, "m400.py": "from determined import pytorch\n"})
    assert any(f.name == "determined.pytorch.init" for f in report.findings)


def test_a_long_report_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich", reason="needs det-compat[cli]")
    report = check_files(tmp_path, {"a.py": HEAD + numbered("pytorch.name_#", 10_000)})
    print_text(report)
    assert len(capsys.readouterr().out.splitlines()) > 10_000
