"""Data files: those beside the modules that read them, and JSON that may be damaged."""

import json
from pathlib import Path
from typing import Any


def object_in(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is no file, or something else in it."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def data_beside(module_file: str, name: str) -> Any:
    """What the file ``name`` in the folder of a module holds, given the module's file."""
    text = Path(module_file).with_name(name).read_text("utf-8")
    if name.endswith(".json"):
        return json.loads(text)
    import yaml

    # Many processes read tables when they start: libyaml does it in a tenth of the time.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
