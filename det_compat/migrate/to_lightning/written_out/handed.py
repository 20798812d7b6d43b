"""Methods of the context that a trial hands on, as methods of its module."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax

_METHODS = {
    "wrap_model": """\
def wrap_model(self, model):
    # which Lightning knows
    self.add_module(f"wrapped_{sum(1 for _ in self.children())}", model)
    return model
""",
    "step_optimizer": """\
def step_optimizer(self, optimizer, clip_grads=None, auto_zero_grads=True, scaler=None):
    if clip_grads is not None:
        clip_grads([p for group in optimizer.param_groups for p in group["params"]])
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
    if auto_zero_grads:
        optimizer.zero_grad()
""",
}


def write_out_handed(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Give a module the methods of the context that its class hands to other code.

    So are models wrapped that nothing else would show Lightning.
    """

    def written(node: cst.ClassDef) -> cst.ClassDef:
        called = {call.func for call in syntax.find(node, cst.Call)}
        free = _METHODS.keys() - syntax.methods(node).keys()
        used: set[str] = set()

        def handed(attribute: cst.Attribute) -> syntax.Expression:
            found = file.symbols.member(attribute)
            is_shown = attribute in called and found is not None and found[1] != "wrap_model"
            if found is None or found[1] not in free or is_shown:
                return attribute
            used.add(found[1])
            return syntax.expression(f"{file.symbols.module(found[0])}.{found[1]}")

        if node.name.value not in file.plans:
            return node
        changed = syntax.each(node, cst.Attribute, handed)
        more = [syntax.method(_METHODS[name]) for name in sorted(used)]
        return syntax.with_body(changed, [*syntax.body_of(changed), *more]) if more else node

    return syntax.each(tree, cst.ClassDef, written)
