from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.trees import check_code, on_context

TRIAL = """
import collections
import functools
from concurrent.futures import ThreadPoolExecutor
from determined.pytorch import PyTorchTrial

class Trial(PyTorchTrial):
    def __init__(self, context):
        {code}
"""


def asked(folder: Path, code: str) -> set[str]:
    """What is found to be asked of the context in __init__."""
    body = code.replace("\n", "\n        ")
    return on_context(check_code(folder, TRIAL.format(code=body)))


@pytest.mark.parametrize(
    "code",
    [
        'd = {"c": context, "n": 1}\nd["c"].device',
        'self.d = dict(c=context)\nself.d["c"].device',
        'd = {}\nd["c"] = context\nd["c"].device',
        'd = {"c": context}\nd.get("c").device',
        'd = {"c": context}\nd.get("c", None).device',
        'd = {"c": context}\nd.pop("c").device',
        'd = {"c": context}\nfor c in d.values():\n    c.device',
        'd = {"c": context}\nfor k, c in d.items():\n    c.device',
        'd = {"a": {"b": context}}\nd["a"]["b"].device',
        "d = {key: context}\nd[key].device",
        "x = []\nx.append(context)\nx[0].device",
        "self.x = []\nself.x.append(context)\nself.x[-1].device",
        "x = collections.deque()\nx.append(context)\nx.popleft().device",
        "[c.device for c in [context]]",
        "x = [c for c in (context,)]\nx[0].device",
        "a, *rest = 1, context\nrest[0].device",
        "(c := context).device",
        "(lambda c: c.device)(context)",
        "list(map(lambda c: c.device, [context]))",
        "f = lambda: context\nf().device",
        "import contextlib\ncontextlib.ExitStack().enter_context(context).device",
        "import copy\ncopy.copy(context).device",
        'setattr(self, "c", context)\nself.c.device',
        'setattr(self, "c", context)\ngetattr(self, "c").device',
    ],
)
def test_contexts_are_followed(tmp_path: Path, code: str) -> None:
    assert asked(tmp_path, code) == {"device"}


@pytest.mark.parametrize(
    "code",
    [
        "def f(*args): args[1].device\nf(1, context)",
        'def f(**given): given["c"].device\nf(c=context)',
        "def f(c): c.device\nf(*(context,))",
        'def f(c): c.device\nf(**{"c": context})',
        "def f(c): c.device\nfunctools.partial(f, context)()",
        "def f(n, c): c.device\nfunctools.partial(f, c=context)(1)",
        "from functools import partial as P\ndef f(c): c.device\nP(f, context)()",
        "def f(c): c.device\nThreadPoolExecutor().submit(f, context)",
        "def g(c): c.device\ndef f(*args): g(*args)\nf(context)",
    ],
)
def test_arguments_are_followed(tmp_path: Path, code: str) -> None:
    assert asked(tmp_path, code) == {"device"}


@pytest.mark.parametrize(
    "annotation", ["list[X]", "Sequence[X]", "dict[str, X]", "Optional[X]", "tuple[X, ...]"]
)
def test_annotated_contexts_are_followed(tmp_path: Path, annotation: str) -> None:
    kind = annotation.replace("X", "PyTorchTrialContext")
    code = f"def f(c: {kind}) -> None:\n    (c if {annotation[0] == 'O'} else c[0]).device\n"
    code = "from typing import *\nfrom determined.pytorch import PyTorchTrialContext\n" + code
    assert "device" in on_context(check_code(tmp_path, code))


@pytest.mark.parametrize(
    "code",
    [
        'd = {"c": context, "m": model}\nd["m"].forward()',
        'd = {"c": context, "m": model}\nfor x in d.values():\n    x.forward()',
        'd = {"c": context, "m": model}\nd[key].forward()',
        "t = (context, model)\nt[1].forward()",
        "a, b = context, model\nb.forward()",
        "def f(*args): args[1].forward()\nf(context, model)",
        'def f(**given): given["m"].forward()\nf(c=context, m=model)',
        "x = {}\nx['x'] = x\nx['x']['x'].forward()",
        "x = []\nx.append(x)\nx[0][0].forward()",
    ],
)
def test_what_lies_beside_a_context_is_none(tmp_path: Path, code: str) -> None:
    assert asked(tmp_path, code) == set()
