"""Exceptions that trials raise and catch, and those raised for invalid trials."""

from __future__ import annotations

from collections.abc import Mapping
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
        super().__init__(msg)
        self.msg = msg


class InternalException(Exception):
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
        super().__init__(f"Invalid data type {typ.__name__}: {message}")


class InvalidConfigurationException(InvalidExperimentException):
    """The experiment configuration cannot be used."""

    def __init__(self, config: Mapping[str, Any], message: str) -> None:
        super().__init__(f"Invalid configuration {config}: {message}")


class InvalidModelException(InvalidExperimentException):
    """The model is invalid or of a kind that is not supported."""


class InvalidCheckpointException(Exception):
    """A checkpoint cannot be used."""

    def __init__(self, message: str = "Invalid checkpoint.") -> None:
        super().__init__(message)


class StopLoadingImplementation(Exception):
    """Ends the import of a script once the trial class in it is known."""
