"""What trials asked Horovod for, of torch's own processes."""

from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.to_lightning.written_out.definitions import Definition, with_definitions
from det_compat.migrate.tree import imports, syntax
from det_compat.migrate.tree.marks import marked

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


#: Horovod's own module, which Determined had started.
_OWN = "horovod.torch"
_LEFT = "Lightning starts no Horovod, which this needs: torch.distributed has its counterparts"


def write_out_horovod(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Ask torch what a file asked Horovod for."""
    is_named = file.plans and syntax.has_attribute(tree, "torch")
    own = _imported(tree) if is_named else {}
    if not own and not file.symbols.has_below(_PACKAGE.rstrip(".")):
        return tree
    asking = _Asking(file, own)
    tree = syntax.transformed(tree, asking)
    tree = syntax.each(tree, cst.SimpleStatementLine, asking.said) if own else tree
    return with_definitions(tree, file, sorted(asking.used), _KNOWN)


def _imported(tree: cst.Module) -> dict[str, str]:
    """The names that a file has of Horovod's own module, each with what Determined called it."""
    found = {}
    for line in syntax.find(tree, cst.SimpleStatementLine):
        for name, text in imports.imported(line) if _OWN in syntax.code(line) else ():
            path = text.removeprefix("from ").removeprefix("import ").partition(" import ")
            module, last = path[0].partition(" as ")[0], path[2].partition(" as ")[0]
            if module == _OWN or module.startswith(f"{_OWN}."):
                is_bare = name == "horovod"
                found[_OWN if is_bare else name] = f"{_PACKAGE}{last}".rstrip(".")
    return found


class _Asking(LightningTransformer):
    def __init__(self, file: LightningFile, own: Mapping[str, str]) -> None:
        super().__init__(file)
        self.used: set[str] = set()
        self._own = own
        self._named = set[str]()

    def _path(self, node: cst.BaseExpression) -> str:
        """What Determined called an expression; ``""`` for no name of Horovod's."""
        owner, _, last = syntax.code(node).rpartition(".")
        known = self._own.get(last) if not owner else self._own.get(owner) and f"{_PACKAGE}{last}"
        return self.symbols.path(node) or known or ""

    def said(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        """An import of Horovod's own module, with a mark where the file still has a use for it."""
        names = [name for name, _ in imports.imported(line) if _OWN in syntax.code(line)]
        return marked(line, _LEFT) if self._named & {*names} else line

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Module(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        lines = [line for line in updated.body if not imports.imported(line)]
        self._named = {name for line in lines for name in syntax.names_in(line)}
        return updated

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> syntax.Expression:
        return self._with_torch(original, updated)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        name = self._path(updated.func).removeprefix(_PACKAGE)
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
        return self._with_torch(original, updated)

    def _with_torch(
        self, original: cst.Name | cst.Attribute, updated: cst.Name | cst.Attribute
    ) -> syntax.Expression:
        if self._path(original) != f"{_PACKAGE}SyncBatchNorm":
            return updated
        self.file.imports.new.add("import torch")
        return syntax.expression("torch.nn.SyncBatchNorm")
