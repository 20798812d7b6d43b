from __future__ import annotations

import codecs
import math
from pathlib import Path

import pytest

from det_compat.config.document import ConfigError, Document
from det_compat.config.loading import load, resolve


@pytest.fixture
def loaded(tmp_path: Path):
    def write_and_load(content: str | bytes) -> Document:
        path = tmp_path / "config.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load(path)

    return write_and_load


def test_locations_of_keys_and_values(loaded) -> None:
    document = loaded("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n")
    assert document.value == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert document.location(("a", "b"), of_key=True) == (2, 3)
    assert document.location(("a", "b")) == (2, 6)
    assert document.location(("a", "c", 1, "d")) == (5, 11)
    assert document.location(("a", "c", 7, "no", "such")) == (4, 5)


def test_quoted_and_tagged_scalars(loaded) -> None:
    document = loaded("a: '1'\nb: !!str 2\nc: !!float 3\nd: |\n  4\ne: 1e-4\nf: yes\ng: 2020-01-01")
    assert document.value == {
        "a": "1", "b": "2", "c": 3.0, "d": "4\n", "e": 1e-4, "f": True, "g": "2020-01-01",
    }  # fmt: skip
    assert type(document.value["c"]) is float


def test_keys_are_text(loaded) -> None:
    assert loaded("1: a\ny: b\n1.5: c\n'': d").value == {"1": "a", "y": "b", "1.5": "c", "": "d"}


def test_anchors_and_merge_keys(loaded) -> None:
    document = loaded("""
base: &base {x: 1, y: {z: 2}}
other: &other {x: 5, w: 6}
one: {<<: *base, x: 3}
two:
  x: 4
  <<: [*base, *other]
again: *base
""")
    assert document.value["one"] == {"y": {"z": 2}, "x": 3}
    assert document.value["two"] == {"y": {"z": 2}, "w": 6, "x": 4}
    assert document.value["again"] == {"x": 1, "y": {"z": 2}}
    assert document.location(("one", "x")) == (4, 21)
    assert document.location(("one", "y", "z")) == (2, 27)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(loaded, encoding: str) -> None:
    assert loaded("name: größe 🙂".encode(encoding)).value == {"name": "größe 🙂"}


@pytest.mark.parametrize(
    ("content", "says", "place"),
    [
        ("a: 1\nb: 2\na: 3\n", "a second time (first in line 1)", (3, 1)),
        ("a: {b: 1, b: 2}", "a second time", (1, 11)),
        ("", "an empty file", (None, None)),
        ("# only a comment", "an empty file", (None, None)),
        ("- a\n- b", "a list", (1, 1)),
        ("just text", "a single value", (1, 1)),
        ("a: 1\n---\nb: 2", "another document", (2, 1)),
        ("a: [1, 2", "what YAML does not allow", (1, 9)),
        ("a:\n\t- b", "'\\t'", (2, 1)),
        ("a: *nobody", "undefined alias", (1, 4)),
        ("a: &a [*a]", "endless nesting", (1, 4)),
        ("a: &a {b: *a}", "endless nesting", (1, 4)),
        ("<<: 1", "another value after `<<`", (1, 5)),
        ("? [a]\n: b", "a list or a mapping as a key", (1, 3)),
        ("~: b", "no name as a key", (1, 1)),
        ("a: .nan", ".nan", (1, 4)),
        ("a: !secret x", "the tag !secret", (1, 4)),
        (b"a: 1\nb: \xff\xfe", "0xff, which is not UTF-8", (2, 4)),
        (b"a: \x00", "what YAML does not allow", (None, None)),
        ('a: "\\UFFFFFFFF"', "what YAML does not allow", (None, None)),
        (codecs.BOM_UTF16_LE + b"a", "not UTF-8", None),
        pytest.param("a: " + "[" * 3000, "endless nesting", (None, None), id="deep list"),
        pytest.param(
            "a: " + "{a: " * 200 + "1" + "}" * 200, "endless nesting", None, id="deep mapping"
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(loaded, content, says, place) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(content)
    assert says in raised.value.found
    assert raised.value.file and raised.value.file.endswith("config.yaml")
    if place is not None:
        assert (raised.value.line, raised.value.column) == place


def test_aliases_that_multiply_are_stopped(loaded) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="aliases that stand for too much"):
        loaded("\n".join(lines))


def test_merges_that_multiply_are_stopped(loaded) -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="aliases that stand for too much"):
        loaded("\n".join(lines))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml", "a\0b"):
        with pytest.raises(ConfigError, match="cannot be read"):
            load(path)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (5 * 2**20))
    with pytest.raises(ConfigError, match="more than 4 MiB"):
        load(large)


def test_a_tag_runs_nothing(loaded) -> None:
    assert loaded("a: !!python/object/apply:os.abort []").value == {"a": []}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E4", 1e4),
        ("1e4", 1e4),
        (".5", 0.5),
        ("-.5e-3", -0.0005),
        ("1.", 1.0),
        ("+1.5", 1.5),
        ("08", 8.0),
        ("1_0.5", 10.5),
        ("1.0e-6", 1e-6),
    ],
)
def test_floats(text: str, value: float) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is float


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-17", -17),
        ("+3", 3),
        ("1_000", 1000),
        ("50_000", 50_000),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("-0b101", -5),
        (str(2**64 - 1), 2**64 - 1),
    ],
)
def test_integers(text: str, value: int) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is int


@pytest.mark.parametrize("text", ["true", "True", "yes", "on", "Y", "y", "ON"])
def test_true(text: str) -> None:
    assert resolve(text) is True


@pytest.mark.parametrize("text", ["false", "FALSE", "no", "off", "N", "n"])
def test_false(text: str) -> None:
    assert resolve(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_null(text: str) -> None:
    assert resolve(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "None",
        "tRue",
        "1:30",
        "2020-01-01",
        "1e",
        "e4",
        "0x",
        "--1",
        "1.2.3",
        "_1",
        "+",
        ".",
        "1e999",
    ],
)
def test_text(text: str) -> None:
    assert resolve(text) == text


def test_a_number_too_large_for_an_integer_is_a_float_and_none_is_endless() -> None:
    assert resolve("9" * 30) == float("9" * 30)
    assert resolve("9" * 5000) == "9" * 5000
    assert resolve("-.inf") == -math.inf
    assert math.isnan(resolve(".nan"))
