"""Requests in forks, one after the other, and in new processes where forks would not be exact."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from det_compat.search.forks import forks as forks_module
from det_compat.search.forks.client import ProcessDied, Request
from det_compat.search.forks.forks import Forks
from det_compat.search.forks.imports import Imports, first_imports
from det_compat.search.forks.template import template
from tests.fresh_python import environment
from tests.preloaded import executable

REQUESTS = "tests.search.forks.requests"
# A module that nothing else imports here.
INSTALLED = "tabnanny"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", executable())
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(tmp_path)


def environ() -> dict[str, str]:
    return {name: it for name, it in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture(params=["a server of its own", "a template"])
def forks(request: pytest.FixtureRequest, place: None) -> Iterator[Forks]:
    imports = Imports([], {"GIVEN": "1"})
    with contextlib.ExitStack() as stack:
        is_shared = request.param == "a template"
        address = stack.enter_context(template(imports, environ())) if is_shared else ""
        found = Forks(imports, address)
        stack.callback(found.close)
        yield found


def told(forks: Forks, function: str, *modules: str) -> dict[str, Any]:
    """What a request that runs to its end tells of its process."""
    request = forks.start(f"{REQUESTS}:{function}", json.dumps(modules).encode())
    said = request.receive()
    assert said is not None
    assert request.receive() is None
    request.end(10)
    return said


def is_gone(process: int) -> bool:
    for _ in range(100):
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def started(forks: Forks, payload: bytes = b"") -> tuple[Request, dict[str, Any]]:
    request = forks.start(f"{REQUESTS}:waits", payload)
    said = request.receive()
    assert said is not None
    return request, said


def test_each_is_as_a_new_process(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "of_a_user.py").write_text("COUNTED = 1")
    first = told(forks, "about", "of_a_user", INSTALLED)
    (tmp_path / "of_a_user.py").write_text("COUNTED = 2  # it was edited")
    second = told(forks, "about", "of_a_user", INSTALLED)
    assert first["server"] == second["server"]
    assert first["process"] != second["process"]
    assert first["random"] != second["random"]
    assert (first["counted"], second["counted"]) == (1, 2)
    for one in (first, second):
        assert one["leads"]
        assert one["handlers"] == [str(signal.SIG_DFL)] * 2
        assert one["stdin"] == os.devnull
        assert one["variable"] is None
    # What is installed is imported once, and what is a user's each time.
    assert first["imported"] == sorted([INSTALLED, "of_a_user"])
    assert second["imported"] == ["of_a_user"]


def test_a_variable_that_imports_may_look_at(forks: Forks) -> None:
    first, second = told(forks, "changes", INSTALLED), told(forks, "about", INSTALLED)
    assert INSTALLED in first["imported"]
    assert INSTALLED in second["imported"]


def test_what_it_raises(forks: Forks) -> None:
    request = forks.start(f"{REQUESTS}:raises", b"this one fails")
    with pytest.raises(RuntimeError, match="ValueError: this one fails"):
        request.receive()
    request.end(10)
    assert told(forks, "about")["leads"]


@pytest.mark.parametrize("payload", [b"", b"does not listen"])
def test_one_that_is_stopped_leaves_nothing(payload: bytes, forks: Forks) -> None:
    request, said = started(forks, payload)
    request.end(0.2 if payload else 10)
    assert is_gone(said["process"])
    assert is_gone(said["child"])
    assert told(forks, "about")["leads"]


def test_one_that_is_killed(forks: Forks) -> None:
    request, said = started(forks)
    os.kill(said["process"], signal.SIGKILL)
    with pytest.raises(ProcessDied):
        request.receive()
    request.end(10)
    assert is_gone(said["child"])
    assert told(forks, "about")["leads"]


def test_the_end_of_the_server_ends_its_fork(forks: Forks) -> None:
    request, said = started(forks)
    server = parent(said["process"])
    os.kill(server, signal.SIGKILL)
    with pytest.raises(ProcessDied):
        request.receive()
    assert is_gone(said["process"])
    request.end(10)
    # The next one is a new process.
    assert told(forks, "about")["server"] != server


def test_no_forks_on_other_systems(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks_module.sys, "platform", "darwin")
    alone = Forks(Imports())
    first, second = told(alone, "about", INSTALLED), told(alone, "about", INSTALLED)
    assert first["process"] != second["process"]
    assert INSTALLED in first["imported"]
    assert INSTALLED in second["imported"]
    request, said = started(alone, b"does not listen")
    request.end(0.2)
    assert is_gone(said["process"])
    assert is_gone(said["child"])


@pytest.mark.parametrize("before", [(), ("determined_is_wanted",), ("not_there",)])
def test_what_each_imports_first(before: tuple[str, ...], forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "determined.py").touch()
    (tmp_path / "determined_is_wanted.py").write_text("import determined")
    early = Forks(Imports(first=[*before, INSTALLED]))
    first, second = told(early, "about", INSTALLED), told(early, "about", INSTALLED)
    early.close()
    # What must not come before the first one is left to it, and the second has the rest.
    assert (INSTALLED in first["imported"]) == bool(before)
    assert INSTALLED not in second["imported"]
    assert first["variable"] is None


def test_first_imports_end_where_code_of_users_begins(tmp_path: Path) -> None:
    file = tmp_path / "model_def.py"
    lines = ['"""A trial."""', "from __future__ import annotations", "import json, tabnanny"]
    lines += ["import determined as det", "from torch import nn"]
    (tmp_path / "helpers.py").touch()
    for last in ("import helpers", "from . import x", "import not_there", "a = 1", "if a: pass"):
        file.write_text("\n".join([*lines, last, "import ast"]))
        assert first_imports(file) == ["__future__", "json", "tabnanny", "torch"]
    (tmp_path / "json").mkdir()
    assert first_imports(file) == ["__future__"]
    assert first_imports(tmp_path / "nothing.py") == []


@pytest.fixture
def of_one_template(
    place: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Forks]]:
    """Makes forks of a template; they end with the test."""
    temporary = tmp_path / ("longer than the address of a socket " * 4)
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    imports = Imports([INSTALLED])
    with template(imports, environ()) as address, contextlib.ExitStack() as stack:

        def make() -> Forks:
            made = Forks(imports, address)
            stack.callback(made.close)
            return made

        yield make


def test_servers_of_a_template_share_its_imports(
    of_one_template: Callable[[], Forks], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = told(of_one_template(), "about", INSTALLED)
    monkeypatch.setenv("RAY_OF_A_WORKER", "1")
    other = told(of_one_template(), "about", INSTALLED)
    assert one["server"] != other["server"]
    assert (one["imported"], other["imported"]) == ([], [])
    monkeypatch.setenv("GIVEN", "to imports")
    alone = told(of_one_template(), "about", INSTALLED)
    assert alone["variable"] == "to imports"
    # It has a server of its own, since imports may look at that variable.
    assert parent(one["server"]) == parent(other["server"]) != parent(alone["server"])


def test_the_end_of_a_template(of_one_template: Callable[[], Forks]) -> None:
    forks = of_one_template()
    server = told(forks, "about")["server"]
    os.kill(parent(server), signal.SIGKILL)
    assert told(forks, "about")["server"] == server
    assert told(of_one_template(), "about")["leads"]
    forks.close()
    assert is_gone(server)


def test_a_template_outlives_a_client_that_is_gone_at_once(place: None) -> None:
    with template(Imports(), environ()) as address:
        for sent in (b"", b" "):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(address)
                client.send(sent)
        both = [Forks(Imports(), address) for _ in range(2)]
        said = [told(one, "about") for one in both]
        assert len({parent(one["server"]) for one in said}) == 1
        for one in both:
            one.close()


def test_a_template_that_cannot_import(place: None) -> None:
    with template(Imports(["not_there"]), environ()) as address:
        forks = Forks(Imports(), address)
        assert told(forks, "about")["leads"]
        forks.close()
