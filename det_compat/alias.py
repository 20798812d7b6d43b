"""``import determined`` finds det_compat: what goes where, and what is refused.

Three tables say it all: the modules of ``determined`` and where they lead, single names that live
elsewhere in det_compat, and what is refused, with what to use instead. ``model_hub`` is a package
of its own and is not aliased: see MIGRATION.md#model_hub.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The version of Determined that the aliased ``determined.__version__`` tells.
DETERMINED_VERSION = "0.38.1"

_PACKAGES = ("determined", "determined_common", "pedl")
_WRITERS = "determined.tensorboard.metric_writers"

# None: the module has the names of _NAMES and nothing else. The underscored ones are here because
# trials import from them, and because pickles made under Determined name them.
_MODULES: dict[str, str | None] = {
    "determined": None,
    "determined._execution": "det_compat.errors",
    "determined._import": "det_compat.import_path",
    "determined._info": "det_compat.info",
    "determined._trial_context": None,
    "determined.common": "det_compat.common",
    "determined.core": "det_compat.core",
    "determined.core._checkpoint": "det_compat.core",
    "determined.core._context": "det_compat.core",
    "determined.core._distributed": "det_compat.core",
    "determined.core._preempt": "det_compat.core",
    "determined.core._train": "det_compat.core",
    "determined.errors": "det_compat.errors",
    "determined.horovod": "det_compat.horovod",
    "determined.pytorch": "det_compat.pytorch",
    "determined.pytorch._callback": "det_compat.pytorch",
    "determined.pytorch._data": "det_compat.pytorch",
    "determined.pytorch._experimental": "det_compat.pytorch",
    "determined.pytorch._load": "det_compat.pytorch",
    "determined.pytorch._lr_scheduler": "det_compat.pytorch",
    "determined.pytorch._pytorch_context": "det_compat.pytorch",
    "determined.pytorch._pytorch_trial": "det_compat.pytorch",
    "determined.pytorch._reducer": "det_compat.pytorch",
    "determined.pytorch._trainer": "det_compat.pytorch",
    "determined.pytorch._trainer_utils": "det_compat.pytorch",
    "determined.pytorch.samplers": "det_compat.pytorch.samplers",
    "determined.tensorboard": "det_compat.tensorboard",
    _WRITERS: "det_compat.tensorboard.metric_writers",
    f"{_WRITERS}.pytorch": "det_compat.tensorboard.metric_writers.pytorch",
    "determined.util": "det_compat.util",
    "pedl": "det_compat.pedl",
    "pedl.frameworks": None,
    "pedl.frameworks.pytorch": "det_compat.pedl.frameworks.pytorch",
    "pedl.frameworks.pytorch.data": "det_compat.pedl.frameworks.pytorch.data",
    "pedl.frameworks.pytorch.util": "det_compat.pedl.frameworks.pytorch.util",
}

_NAMES = {
    "determined.ClusterInfo": "det_compat.info:ClusterInfo",
    "determined.InvalidHP": "det_compat.errors:InvalidHP",
    "determined.LOG_FORMAT": "det_compat:LOG_FORMAT",
    "determined.RendezvousInfo": "det_compat.info:RendezvousInfo",
    "determined.ResourcesInfo": "det_compat.info:ResourcesInfo",
    "determined.TrialContext": "det_compat.pytorch:PyTorchTrialContext",
    "determined.TrialInfo": "det_compat.info:TrialInfo",
    "determined.__version__": "det_compat.alias:DETERMINED_VERSION",
    "determined._trial_context.TrialContext": "det_compat.pytorch:PyTorchTrialContext",
    "determined.get_cluster_info": "det_compat.info:get_cluster_info",
    "determined.import_from_path": "det_compat.import_path:import_from_path",
}

_HOROVOD = (
    "leave Horovod out: under torchrun a plain `pytorch.init()` distributes the trial.",
    "MIGRATION.md#determinedhorovod",
)
_DEEPSPEED = (
    "DeepSpeed trials are not supported: write it as a PyTorchTrial, or use Lightning's "
    "DeepSpeedStrategy.",
    "MIGRATION.md#determinedpytorchdeepspeed",
)
_KERAS = (
    "Keras and TensorFlow are not supported: only PyTorchTrial is.",
    "MIGRATION.md#determinedkeras",
)
_CORE_API = (
    "the Core API needs a Determined cluster: train with `pytorch.init()` and `pytorch.Trainer`.",
    "MIGRATION.md#determinedcore",
)
_CLUSTER = (
    "it talks to a Determined cluster, and there is none.",
    "MIGRATION.md#determinedcommon-determinedcli-determineddeploy",
)
_TRIAL_INTERNALS = (
    "it is a part of Determined's own trial runner: use `determined.pytorch`, and "
    "`context.get_experiment_config()`, which is a plain dict here.",
    "MIGRATION.md#names-that-are-not-there",
)
_PEDL_SEARCH = (
    "Experiment.create() trains one trial, and searches no hyperparameters: use "
    "`pedl.Constant(value=..., name=...)`.",
    "MIGRATION.md#pedl",
)
_UNKNOWN = (
    "if your code needs it, replace it as described.",
    "MIGRATION.md#names-that-are-not-there",
)

_REFUSED = {
    "determined.EnvContext": _TRIAL_INTERNALS,
    "determined.ExperimentConfig": _TRIAL_INTERNALS,
    "determined.LegacyTrial": _TRIAL_INTERNALS,
    "determined.TrialController": _TRIAL_INTERNALS,
    "determined.cli": _CLUSTER,
    "determined.common": _CLUSTER,
    "determined.core": _CORE_API,
    "determined.deploy": _CLUSTER,
    "determined.estimator": _KERAS,
    "determined.exec": _CLUSTER,
    "determined.experimental": (
        "it is the client of a Determined cluster: checkpoints and metrics are local files here.",
        "MIGRATION.md#determinedexperimental",
    ),
    "determined.horovod": _HOROVOD,
    "determined.keras": _KERAS,
    "determined.launch": (
        "start the script with `torchrun --nproc_per_node=N --no-python det-compat run SCRIPT`.",
        "MIGRATION.md#determinedlaunch",
    ),
    "determined.layers": _TRIAL_INTERNALS,
    "determined.lightning": (
        "Lightning runs your LightningModule as it is: give it to `pl.Trainer`.",
        "MIGRATION.md#determinedlightning",
    ),
    "determined.pytorch.deepspeed": _DEEPSPEED,
    "determined.pytorch.dsat": _DEEPSPEED,
    "determined.pytorch.experimental": (
        "torch_batch_process is not supported: iterate over a torch DataLoader, or use "
        "`pl.Trainer().predict`.",
        "MIGRATION.md#determinedpytorchexperimental",
    ),
    "determined.pytorch.lightning": (
        "LightningAdapter is not supported: give the LightningModule to `pl.Trainer`.",
        "MIGRATION.md#determinedlightning",
    ),
    f"{_WRITERS}.tensorflow": _KERAS,
    "determined_common": (
        "it came with the first releases of Determined: write `assert a == b` for "
        "`check.eq(a, b)`, and so on.",
        "MIGRATION.md#determined_common",
    ),
    "determined.transformers": (
        "use the `transformers.Trainer` without DetCallback.",
        "MIGRATION.md#determinedtransformers",
    ),
    "pedl.Categorical": _PEDL_SEARCH,
    "pedl.Double": _PEDL_SEARCH,
    "pedl.Integer": _PEDL_SEARCH,
    "pedl.Log": _PEDL_SEARCH,
    "pedl.frameworks.keras": _KERAS,
    "pedl.frameworks.tensorflow": _KERAS,
    "pedl.frameworks.tensorpack": _KERAS,
}


def alias_determined() -> None:
    """Make ``import determined`` find det_compat in this process, installed or not.

    So does ``import pedl``, Determined's name before its first release; ``determined_common``,
    which came with the first ones, is refused.

    Call it before anything imports ``determined``; further calls do nothing. Modules are loaded
    when they are first used: ``import determined`` alone does not import torch. What det_compat
    does not have raises ImportError or AttributeError, with what to use instead.

    Raises:
        RuntimeError: the real ``determined`` is imported already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    # None stands for an import that was blocked
    real = [name for name in sys.modules if _is_determined(name) and sys.modules[name] is not None]
    if real:
        where = getattr(sys.modules[real[0]], "__file__", None) or "unknown file"
        raise RuntimeError(
            f"alias_determined() came too late: {real[0]} ({where}) is already imported, and its "
            "classes do not mix with det_compat's. Call det_compat.alias_determined() before the "
            "first import of determined, or run the script with `det-compat run SCRIPT`."
        )
    for package in _PACKAGES:
        sys.modules.pop(package, None)
    sys.meta_path.insert(0, _Finder())
    importlib.import_module("determined")


