"""Experiment configs without the secrets that people keep in them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MASK = "********"

_SECRET_KEYS = re.compile(
    "access_key|connection_string|credentials?|password|registry_auth|secret_key|token"
)
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")


def without_secrets(config: Any) -> Any:
    """A copy of ``config`` that has ``********`` in place of every secret; all else is kept.

    Secrets are the values of ``access_key``, ``secret_key``, ``credential``, ``credentials``,
    ``connection_string``, ``password``, ``token`` and ``registry_auth``, the values of
    ``environment_variables`` and of ``env`` in a ``pod_spec``, whose names are kept, and passwords
    in URLs. Empty values stay as they are.

    Args:
        config: an experiment config, or a part of one, of plain types.
    """
    return _masked(config, in_pod=False)


def holds_secrets(file: Path) -> bool:
    """Whether a YAML or JSON file has what ``without_secrets`` hides; False if it is neither."""
    import yaml

    try:
        documents = list(yaml.safe_load_all(file.read_text("utf-8")))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return False
    return any(without_secrets(document) != document for document in documents)


def _masked(value: Any, in_pod: bool) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked_entry(key, item, in_pod) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_masked(item, in_pod) for item in value])
    if isinstance(value, str):
        return _PASSWORD_IN_URL.sub(rf"\1:{MASK}@", value)
    return value


def _masked_entry(key: Any, value: Any, in_pod: bool) -> Any:
    name = key.lower() if isinstance(key, str) else ""
    if _SECRET_KEYS.fullmatch(name):
        return MASK if value not in (None, "", {}, []) else value
    if name == "environment_variables":
        return _masked_variables(value)
    if name == "env" and in_pod and isinstance(value, list):
        return [_masked_pod_variable(variable) for variable in value]
    return _masked(value, in_pod or name == "pod_spec")


def _masked_variables(variables: Any) -> Any:
    """``NAME=value`` in lists, by device in mappings; or a mapping of names to values."""
    if isinstance(variables, Mapping):
        return {name: _masked_variables(value) for name, value in variables.items()}
    if isinstance(variables, (list, tuple)):
        return [_masked_assignment(item) for item in variables]
    return MASK if variables is not None else None


def _masked_assignment(assignment: Any) -> Any:
    if not isinstance(assignment, str):
        return _masked_variables(assignment)
    name, equals, _ = assignment.partition("=")
    return f"{name}{equals}{MASK}" if equals else name


def _masked_pod_variable(variable: Any) -> Any:
    if isinstance(variable, Mapping) and "value" in variable:
        return {**variable, "value": MASK}
    return variable
