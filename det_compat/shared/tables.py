"""Tables that are data: YAML files beside the modules that read them."""

from pathlib import Path
from typing import Any

import yaml


def table_beside(module_file: str, name: str) -> Any:
    """What the YAML file ``name`` in the folder of a module holds, given the module's file."""
    # Every start of det_compat reads tables: libyaml does it in a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(Path(module_file).with_name(name).read_text("utf-8"), loader)
