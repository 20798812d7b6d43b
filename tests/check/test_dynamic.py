from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.trees import check_code, statuses


@pytest.mark.parametrize(
    "code",
    [
        "import importlib\nimportlib.import_module(name)",
        "from importlib import import_module\nimport_module(f'determined.{part}')",
        "__import__(name)",
        "__import__('deter' + rest)",
        "exec(text)",
        "eval(f'{kind}(3)')",
        "import determined as det\ngetattr(det, name)",
        "def f(context):\n    context.wrap_model(1)\n    getattr(context, name)()",
        "def f(context):\n    context.wrap_model(1)\n    vars(context)[name]",
        "def f(context):\n    context.wrap_model(1)\n    context.__getattribute__(name)",
        "def f(context):\n    context.wrap_model(1)\n    operator.attrgetter(name)(context)",
        "from importlib import import_module as load\nload(name)",
    ],
)
def test_what_is_decided_at_run_time_is_counted(tmp_path: Path, code: str) -> None:
    report = check_code(tmp_path, code + "\n")
    assert len(report.dynamic) == 1
    assert not report.works


@pytest.mark.parametrize(
    "code",
    [
        "import importlib\nimportlib.import_module('models.' + name)",
        "import importlib\nimportlib.import_module(f'models.{name}')",
        "import importlib\nimportlib.import_module('torch')",
        "eval('3')",
        "exec('x = %s' % 3)",
        "model.eval()",
        "getattr(model, name)",
        "re.compile(text)",
    ],
)
def test_what_cannot_be_determined_is_not(tmp_path: Path, code: str) -> None:
    report = check_code(tmp_path, code + "\n")
    assert report.dynamic == []
    assert report.works


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import_module('determined.keras')", "determined.keras"),
        ("mock.patch('determined.pytorch.DataLoader')", "determined.pytorch.DataLoader"),
        ("monkeypatch.setattr('determined.core.init', 3)", "determined.core.init"),
        ("import_module('.keras', 'determined')", "determined.keras"),
        ("import_module('.keras', package='determined')", "determined.keras"),
        ("__import__('determined.pytorch').keras", "determined.keras"),
        ("__import__('determined.pytorch', fromlist=['x']).foo", "determined.pytorch.foo"),
        ("import sys\nsys.modules['determined'].keras", "determined.keras"),
        ("import determined as det\ngetattr(det, 'keras')", "determined.keras"),
        ("from importlib import import_module as f\nf('determined').keras", "determined.keras"),
    ],
)
def test_names_in_strings(tmp_path: Path, code: str, name: str) -> None:
    assert name in statuses(check_code(tmp_path, code + "\n"))


def test_a_module_that_is_asked_for_and_not_there(tmp_path: Path) -> None:
    code = "import determined as det\nx = getattr(det, 'keras', None)\n"
    report = check_code(tmp_path, code)
    assert statuses(report)["determined.keras"] == "different"
    assert report.works


@pytest.mark.parametrize("code", ["vars(model)", "vars()", "operator.attrgetter('x')(model)"])
def test_what_is_looked_into_is_not_determined(tmp_path: Path, code: str) -> None:
    assert check_code(tmp_path, f"import operator\nimport determined\n{code}\n").dynamic == []


def test_a_logger_is_no_reference(tmp_path: Path) -> None:
    code = "import logging\nlogging.getLogger('determined.core')\n"
    assert check_code(tmp_path, code).findings == []
