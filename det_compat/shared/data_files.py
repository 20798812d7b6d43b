"""Data files: YAML or JSON beside the modules that read them."""

import json
from pathlib import Path
from typing import Any


def data_beside(module_file: str, name: str) -> Any:
    """What the file ``name`` in the folder of a module holds, given the module's file."""
    text = Path(module_file).with_name(name).read_text("utf-8")
    if name.endswith(".json"):
        return json.loads(text)
    import yaml

    # Many processes read tables when they start: libyaml does it in a tenth of the time.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
