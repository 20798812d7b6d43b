from __future__ import annotations

import pytest

from det_compat.config import ConfigError
from det_compat.config.document import from_mapping


def test_mappings_that_were_loaded_already() -> None:
    assert from_mapping({1: (2, 3), "a": {"b": None}}).value == {"1": [2, 3], "a": {"b": None}}
    endless: dict[str, object] = {}
    endless["a"] = endless
    wrong = [None, [1], {"a": object()}, {"a": float("nan")}, {"a": {1, 2}}, endless]
    for config in wrong:
        with pytest.raises(ConfigError):
            from_mapping(config)
