"""Methods of the context that a trial hands on, as methods of its module."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.taken.reserved import RESERVED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols

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


def _kept(node: cst.ClassDef, symbols: Symbols) -> cst.ClassDef:
    """A trial with attributes for the models that it wraps, and has in variables alone."""
    init = syntax.methods(node).get("__init__")
    if init is None:
        return node
    own, body = syntax.self_name(init), list[cst.BaseStatement]()
    taken = {each.attr.value for each in syntax.find(node, cst.Attribute)} | {*RESERVED}
    for line in syntax.body_of(init):
        call, name = syntax.call_of(line), syntax.target_of(line) or ""
        model = call.args[0].value if call is not None and len(call.args) == 1 else None
        is_wrapped = symbols.method(call) == "wrap_model" and name.isidentifier()
        if model is None or not is_wrapped or name in {*taken, *syntax.methods(node)}:
            body.append(line)
            continue
        is_same = syntax.code(model) == name
        small = syntax.simple(line)
        assert small is not None
        plain = line.with_deep_changes(small, value=model)
        keeps = syntax.statement(f"{own}.{name} = {name}")
        comments = getattr(line, "leading_lines", ())
        body += [above(keeps, comments)] if is_same else [plain, keeps]
        taken.add(name)
    is_other = any(a is not b for a, b in zip(body, syntax.body_of(init), strict=False))
    return syntax.with_node(node, init, syntax.with_body(init, body)) if is_other else node


def write_out_handed(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Give a module the methods of the context that its class hands to other code.

    So are models wrapped that nothing else would show Lightning.
    """

    def written(node: cst.ClassDef) -> cst.ClassDef:
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
        node = _kept(node, file.symbols)
        called = {call.func for call in syntax.find(node, cst.Call)}
        changed = syntax.each(node, cst.Attribute, handed)
        more = [syntax.method(_METHODS[name]) for name in sorted(used)]
        return syntax.with_body(changed, [*syntax.body_of(changed), *more]) if more else node

    return syntax.each(tree, cst.ClassDef, written)
