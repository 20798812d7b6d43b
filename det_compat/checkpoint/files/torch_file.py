"""Files written by ``torch.save``, read without running code from them."""

import contextlib
import errno
import io
import itertools
import os
import pickle
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, BinaryIO

import torch

from det_compat.checkpoint.files.limits import check_archive, check_extent
from det_compat.checkpoint.files.pickles import UNREADABLE, Global, globals_in_pickle
from det_compat.checkpoint.files.safe_globals import allowed, without_substitutes
from det_compat.checkpoint.files.tuples import DeepTupleError, check_tuples
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)

# The unpicklers raise these on garbage. An error of the operating system is not among them.
_GARBAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.PickleError,
    struct.error,
)
_Path = str | os.PathLike[str]
# They are the magic number, the protocol, the system, the object and the keys of the storages.
_LEGACY_PICKLES = 5


def load_torch_file(
    path: _Path,
    *,
    trust: bool = False,
    map_location: Any = "cpu",
    file: BinaryIO | None = None,
    **torch_load_kwargs: Any,
) -> Any:
    """The content of a file of ``torch.save``, in the form of torch 1.6 and later or the older one.

    Tensors and plain values are read, and what Determined itself stored: the random state's NumPy
    arrays, NumPy scalars, and the function in the state of OneCycleLR of torch before 2.0, which
    becomes its name.

    Args:
        path: the file; what errors name it, if ``file`` is given.
        trust: load whatever is in it, which may run code.
        map_location: where tensors go, as ``torch.load`` takes it.
        file: an open, seekable file to read instead.
        **torch_load_kwargs: other arguments of ``torch.load``. ``weights_only=False`` is ``trust``.

    Raises:
        CorruptCheckpointError: it is no such file, is cut off, or stands for far more than it has.
        FileNotFoundError: there is none.
        UnsafeCheckpointError: it asks for code to run.
    """
    if file is None:
        with open(path, "rb") as opened:
            given = {"trust": trust, "map_location": map_location, **torch_load_kwargs}
            return load_torch_file(path, file=opened, **given)
    trust |= torch_load_kwargs.pop("weights_only", True) is False
    if torch_load_kwargs.get("mmap") and not _is_zip(file):
        del torch_load_kwargs["mmap"]  # Files of the older form cannot be mapped.
    if not trust:
        _refuse_other_archives(path, file)
        _refuse_large_entries(path, file)
        _refuse_deep_tuples(path, file)
    _refuse_changed_entries(path, file)
    try:
        return _load(path, file, map_location, trust, torch_load_kwargs)
    except (*_GARBAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # EINVAL is a seek to before the start, in a file that is cut off.
        changed = map_location != "cpu" or bool(torch_load_kwargs)
        if not trust and changed and _loads(path, file):
            raise  # It loads without the arguments, so they are wrong.
        raise _explained(path, file, error, trust) from error


def _load(path: _Path, file: BinaryIO, map_location: Any, trust: bool, more: Any) -> Any:
    file.seek(0)
    source: Any = os.fspath(path) if more.get("mmap") else file
    kwargs = {"map_location": map_location, "weights_only": not trust, **more}
    if trust:
        return torch.load(source, **kwargs)
    with allowed(), warnings.catch_warnings():
        # A file of another protocol is read or refused; neither needs a warning.
        warnings.filterwarnings("ignore", "Detected pickle protocol", UserWarning)
        return without_substitutes(check_extent(path, torch.load(source, **kwargs)))


def _loads(path: _Path, file: BinaryIO) -> bool:
    try:
        _load(path, file, "cpu", False, {})
    except (*_GARBAGE, OSError):
        return False
    return True


def _refuse_other_archives(path: _Path, file: BinaryIO) -> None:
    """Refuse what torch before 2.6 loads in other ways, past ``weights_only``."""
    if _is_tar(file):
        raise InvalidCheckpointException(
            f"{path} is a tar archive, as torch before 0.2 wrote: no Determined did"
        )
    if any(name.endswith("/constants.pkl") for name in _zip_names(file)):
        raise InvalidCheckpointException(
            f"{path} is a TorchScript archive, a program and not a state; expected a file of "
            "torch.save"
        )


def _refuse_large_entries(path: _Path, file: BinaryIO) -> None:
    with contextlib.suppress(zipfile.BadZipFile, ValueError, NotImplementedError):
        check_archive(path, _archive(file), file.seek(0, os.SEEK_END))


def _refuse_deep_tuples(path: _Path, file: BinaryIO) -> None:
    try:
        for one in pickles(file):
            check_tuples(one)
    except DeepTupleError as error:
        raise CorruptCheckpointError(f"{path} is corrupt: {error}") from error
    except (*UNREADABLE, IndexError):
        return  # It is no file of torch.save, which is told below.


def _refuse_changed_entries(path: _Path, file: BinaryIO) -> None:
    """Refuse an archive some of whose entries are not what their checksums say.

    Where all differ, torch was told to write none.
    """
    try:
        with _archive(file) as archive:
            entries = [info for info in archive.infolist() if info.file_size]
            changed = [info.filename for info in entries if not _is_intact(archive, info)]
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return  # It is of the older form, or garbage, which is told below.
    if changed and len(changed) < len(entries):
        raise CorruptCheckpointError(
            f"{path} is damaged: the checksum of {changed[0]} in it is that of other content"
        )


def _is_intact(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    try:
        with _entry(archive, info) as entry:
            while entry.read(2**20):
                pass
    except zipfile.BadZipFile:
        return False
    return True


def _is_zip(file: BinaryIO) -> bool:
    """Whether torch takes a file for an archive: by its start, whatever is at its end."""
    file.seek(0)
    return file.read(4) == b"PK\x03\x04"


def _archive(file: BinaryIO) -> zipfile.ZipFile:
    """The archive that torch reads a file as.

    Raises:
        zipfile.BadZipFile: it is none.
    """
    if not _is_zip(file):
        raise zipfile.BadZipFile("torch reads it as the older form")
    return zipfile.ZipFile(file)


@contextlib.contextmanager
def _entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """An entry of an archive.

    Raises:
        zipfile.BadZipFile: it cannot be read.
    """
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile(f"{info.filename} is encrypted, or packed as torch cannot read")
    try:
        with archive.open(info) as file:
            yield file
    except (zlib.error, EOFError, NotImplementedError) as error:
        raise zipfile.BadZipFile(f"{info.filename}: {error}") from error


def _is_tar(file: BinaryIO) -> bool:
    file.seek(0)
    try:
        tarfile.open(fileobj=file, mode="r:").close()
    except (tarfile.TarError, ValueError, OverflowError):
        return False
    return True


def _zip_names(file: BinaryIO) -> list[str]:
    try:
        with _archive(file) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return []


def _explained(path: _Path, file: BinaryIO, error: Exception, trust: bool) -> Exception:
    if trust and isinstance(error, (ImportError, AttributeError)):
        return InvalidCheckpointException(
            f"{path} needs code that cannot be imported here: {error}"
        )
    corrupt = CorruptCheckpointError(
        f"{path} is corrupt or cut off, or was not written by torch.save: {_said(error)}"
    )
    if trust:
        return corrupt
    try:
        asked = unsafe_globals(file)
    except UNREADABLE:
        return corrupt
    if asked:
        return UnsafeCheckpointError(path, asked)
    # torch 2.4 tells of an end that comes too soon as of something that it does not allow.
    is_cut_off = "The file might be corrupted" in str(error)
    if isinstance(error, pickle.UnpicklingError) and not is_cut_off:
        return UnsafeCheckpointError(path, reason=_said(error))
    return corrupt


def _said(error: Exception) -> str:
    text = str(error).split("WeightsUnpickler error:")[-1].strip() or "no more is known"
    first = text.splitlines()[0]
    return (
        first if isinstance(error, pickle.UnpicklingError) else f"{type(error).__name__}: {first}"
    )


def unsafe_globals(file: BinaryIO) -> list[str]:
    """What a file asks for beyond what ``load_torch_file`` allows; nothing of it is loaded.

    Raises:
        ValueError, OverflowError, MemoryError: it is no file of ``torch.save``, or is cut off.
    """
    found = globals_in_torch_file(file)
    with allowed():
        return sorted({str(item) for item in found if not _is_allowed(item)})


def globals_in_torch_file(file: BinaryIO) -> set[Global]:
    """All functions and classes that a file asks for.

    Raises:
        ValueError, OverflowError, MemoryError: it is no file of ``torch.save``, or is cut off.
    """
    found: set[Global] = set()
    try:
        for one in pickles(file):
            found |= globals_in_pickle(one)
    except UNREADABLE:
        if not found:
            raise
    return found


def pickles(file: BinaryIO) -> Iterable[BinaryIO]:
    """The pickles in a file of ``torch.save``, each as a file at the position where it begins."""
    file.seek(0)
    names = [name for name in _zip_names(file) if name.rpartition("/")[2] == "data.pkl"]
    if not names:
        file.seek(0)
        return itertools.repeat(file, _LEGACY_PICKLES)
    with _archive(file) as archive:
        try:
            return [_content(archive, archive.getinfo(name)) for name in names]
        except zipfile.BadZipFile as error:
            raise ValueError(str(error)) from error


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    with _entry(archive, info) as entry:
        return io.BytesIO(entry.read())


def _is_allowed(item: Global) -> bool:
    """Whether ``torch.load(weights_only=True)`` takes it; it is named in a file, and not called."""
    named = f"c{item.module}\n{item.name}\n.".encode("utf-8", "surrogateescape")
    parts = [torch.serialization.MAGIC_NUMBER, torch.serialization.PROTOCOL_VERSION, {}]
    head = b"".join(pickle.dumps(part, protocol=2) for part in parts)
    try:
        torch.load(io.BytesIO(head + b"\x80\x02" + named + pickle.dumps([], 2)), weights_only=True)
    except _GARBAGE:
        return False
    return True