def _is_determined(name: str) -> bool:
    return name.partition(".")[0] in _PACKAGES


def modules() -> dict[str, str | None]:
    """The modules that are aliased, each with the module of det_compat that has its names."""
    return dict(_MODULES)


def single_names() -> dict[str, str]:
    """Names that live elsewhere in det_compat, as ``module:name``."""
    return dict(_NAMES)


def advice(name: str) -> tuple[str, str]:
    """What to do without ``name``, by the nearest of its parents in the table; where to read on."""
    parent = name
    while parent and parent not in _REFUSED:
        parent = parent.rpartition(".")[0]
    return _REFUSED.get(parent, _UNKNOWN)


def _refusal(name: str) -> str:
    """Why det_compat has no ``name``."""
    instead, link = advice(name)
    return f"det_compat has no {name}: {instead} See {link}."


class _DeterminedModule(ModuleType):
    """A module of ``determined`` whose names are looked up in det_compat on every access."""

    def __getattr__(self, name: str) -> Any:
        full_name = f"{self.__name__}.{name}"
        if full_name in _MODULES:
            return importlib.import_module(full_name)
        if full_name in _NAMES:
            home, _, attribute = _NAMES[full_name].partition(":")
            return getattr(importlib.import_module(home), attribute)
        if name == "__all__":
            return _names_of(self.__name__)
        # the import system and inspect probe every module for dunder names
        if not name.startswith("__") and name in _names_of(self.__name__):
            return getattr(_target(self.__name__), name)
        raise AttributeError(_refusal(full_name), name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_names_of(self.__name__)})


def _target(module: str) -> ModuleType | None:
    target = _MODULES[module]
    return importlib.import_module(target) if target else None


def _names_of(module: str) -> list[str]:
    """The public names of an aliased module, those of its submodules included."""
    listed = [name.rpartition(".") for name in (*_MODULES, *_NAMES)]
    own = [name for parent, _, name in listed if parent == module and not name.startswith("_")]
    return sorted({*own, *_public_names(_target(module))})


def _public_names(module: ModuleType | None) -> list[str]:
    if module is None or hasattr(module, "__all__"):
        return getattr(module, "__all__", [])
    found = vars(module).items()
    return [name for name, value in found if getattr(value, "__module__", "") == module.__name__]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for the packages of _PACKAGES and everything below them, and for nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_determined(fullname):
            return None
        if fullname not in _MODULES:
            # a ModuleNotFoundError would be swallowed by `from determined import NAME`
            raise ImportError(_refusal(fullname), name=fullname)
        # as packages, whose submodules are asked for here: that is where the refusals come from
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _DeterminedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        _target(module.__name__)
