"""Errors that say which checkpoint could not be written, and why."""

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path

from det_compat.errors import CheckpointWriteError

#: What the system says to those who write, and to nobody else.
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_DISK = NO_ROOM | {errno.EIO, errno.ENODEV}
# torch.save raises RuntimeError for all that its writer in C++ cannot do.
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
        # torch's own message tells positions in the file; its context has what the system said.
        context = error.__context__
        cause = context if _is_torch_writer(error) and isinstance(context, OSError) else error
        kept = f"the previous one, {previous}, is kept" if previous else "earlier ones are kept"
        failure = CheckpointWriteError(
            f"could not write checkpoint {location}: {cause}. It was removed; {kept}"
        )
        failure.errno = cause.errno if isinstance(cause, OSError) else None
        raise failure from error


def _is_torch_writer(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and bool(_TORCH_WRITER.search(str(error)))


def _is_of_writing(error: OSError | RuntimeError, inside: Path | None) -> bool:
    if not isinstance(error, OSError):
        return _is_torch_writer(error)
    if inside is None or error.errno in _DISK:
        return True
    if error.filename is None:
        # Its subclasses, such as the errors of HTTP libraries, are of something else.
        return error.errno is None and type(error) is OSError
    return isinstance(error.filename, str) and Path(error.filename).is_relative_to(inside)
