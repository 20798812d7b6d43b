from __future__ import annotations

import libcst as cst
import pytest

from det_compat.migrate.tree.imports import ImportEdits, tidied, without_unused


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
            "x = 1\n",
            "import torch\nset_format('torch')\n",
            "set_format('torch')\n",
            id="a text that only has the name of a module",
        ),
        pytest.param(
            "from a import given\nx = given\n",
            "from a import given\ny = 1\n",
            "from a import given\ny = 1\n",
            id="another file imports it from here",
        ),
        pytest.param(
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import B\nx: B = 1\n",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import B\nx = 1\n",
            "x = 1\n",
            id="an import for type checkers, and with the last one what asks for them",
        ),
        pytest.param(
            "import typing\nif typing.TYPE_CHECKING:\n    from a import B, C\nx: 'B' = C\n",
            "import typing\nif typing.TYPE_CHECKING:\n    from a import B, C\nx = C\n",
            "import typing\nif typing.TYPE_CHECKING:\n    from a import C\nx = C\n",
            id="one of several",
        ),
        pytest.param(
            "import os\nif os.name:\n    from a import B\nx = B\n",
            "import os\nif os.name:\n    from a import B\nx = 1\n",
            "import os\nif os.name:\n    from a import B\nx = 1\n",
            id="what is imported on another condition",
        ),
    ],
)
def test_imports_that_are_left_over(before: str, rewritten: str, after: str) -> None:
    made = without_unused(rewritten.encode(), before.encode(), {"given"})
    assert made.decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import os\n\nimport torch\nimport yaml\n"
            "from determined import pytorch\nfrom z import y\n",
            "import os\n\nimport pytorch_lightning as pl\nimport torch\nimport yaml\n"
            "from torch.utils.data import DataLoader\nfrom z import y\n",
            id="among sorted imports",
        ),
        pytest.param(
            "import os\n\nimport torch\nfrom torch import nn\n\n"
            "from determined import pytorch\n\n\nx = 1\n",
            "import os\n\nimport pytorch_lightning as pl\nimport torch\nfrom torch import nn\n"
            "from torch.utils.data import DataLoader\n\n\nx = 1\n",
            id="among those of torch",
        ),
        pytest.param(
            "import yaml\nimport torch\nfrom determined import pytorch\nimport nn\n",
            "import pytorch_lightning as pl\nimport yaml\nimport torch\n"
            "from torch.utils.data import DataLoader\nimport nn\n",
            id="in the place of Determined's",
        ),
        pytest.param(
            "import os\n\nfrom determined import pytorch\nimport determined\n\nimport own\n",
            "import os\n\nimport pytorch_lightning as pl\nfrom torch.utils.data import DataLoader\n"
            "\nimport own\n",
            id="a group of their own",
        ),
        pytest.param(
            "import os\n\n\nx = os\n",
            "import os\n\nimport pytorch_lightning as pl\n"
            "from torch.utils.data import DataLoader\n\n\nx = os\n",
            id="behind the standard library's",
        ),
        pytest.param(
            "def f():\n    pass\n",
            "import pytorch_lightning as pl\nfrom torch.utils.data import DataLoader\n\n\n"
            "def f():\n    pass\n",
            id="without others",
        ),
    ],
)
def test_new_imports_have_their_place(before: str, after: str) -> None:
    edits = ImportEdits()
    edits.new |= {"import pytorch_lightning as pl", "from torch.utils.data import DataLoader"}
    assert tidied(cst.parse_module(before), edits).code == after
