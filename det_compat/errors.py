"""Exceptions that trials raise and catch, and those raised for invalid trials."""

import os
from collections.abc import Iterable, Mapping
from typing import Any


class InvalidHP(Exception):
    """Raised by a trial whose hyperparameters turn out unusable: training stops in good order.

    Raises:
        TypeError: ``msg`` is no string.
    """

    def __init__(self, msg: str = "...") -> None:
        if not isinstance(msg, str):
            raise TypeError(
                f"InvalidHP takes its message as a str, got {type(msg).__name__}: "
                "use InvalidHP(str(...))"
            )
        # As in Determined 0.38.1, one that is given no text shows none.
        self.msg = msg


class InternalException(Exception):
    """Something is wrong that a trial has no part in; det_compat raises NotThereYetError only.

    The text is that of Determined 0.38.1.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = (
            f"Internal error: {message}. Please reach out to the Determined AI team for help."
        )

    def __str__(self) -> str:
        return self.message


class NotThereYetError(InternalException):
    """The trial asked for something at a time when, or in a run where, it is not there."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidExperimentException(Exception):
    """The trial or its configuration cannot be trained.

    In Determined 0.38.1 it derives from BaseException; here ``except Exception`` catches it.
    """


class InvalidDataTypeException(InvalidExperimentException):
    """The trial returned data of a type that it may not return."""

    def __init__(self, typ: type, message: str) -> None:
        super().__init__(f"Invalid data type ({typ.__name__}): {message}.")


class InvalidConfigurationException(InvalidExperimentException):
    """The experiment configuration cannot be used."""

    def __init__(self, config: Mapping[str, Any], message: str) -> None:
        super().__init__(f"Invalid configuration ({config}): {message}.")


class InvalidModelException(InvalidExperimentException):
    """The model is invalid or of a kind that is not supported."""


class InvalidLoaderError(InvalidExperimentException, RuntimeError):
    """The trial returned a loader that has no batch.

    Attributes:
        is_on_all_ranks: whether every rank raises it, in the same words.
    """

    def __init__(self, message: str, *, is_on_all_ranks: bool = False) -> None:
        super().__init__(message)
        self.is_on_all_ranks = is_on_all_ranks


class InvalidCheckpointException(Exception):
    """A checkpoint cannot be used."""

    def __init__(self, message: str = "Invalid checkpoint.") -> None:
        super().__init__(message)


class CorruptCheckpointError(InvalidCheckpointException):
    """A file of a checkpoint is there and cannot be read: it is cut off, or something else."""


class UnfinishedCheckpointError(InvalidCheckpointException):
    """A checkpoint is there in part only: its writing or its deletion was interrupted."""


class CheckpointWriteError(OSError):
    """A checkpoint could not be written; those written before are as they were.

    ``errno`` is that of the cause, if it has one.
    """


class UnsafeCheckpointError(InvalidCheckpointException):
    """A file of a checkpoint asks for code that only a caller who trusts it may have run.

    Args:
        path: the file.
        asked: the functions and classes that it asks for, as ``module.name``.
        reason: what else it does, if it asks for none.
    """

    def __init__(
        self, path: str | os.PathLike[str], asked: Iterable[str] = (), reason: str = ""
    ) -> None:
        self.path = os.fspath(path)
        self.asked = sorted(asked)
        self.reason = reason
        super().__init__()
        self.args = (self.path, self.asked, self.reason)

    def __str__(self) -> str:
        what = f"it asks for {', '.join(self.asked)}" if self.asked else self.reason
        return (
            f"{self.path} was not loaded, since loading it could run code: {what}. If you trust "
            "whoever made it, load it with trust=True, --trust on the command line, or "
            "DET_COMPAT_TRUST_CHECKPOINTS=1 in the environment of a script"
        )


class NotSupportedError(RuntimeError):
    """Code used what det_compat does not have of Determined; it says what to do instead."""


class StopLoadingImplementation(Exception):
    """Ends the import of a script once the trial class in it is known."""


# The rest of Determined 0.38.1's: nothing here raises them, and code may raise and catch them.


class WorkerError(Exception):
    """A process of a trial failed, and nobody knows why."""


class WorkerFinishedGracefully(Exception):
    """A process of a trial has ended in good order."""


class SkipWorkloadException(Exception):
    """A trial asks to leave out a part of its work."""


class EnterpriseOnlyError(Exception):
    """A cluster lacks what its enterprise edition has."""


class CheckpointNotFound(Exception):
    """There is no such checkpoint in a storage."""


class CheckpointStateException(Exception):
    """A checkpoint is in a state in which this cannot be done with it."""


class NoDirectStorageAccess(Exception):
    """A checkpoint storage cannot be reached from here."""


class ProxiedDownloadFailed(Exception):
    """A checkpoint could not be fetched by way of the master."""


class MultipleDownloadsFailed(Exception):
    """A checkpoint could not be fetched in any way."""
