"""Where PEDL's trials get their data from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from det_compat.adapters.generations.pedl_run import download, find_function, make_loaders
from det_compat.errors import InvalidExperimentException
from det_compat.pedl.run import Run
from det_compat.pytorch import DataLoader
from tests.adapters.trials import rows


def download_data(experiment_config: dict[str, Any], hparams: dict[str, Any]) -> str:
    return "/data"


class Trial:
    """It only has a module."""


@pytest.mark.parametrize("path", ["no_such_module:load", "json:no_such_name", "json", ":x"])
def test_an_entrypoint_that_is_not_there_is_named(path: str) -> None:
    conf = {"entrypoints": {"data_loaders_function": path}}
    with pytest.raises(
        InvalidExperimentException, match=r"entrypoints\.data_loaders_function names"
    ):
        find_function("make_data_loaders", Trial, None, conf)


def test_functions_of_a_base_class_are_found() -> None:
    module = ModuleType("pedl_elsewhere")
    derived = type("Derived", (Trial,), {"__module__": module.__name__})
    sys.modules[module.__name__] = module
    try:
        assert find_function("download_data", derived, None, {}) is download_data
        module.download_data = "nothing to call"
        with pytest.raises(TypeError, match="PEDL's download_data must be a function, got str"):
            find_function("download_data", derived, None, {})
    finally:
        del sys.modules[module.__name__]


def ranks(local_rank: int, told: Any = None) -> Any:
    """Ranks of which this one is told ``told``, or what it tells."""
    return SimpleNamespace(
        local_rank=local_rank, broadcast_local=lambda stuff: told if local_rank else stuff
    )


def test_only_the_first_process_of_a_machine_downloads() -> None:
    calls = []

    def function(experiment_config: Any, hparams: Any) -> Any:
        calls.append("download")
        return Path("/data")

    assert download(function, Run(), ranks(0)) == "/data"
    assert download(function, Run(), ranks(1, ("/data", None))) == "/data"
    assert calls == ["download"]


def test_a_failed_download_ends_every_process() -> None:
    def function(experiment_config: Any, hparams: Any) -> Any:
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        download(function, Run(), ranks(0))
    with pytest.raises(RuntimeError, match=r"first process of this machine: OSError\('no network'"):
        download(function, Run(), ranks(1, (None, "OSError('no network')")))


@pytest.mark.parametrize("path", [None, 3])
def test_download_data_must_return_a_directory(path: Any) -> None:
    with pytest.raises(InvalidExperimentException, match=r"download_data\(.*\) -> str .* got "):
        download(lambda experiment_config, hparams: path, Run(), ranks(0))


def test_torch_loaders_are_taken_with_all_that_they_were_given() -> None:
    given: dict[str, Any] = {
        "num_workers": 1,
        "collate_fn": list,
        "worker_init_fn": print,
        "generator": torch.Generator(),
        "prefetch_factor": 3,
        "persistent_workers": True,
        "timeout": 5,
    }
    loader = torch.utils.data.DataLoader(rows(), batch_size=3, drop_last=True, **given)
    run = Run()
    made, validation = make_loaders(lambda experiment_config, hparams: [loader, loader], run)
    assert isinstance(made, DataLoader) and isinstance(validation, DataLoader)
    assert made.worker_init_fn._then is print and made.worker_init_fn._run is run
    names = given.keys() - {"worker_init_fn"}
    assert {name: getattr(made, name) for name in names} == {name: given[name] for name in names}
    assert len(made) == 5


def test_the_loader_that_was_returned_is_not_changed() -> None:
    loader = DataLoader(rows(), num_workers=1)
    made, _ = make_loaders(lambda: (loader, loader), Run())
    assert made is not loader and loader.worker_init_fn is None


@pytest.mark.parametrize("data", [rows(), 3, torch.utils.data.DataLoader(rows(), batch_size=None)])
def test_other_loaders_are_refused(data: Any) -> None:
    ours = DataLoader(rows())
    with pytest.raises(InvalidExperimentException, match=r"PEDL's contract.*the validation loader"):
        make_loaders(lambda: (ours, data), Run())
