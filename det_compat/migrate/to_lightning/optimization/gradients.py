"""Gradients that a validation needs: Lightning's inference mode has none."""

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import marked

_GRADIENTS = ("torch.enable_grad()", "torch.set_grad_enabled(True)")
_INFERENCE = "Lightning validates in inference mode: this needs pl.Trainer(inference_mode=False)"


def with_gradients(method: cst.FunctionDef) -> cst.FunctionDef:
    """A method that a validation calls, with inference mode left where it asks for gradients.

    A batch that is made in inference mode has none even so.
    """
    batch = [param.name.value for param in method.params.params[1:2]]
    return syntax.transformed(method, _Gradients(batch))


class _Gradients(cst.CSTTransformer):
    def __init__(self, batch: list[str]) -> None:
        self._batch = batch

    def leave_With(self, original: cst.With, updated: cst.With) -> cst.With:
        at = [syntax.code(item.item) in _GRADIENTS for item in original.items]
        if not any(at):
            return updated
        before, after = updated.items[: at.index(True)], updated.items[at.index(True) :]
        leaving = cst.WithItem(syntax.expression("torch.inference_mode(False)"))
        items = syntax.without_commas([*before, leaving, *after])
        updated = updated.with_changes(items=items)
        needs = syntax.names_in(original.body) & {*self._batch}
        return marked(updated, _INFERENCE) if needs else updated
