"""What becomes of an attribute of a context, and of other objects of Determined's."""

from __future__ import annotations

import ast

from det_compat.analysis.generations import CONTEXT, TrialClass
from det_compat.analysis.inference import Inference
from det_compat.analysis.scopes import Scope
from det_compat.analysis.values import Object
from det_compat.catalog.members import NOWHERE, OLD_ONLY, SUBCLASSED
from det_compat.catalog.support import has_member, of_member
from det_compat.check.dynamic import Dynamic
from det_compat.check.findings import Status, Support

_BAD = (Status.REFUSED, Status.UNKNOWN)
_OWN = Support(Status.SAME, "set by this code")


class Attributes:
    """Looks an attribute up in the table, in the light of the code around it."""

    def __init__(self, inference: Inference, dynamic: Dynamic) -> None:
        self._inference = inference
        self._dynamic = dynamic
        self._set_by_code = {
            (owner.owner, use.node.attr)
            for code in inference.codes
            for use in code.uses
            if isinstance(use.node, ast.Attribute) and isinstance(use.node.ctx, ast.Store)
            for owner in inference.evaluate(use.node.value, use.scope)
            if isinstance(owner, Object)
        } | dynamic.set_by_code

    def support(
        self, found: Object, name: str, scope: Scope, probe: bool = False
    ) -> Support | None:
        """The support of an attribute of an object; None if it is the user's own.

        ``probe`` says that the code does without it, if it is not there.
        """
        if found.owner in SUBCLASSED and not is_inherited(found.owner, name):
            return None
        support = of_member(found.owner, name)
        if support is OLD_ONLY and self._is_in_context_api(scope):
            note = "the context API does not have it: keep what wrap_...() returns"
            support = Support(Status.REFUSED, note, OLD_ONLY.link)
        if support.status not in _BAD:
            return support
        return self._in_spite_of(support, found, name, scope, probe)

    def _in_spite_of(
        self, support: Support, found: Object, name: str, scope: Scope, probe: bool
    ) -> Support:
        if (found.owner, name) in self._set_by_code:
            return _OWN
        if probe:
            return Support(Status.DIFFERENT, "asked for, and not there", support.link)
        if self._dynamic.is_probed(scope, name):
            return Support(Status.DIFFERENT, "used only where it is there", support.link)
        is_sure = support.status is Status.UNKNOWN and not found.guessed
        return NOWHERE if is_sure else support

    def _is_in_context_api(self, scope: Scope) -> bool:
        owner = scope.enclosing("class")
        hierarchy = self._inference.hierarchy
        if owner is None or not hierarchy.is_trial(owner):
            return False
        return TrialClass(owner, hierarchy).generation == CONTEXT


def is_inherited(owner: str, name: str) -> bool:
    """Whether an attribute of a user's class is Determined's.

    What only trials of 0.12 have is a helper of the user's own elsewhere.
    """
    return has_member(owner, name) and of_member(owner, name) is not OLD_ONLY
