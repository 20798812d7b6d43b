"""Code that leads in circles comes to an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.catalog.status import Status
from tests.check.trees import check_code, names


@pytest.mark.parametrize(
    "code",
    [
        "class A(A): ...\nA().b",
        "class A(B): ...\nclass B(A): ...\nA().b.c",
        "def f(x):\n    return f(f(x))\nf(det).y",
        "x = det\nx = x.next",
        "x = det\nx = x.a.b",
        "x = det.core.init()\nx = x.a(x)",
        "x = x",
        "x = (x, det)\ny, z = x\nx = (x, x)",
        "f = lambda x: f\nf(f)(f)",
        "class A:\n    def __init__(self):\n        self.a = self\n        self.b = self.a.b.a",
        "class A:\n    @property\n    def p(self):\n        return self.p.p",
        "def f(*args, **kwargs):\n    f(*args, **kwargs)",
        "class A:\n    def __init__(self, *a):\n        super().__init__(*a)\nA(*[1])",
        "global x\nx = 1\ndef f():\n    global x\n    x = det\nx.core.init",
        "import a.b.c as d, e.f\nd.g, e.f.h",
        "from . import *\nfrom .. import x\nfrom ...y import z",
        "match det:\n    case det.core: ...",
        "async def f():\n    async with det.core.init() as c:\n        await c.train.x()",
        "x: 'not python ('\ndef f(a: 'no:'): a.b",
        "getattr(det, 'core', *x)\ngetattr()\nimport_module()\ncast()\nsuper()",
        "[det for det in det]\n{**det}\ndel det.core\nf'{det.core.init}'",
        "@det.core.init\nclass A(metaclass=det.x): ...",
    ],
)
def test_it_ends(tmp_path: Path, code: str) -> None:
    report = check_code(tmp_path, f"import determined as det\n{code}\n")
    assert report.unreadable == []
    assert "determined" in names(report)


def test_a_long_chain_of_helpers_is_followed(tmp_path: Path) -> None:
    code = "from determined.pytorch import PyTorchTrialContext\n"
    code += "".join(f"def f{i}(it):\n    f{i + 1}(it)\n" for i in range(15))
    code += "def f15(it):\n    it.nothing\ndef g(c: PyTorchTrialContext):\n    f0(c)\n"
    assert "PyTorchTrialContext.nothing" in names(check_code(tmp_path, code))


def test_chains_of_refused_calls_end(tmp_path: Path) -> None:
    code = "import determined\nx = determined.load()\nfor i in y:\n    x = x.get().more()\n"
    report = check_code(tmp_path, code)
    assert {found.support.status for found in report.findings} <= {Status.SAME, Status.REFUSED}
    assert max(found.name.count("()") for found in report.findings) <= 3
