"""``determined.common.util``: the helpers that need no cluster.

Those that a release between 0.12 and 0.38.1 had are here, as the latest of them had it.
"""

import datetime
import functools
import io
import os
import platform
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "chunks",
    "debug_mode",
    "deprecated",
    "get_config_path",
    "is_protobuf_timestamp",
    "parse_protobuf_timestamp",
    "preserve_random_state",
    "safe_load_yaml_with_exceptions",
    "sizeof_fmt",
    "strtobool",
    "wait_for",
    "yaml_safe_dump",
    "yaml_safe_load",
]

T = TypeVar("T")

_TIMESTAMPS = ("%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%SZ")
_FALSE = ("", "n", "no", "f", "false", "off", "0")


def chunks(lst: Sequence[T], chunk_size: int) -> Iterator[Sequence[T]]:
    """Pieces of ``lst`` of ``chunk_size`` items; the last one may be shorter."""
    for start in range(0, len(lst), chunk_size):
        yield lst[start : start + chunk_size]


def sizeof_fmt(val: float) -> str:
    """A number of bytes as text, such as ``1.5KB``."""
    size = float(val)
    for unit in ("", "K", "M", "G", "T", "P", "E", "Z"):
        if abs(size) < 1024:
            return f"{size:3.1f}{unit}B"
        size /= 1024
    return f"{size:.1f}YB"


def debug_mode() -> bool:
    """Whether the environment variable ``DET_DEBUG`` says so."""
    return os.environ.get("DET_DEBUG", "").lower() in ("true", "1", "yes")


def preserve_random_state(fn: Callable[..., T]) -> Callable[..., T]:
    """``fn``, after which the state of ``random`` is what it was before."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> T:
        state = random.getstate()
        try:
            return fn(*args, **kwargs)
        finally:
            random.setstate(state)

    return wrapped


def ruamel() -> Any:
    """The module ``ruamel.yaml``, which Determined brought and det_compat does not.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import ruamel.yaml
    except ImportError as error:
        raise ImportError(
            "determined.common reads and writes YAML by ruamel.yaml, which is not installed: "
            "pip install ruamel.yaml"
        ) from error
    return ruamel.yaml


def yaml_safe_load(f: Any) -> Any:
    """What YAML 1.2 in a string or file says, as ruamel.yaml reads it.

    Raises:
        ImportError: ruamel.yaml is not installed.
        ruamel.yaml.error.YAMLError: it is no YAML, or a mapping has a key twice.
    """
    return _yaml().load(f)


def safe_load_yaml_with_exceptions(yaml_file: Any) -> Any:
    """As yaml_safe_load; what is no YAML ends the process with status 1 and a line that says so."""
    errors = ruamel().error
    marked = (errors.MarkedYAMLError, errors.MarkedYAMLWarning, errors.MarkedYAMLFutureWarning)
    try:
        return yaml_safe_load(yaml_file)
    except marked as error:
        print(
            "Error: invalid experiment config file.\n"
            f"{type(error).__name__}: {error.problem}\n{error.problem_mark}"
        )
        sys.exit(1)


def yaml_safe_dump(data: Any, stream: Any = None, default_flow_style: bool | None = None) -> Any:
    """Write YAML of ``data`` to ``stream``, or return it as a string.

    Raises:
        ImportError: ruamel.yaml is not installed.
    """
    writer = _yaml(default_flow_style)
    if stream is not None:
        return writer.dump(data, stream=stream)
    text = io.StringIO()
    writer.dump(data, stream=text)
    return text.getvalue()


def _yaml(default_flow_style: bool | None = None) -> Any:
    found = ruamel().YAML(typ="safe", pure=True)
    if default_flow_style is not None:
        found.default_flow_style = default_flow_style
    return found


def get_config_path() -> Path:
    """The folder of Determined's own settings for this user."""
    given = os.environ.get("DET_DEBUG_CONFIG_PATH")
    if given:
        return Path(given)
    system = platform.system()
    if "Linux" in system and "XDG_CONFIG_HOME" in os.environ:
        base = Path(os.environ["XDG_CONFIG_HOME"])
    elif "Darwin" in system:
        base = Path.home() / "Library" / "Application Support"
    elif "Windows" in system and "LOCALAPPDATA" in os.environ:
        base = Path(os.environ["LOCALAPPDATA"])
    else:
        base = Path.home() / ".config"
    return base / "determined"


def parse_protobuf_timestamp(ts: str) -> datetime.datetime:
    """The time of an RFC 3339 text, in whole seconds."""
    whole = re.sub(r"\.[0-9]*", "", ts)
    return datetime.datetime.fromisoformat(f"{whole[:-1]}+00:00" if whole.endswith("Z") else whole)


def is_protobuf_timestamp(ts: str) -> bool:
    """Whether a text is an RFC 3339 time in UTC, as ``2023-08-22T22:06:45Z``."""
    for form in _TIMESTAMPS:
        try:
            datetime.datetime.strptime(ts, form)
        except (ValueError, TypeError):
            continue
        return True
    return False


def wait_for(
    predicate: Callable[[], tuple[bool, T]], timeout: int = 60, interval: float = 0.1
) -> T:
    """Call ``predicate()`` every ``interval`` seconds until it returns ``(True, RESULT)``.

    Raises:
        TimeoutError: ``timeout`` seconds have passed.
    """
    start = time.time()
    while time.time() - start <= timeout:
        is_done, result = predicate()
        time.sleep(interval)
        if is_done:
            return result
    raise TimeoutError("timed out waiting for predicate")


def deprecated(message: str | None = None) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A decorator of functions that raises a DeprecationWarning at each call."""

    def decorator(func: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> T:
            text = f"{func.__name__} is deprecated and will be removed in a future version."
            warnings.warn(
                f"{text} {message}." if message else text, DeprecationWarning, stacklevel=2
            )
            return func(*args, **kwargs)

        return wrapper

    return decorator


def strtobool(val: str) -> bool:
    """Whether a text means true: anything that is neither empty nor one of the words for false."""
    return bool(val) and val.lower() not in _FALSE
