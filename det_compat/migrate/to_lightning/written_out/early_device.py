"""The device of a process, before there is a Trainer that knows it."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.written_out.definitions import Definition, with_definitions
from det_compat.migrate.tree import syntax

#: What asks for it.
OF_PROCESS = "device_of_process()"
_NAME = OF_PROCESS.removesuffix("()")
# A Trainer that is told nothing takes the same one.
_TEXT = """\
def device_of_process():
    \"""The device that Lightning gives this process, unless a Trainer is told another.\"""
    if torch.backends.mps.is_available():
        return torch.device("mps", 0)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")
"""


def with_device(tree: cst.Module, file: LightningFile) -> cst.Module:
    """The file with the function, if anything in it calls that."""
    names = [_NAME] if _NAME in syntax.names_in(tree) else []
    known = {_NAME: Definition(_TEXT, ("import os", "import torch"))}
    return with_definitions(tree, file, names, known)
