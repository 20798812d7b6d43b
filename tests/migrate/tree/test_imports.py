from __future__ import annotations

import libcst as cst
import pytest

from det_compat.migrate.tree.imports import without_unused


@pytest.mark.parametrize(
    ("before", "rewritten", "after"),
    [
        pytest.param(
            "import os\nfrom typing import Any, Dict\nx: Dict[str, Any] = os.environ\n",
            "import os\nfrom typing import Any, Dict\nx: Any = 1\n",
            "from typing import Any\nx: Any = 1\n",
            id="what nothing uses any more goes",
        ),
        pytest.param(
            "import os\nx = 1\n", "import os\ny = 1\n", "import os\ny = 1\n", id="it never was used"
        ),
        pytest.param(
            "x = 1\n", "import torch\nx = 1\n", "x = 1\n", id="an import of ours that nothing uses"
        ),
        pytest.param(
            "from a import B\nx = B\n",
            'from a import B\ndef f(x: "list[B]"): ...\n',
            'from a import B\ndef f(x: "list[B]"): ...\n',
            id="a type in a text",
        ),
        pytest.param(
            "from a import given\nx = given\n",
            "from a import given\ny = 1\n",
            "from a import given\ny = 1\n",
            id="another file imports it from here",
        ),
    ],
)
def test_imports_that_are_left_over(before: str, rewritten: str, after: str) -> None:
    made = without_unused(cst.parse_module(rewritten), before.encode(), {"given"})
    assert made.code == after
