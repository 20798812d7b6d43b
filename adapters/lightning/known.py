"""Whether the installed Lightning is one whose insides det_compat knows.

``epoch_loop.py`` runs batches in place of Lightning's own loops, and leaves out what they do for
nobody. That is right only for the loops that it was written after. The source of the modules that
have a part in a batch is therefore compared with digests of released versions, and the methods
of their classes have to come from those files, since a library may have replaced some. Comments,
docstrings and layout do not count. Whatever differs, Lightning's own loops run instead, and the
package ``unknown`` watches what they do to a trial.

To add a version of Lightning: install it, read what has changed in the modules below, mend
``epoch_loop.py`` and ``door.py`` if it matters to them, put the lines that
``python -m det_compat.adapters.lightning.known`` prints into ``known.yaml``, and run all tests.
"""

import ast
import contextlib
import functools
import hashlib
import importlib
import logging
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

from det_compat.adapters.lightning.package import FABRIC, MODULE, PACKAGE, VERSION
from det_compat.errors import InvalidExperimentException
from det_compat.shared.data_files import data_beside

logger = logging.getLogger("det_compat")

_KNOWN: dict[str, dict[str, list[str]]] = data_beside(__file__, "known.yaml")
_MODULES = tuple(_KNOWN.get(VERSION, [*_KNOWN.values()][-1]))

# These libraries wrap functions of the modules in their own (Lightning 2.6.6, torch 2.13; reprlib
# does so for dataclasses from Python 3.13 on).
_DECORATORS = (
    *("contextlib", "dataclasses", "enum", "reprlib", "torch"),
    *("pytorch_lightning", "lightning", "lightning_fabric", "lightning_utilities"),
)

_unknown: str | None = "not examined yet"


def examine() -> None:
    """Find out about the Lightning of this process; says once in the log if it is not known.

    The first call takes 3 ms, and half a second where a file differs; any further one, which looks
    for methods replaced since, takes 1 ms.
    """
    global _unknown
    _unknown = _difference()
    if _unknown is not None:
        _log_once(
            f"Lightning {VERSION} is not one that det_compat knows ({_unknown}): training "
            "runs on Lightning's own loops, which take longer between batches"
        )


def is_known() -> bool:
    """Whether Lightning was known when it was last examined."""
    return _unknown is None


def refusal(found: str, advice: str = "") -> InvalidExperimentException:
    """The error for a Lightning that would not train what Determined did."""
    return InvalidExperimentException(
        f"det_compat cannot run a trial on Lightning {VERSION}: {found}; "
        f"{advice}install {PACKAGE.replace('_', '-')}=={[*_KNOWN][-1]}, or a det_compat made for "
        "this one"
    )


@contextlib.contextmanager
def needed(what: str) -> Iterator[None]:
    """Refuse the run if ``what`` it needs of Lightning's insides is not where it was.

    Raises:
        InvalidExperimentException: Python did not find it, or found something else.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise refusal(f"{what} is not where it was in {[*_KNOWN][-1]} ({found})") from error


@functools.cache
def _log_once(message: str) -> None:
    logger.warning(message)


def _difference() -> str | None:
    try:
        return _source_difference() or _replaced_method()
    except (ImportError, OSError, SyntaxError) as error:
        return f"{type(error).__name__}: {error}"


@functools.cache
def _modules() -> tuple[ModuleType, ...]:
    return tuple(importlib.import_module(_full(name)) for name in _MODULES)


def _full(name: str) -> str:
    """The name of a module of ``known.yaml``: in Lightning, or with ``fabric.`` in what it uses."""
    of_fabric = name.removeprefix("fabric.")
    return f"{MODULE}.{name}" if of_fabric == name else f"{FABRIC}.{of_fabric}"


@functools.cache
def _source_difference() -> str | None:
    if VERSION not in _KNOWN:
        return f"known are {', '.join(_KNOWN)}"
    for module, (name, digests) in zip(_modules(), _KNOWN[VERSION].items(), strict=True):
        source = _source(module)
        if _digest(source) != digests[0] and _digest(_code_alone(source)) != digests[1]:
            return f"{_full(name)} differs"
    return None


def _source(module: ModuleType) -> bytes:
    source = Path(str(module.__file__)).read_bytes()
    # The package lightning has the same files, but for its own name in them.
    names = {b"lightning.pytorch": b"pytorch_lightning", b"lightning.fabric": b"lightning_fabric"}
    for name, named in names.items():
        source = source.replace(name, named)
    return source


def _code_alone(source: bytes) -> bytes:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [part for part in body if not _is_docstring(part)] or [ast.Pass()]
    return _written(tree).encode()


def _written(part: object) -> str:
    """A syntax tree as text, the same in Python 3.10 to 3.13; ast.unparse and ast.dump differ."""
    if isinstance(part, list):
        return f"[{','.join(map(_written, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    # Later versions of Python have fields that earlier ones lack, and they are empty.
    fields = [(name, value) for name, value in ast.iter_fields(part) if value not in (None, [])]
    return f"{type(part).__name__}({','.join(f'{n}={_written(value)}' for n, value in fields)})"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _replaced_method() -> str | None:
    """A method of the classes of Lightning that is not from its files; None if there is none."""
    files = {module.__file__ for module in _modules()}
    for module in _modules():
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__module__ == module.__name__:
                for name, value in vars(cls).items():
                    method = getattr(value, "fget", None) or getattr(value, "__func__", value)
                    if isinstance(method, FunctionType) and not _is_from(files, method):
                        return f"{cls.__name__}.{name} was replaced"
    return None


def _is_from(files: set[str | None], method: FunctionType) -> bool:
    made_by = str(method.__globals__["__name__"]).partition(".")[0]
    return method.__code__.co_filename in files or made_by in _DECORATORS


def _print_digests() -> None:
    print(f"{VERSION}:")
    for name, module in zip(_MODULES, _modules(), strict=True):
        source = _source(module)
        print(f"  {name}: ['{_digest(source)}', '{_digest(_code_alone(source))}']")


if __name__ == "__main__":
    _print_digests()
