import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    """Take away the variable that pytest sets, which is another one than in fixtures."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)
