"""What failed when a checkpoint could not be written."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path

from det_compat.errors import CheckpointWriteError

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENODEV}
# torch.save raises RuntimeError for all that its writer in C++ cannot do
_TORCH_WRITER = re.compile(r"inline_container|PytorchStreamWriter|iostream error")


@contextlib.contextmanager
def named_write_failures(
    location: str, previous: str | None, inside: Path | None = None
) -> Iterator[None]:
    """Turn errors of writing a checkpoint into one that names it.

    Args:
        location: the checkpoint.
        previous: the checkpoint before it, None if there is none.
        inside: the directory that is written, if user code writes as well: its errors in other
            places pass as they are.

    Raises:
        CheckpointWriteError: the disk is full, the directory cannot be written, or the like.
    """
    try:
        yield
    except CheckpointWriteError:
        raise
    except (OSError, RuntimeError) as error:
        if not _is_of_writing(error, inside):
            raise
        failure = CheckpointWriteError(_message(location, previous, error))
        failure.errno = _errno(error)
        raise failure from error


def _message(location: str, previous: str | None, error: BaseException) -> str:
    kept = f"the previous one, {previous}, is kept" if previous else "earlier ones are kept"
    return f"could not write checkpoint {location}: {_reason(error)}. It was removed; {kept}"


def _reason(error: BaseException) -> str:
    # torch's own message tells positions in the file; what the system said is in the context
    context = error.__context__
    return str(context) if _is_torch_writer(error) and isinstance(context, OSError) else str(error)


def _errno(error: BaseException) -> int | None:
    found = error if isinstance(error, OSError) else error.__context__
    return found.errno if isinstance(found, OSError) else None


def _is_torch_writer(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and bool(_TORCH_WRITER.search(str(error)))


def _is_of_writing(error: OSError | RuntimeError, inside: Path | None) -> bool:
    if not isinstance(error, OSError):
        return _is_torch_writer(error)
    if inside is None or error.errno in _DISK:
        return True
    if error.filename is None:
        # not a subclass, such as the errors of HTTP libraries
        return error.errno is None and type(error) is OSError
    return isinstance(error.filename, str) and Path(error.filename).is_relative_to(inside)
