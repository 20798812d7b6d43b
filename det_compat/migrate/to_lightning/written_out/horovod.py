"""What trials asked Horovod for, of torch's own processes."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.to_lightning.written_out.definitions import Definition, with_definitions
from det_compat.migrate.tree import syntax

_PACKAGE = "det_compat.horovod.hvd."
_REDUCED = "reduced_over_processes"
_REDUCED_TEXT = """\
def reduced_over_processes(tensor, average=True):
    \"""The mean of what every process has of a tensor, or its sum.\"""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return tensor.clone()
    total = torch.distributed.nn.functional.all_reduce(tensor.clone())
    size = torch.distributed.get_world_size()
    if average is False:
        return total
    return total / size if total.is_floating_point() else total // size
"""
_KNOWN = {
    _REDUCED: Definition(_REDUCED_TEXT, ("import torch", "import torch.distributed.nn.functional"))
}
_IS_ON = "torch.distributed.is_available() and torch.distributed.is_initialized()"
#: What is asked without an argument.
_ASKED = {
    "size": f"(torch.distributed.get_world_size() if {_IS_ON} else 1)",
    "rank": f"(torch.distributed.get_rank() if {_IS_ON} else 0)",
    "local_rank": 'int(os.environ.get("LOCAL_RANK", "0"))',
}
#: The parameters of Horovod's function that torch has something for, and the name of an operation.
_KNOWN_PARAMETERS = ("tensor", "average", "name")


def write_out_horovod(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Ask torch what a file asked Horovod for."""
    if not file.symbols.has_below(_PACKAGE.rstrip(".")):
        return tree
    asking = _Asking(file)
    tree = syntax.transformed(tree, asking)
    return with_definitions(tree, file, sorted(asking.used), _KNOWN)


class _Asking(LightningTransformer):
    def __init__(self, file: LightningFile) -> None:
        super().__init__(file)
        self.used: set[str] = set()

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        name = (self.symbols.path(updated.func) or "").removeprefix(_PACKAGE)
        if name in _ASKED and not updated.args:
            imported = "os" if "os." in _ASKED[name] else "torch"
            self.file.imports.new.add(f"import {imported}")
            return syntax.expression(_ASKED[name])
        if name != "allreduce":
            return updated
        given = {
            arg.keyword.value if arg.keyword else _KNOWN_PARAMETERS[min(index, 2)]: arg
            for index, arg in enumerate(updated.args)
        }
        starred = any(arg.star for arg in updated.args)
        if starred or "tensor" not in given or not given.keys() <= {*_KNOWN_PARAMETERS}:
            return updated
        self.used.add(_REDUCED)
        kept = [given[part] for part in ("tensor", "average") if part in given]
        args = syntax.without_commas(kept)
        return updated.with_changes(func=cst.Name(_REDUCED), args=args)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> syntax.Expression:
        if self.symbols.path(original) != f"{_PACKAGE}SyncBatchNorm":
            return updated
        self.file.imports.new.add("import torch")
        return syntax.expression("torch.nn.SyncBatchNorm")
