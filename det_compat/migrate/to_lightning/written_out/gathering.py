"""What processes tell each other, by functions that a file gets."""

from det_compat.migrate.to_lightning.written_out.definitions import Definition

_IMPORTS = ("import torch", "import torch.distributed")
_BROADCAST = """\
def broadcast_by_chief(value):
    \"""What the first process gives, in all of them.\"""
    found = [value]
    if torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(found, src=0)
    return found[0]
"""
_ALL = """\
def gathered_by_all(value):
    \"""What all processes give, in their order.\"""
    if not torch.distributed.is_initialized():
        return [value]
    found = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, value)
    return found
"""
_CHIEF = """\
def gathered_by_chief(value):
    \"""What all processes give, in the first of them; None in the others.\"""
    found = gathered_by_all(value)
    is_chief = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
    return found if is_chief else None
"""
#: The functions in the place of methods of ``context.distributed``.
GATHERING = {
    "distributed.broadcast": "broadcast_by_chief",
    "distributed.allgather": "gathered_by_all",
    "distributed.gather": "gathered_by_chief",
}
DEFINITIONS = {
    "broadcast_by_chief": Definition(_BROADCAST, _IMPORTS),
    "gathered_by_all": Definition(_ALL, _IMPORTS),
    "gathered_by_chief": Definition(_CHIEF, _IMPORTS, ("gathered_by_all",)),
}
