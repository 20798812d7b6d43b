from __future__ import annotations

import io
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from det_compat.common import util


@pytest.fixture
def real() -> Any:
    return pytest.importorskip("determined.common.util")


def test_texts_are_the_references(real: Any) -> None:
    for size in (0, 36, 1024, 1536, -5e6, 2**90, 1023.96):
        assert util.sizeof_fmt(size) == real.sizeof_fmt(size)
    for text in ("", "no", "False", "0", "y", "2", "off", "OFF", "x"):
        assert util.strtobool(text) is real.strtobool(text)
    times = ["2023-08-22T22:06:45Z", "2023-08-22T22:06:45.242391275Z", "2023-08-22T22:06:45+06:00"]
    for text in times:
        assert util.parse_protobuf_timestamp(text) == real.parse_protobuf_timestamp(text)
        assert util.is_protobuf_timestamp(text) is real.is_protobuf_timestamp(text)
    for chunked in ("ABCDEFG", [1, 2, 3], ""):
        assert [*util.chunks(chunked, 3)] == [*real.chunks(chunked, 3)]
    assert util.get_config_path() == real.get_config_path()


YAML = "lr: 1e-4\nname: yes\nlist: [1, 0o17, null]\n"


def test_yaml_is_read_and_written_as_by_the_reference(real: Any, tmp_path: Path) -> None:
    assert util.yaml_safe_load(YAML) == real.yaml_safe_load(YAML)
    (tmp_path / "a.yaml").write_text(YAML)
    with open(tmp_path / "a.yaml") as file:
        assert util.safe_load_yaml_with_exceptions(file) == util.yaml_safe_load(YAML)
    data = {"a": [1, {"b": "c"}], "d": 1e-4}
    for flow in (None, False, True):
        assert util.yaml_safe_dump(data, default_flow_style=flow) == real.yaml_safe_dump(
            data, default_flow_style=flow
        )
    stream = io.StringIO()
    assert util.yaml_safe_dump(data, stream) is None and stream.getvalue()


def test_a_config_with_a_key_twice_ends_the_process_with_a_line(
    real: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for module in (util, real):
        with pytest.raises(SystemExit) as raised:
            module.safe_load_yaml_with_exceptions("a: 1\na: 2\n")
        assert raised.value.code == 1
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and "DuplicateKeyError" in said[0]


def test_yaml_without_ruamel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    with pytest.raises(ImportError, match=r"pip install ruamel\.yaml"):
        util.yaml_safe_load("a: 1")


def test_waiting() -> None:
    answers = iter([(False, 0), (True, 7)])
    assert util.wait_for(lambda: next(answers), interval=0) == 7
    with pytest.raises(TimeoutError, match="waiting for predicate"):
        util.wait_for(lambda: (False, 0), timeout=-1)


def test_decorators() -> None:
    state = random.getstate()
    assert 0 <= util.preserve_random_state(random.random)() < 1
    assert random.getstate() == state
    with pytest.warns(DeprecationWarning, match=r"random is deprecated .* Use another\."):
        util.deprecated("Use another")(random.random)()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        util.deprecated()(random.random)()
    assert str(caught[0].message).endswith("a future version.")


@pytest.mark.parametrize(("value", "means"), [("TRUE", True), ("1", True), ("no", False)])
def test_debug_mode(value: str, means: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_DEBUG", value)
    assert util.debug_mode() is means
