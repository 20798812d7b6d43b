from __future__ import annotations

from typing import Any

import pytest

from det_compat.fit.checks import check_runnable
from det_compat.fit.errors import FitError
from det_compat.shared.masking import without_secrets
from tests.config.samples import parsed


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"hyperparameters": {"net": {"api_key": "hush"}}}, r"\['net'\]\['api_key'\]"),
        ({"environment": {"environment_variables": ["A=hush"]}}, "environment_variables"),
    ],
)
def test_a_copy_without_secrets_is_not_run(given: dict[str, Any], where: str) -> None:
    config = {"entrypoint": "model_def:Trial", "description": "********", **given}
    check_runnable(parsed(**config))
    with pytest.raises(FitError, match=f"without secrets: .*{where}"):
        check_runnable(parsed(**without_secrets(config)))
