"""``determined.gpu``: the GPUs of this machine, as the drivers' own tools tell them."""

import csv
import json
import logging
import subprocess
from typing import NamedTuple

logger = logging.getLogger("determined")

__all__ = ["GPU", "get_gpu_uuids", "get_gpus"]

_FIELDS = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total")


class GPU(NamedTuple):
    """A GPU: its number, its UUID, and how much of its time and memory is taken, from 0 to 1."""

    id: int
    uuid: str
    load: float
    memoryUtil: float


def get_gpus() -> tuple[list[GPU], str]:
    """The GPUs and their kind, ``cuda`` or ``rocm``; an empty list and an empty string for none."""
    for kind, found in (("cuda", _nvidia), ("rocm", _rocm)):
        if gpus := found():
            return gpus, kind
    return [], ""


def get_gpu_uuids() -> list[str]:
    """The UUIDs of the GPUs, in the order of their numbers."""
    return [gpu.uuid for gpu in sorted(get_gpus()[0], key=lambda gpu: gpu.id)]


def _nvidia() -> list[GPU]:
    query = f"--query-gpu={','.join(_FIELDS)}"
    text = _output("nvidia-smi", query, "--format=csv,noheader,nounits")
    gpus = []
    for row in csv.reader(text.splitlines()):
        try:
            number, uuid, load, used, total = (field.strip() for field in row)
            share = _number(used, 0.0) / _number(total, 1.0)
            gpus.append(GPU(int(number), uuid, _number(load, 0.0) / 100, share))
        except ValueError:
            logger.warning(f"Ignoring unexpected nvidia-smi output: {row}")
    return gpus


def _rocm() -> list[GPU]:
    text = _output("rocm-smi", "--showid", "--showuniqueid", "--json")
    try:
        cards = json.loads(text or "{}")
        return [GPU(int(name[4:]), card["Unique ID"], 0, 0) for name, card in cards.items()]
    except (ValueError, KeyError) as error:
        logger.warning(f"failed to parse rocm-smi json output: {error}, content: {text}")
        return []


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""
    except (OSError, subprocess.CalledProcessError) as error:
        logger.warning(f"detected 0 gpus (error with {command[0]}: {error})")
        return ""


def _number(text: str, default: float) -> float:
    """A number; ``default`` for a word such as ``[N/A]``."""
    try:
        return float(text)
    except ValueError:
        return default
