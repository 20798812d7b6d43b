"""How a trial has its other processes started, which may be said once in a process.

Determined made one trial in a process. A module is made again by ``load_from_checkpoint()``, and
beside others in a notebook or a test.
"""

from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.tree import syntax

_SETTER = "set_start_method"


def said_again(node: cst.ClassDef, imported: Mapping[str, frozenset[str]]) -> cst.ClassDef:
    """A trial that says it also where it has been said, given the paths that names stand for.

    Code that expects an error stays as it is.
    """
    calls = syntax.find(node, cst.Call)
    if not any(syntax.code(call.func).endswith(_SETTER) for call in calls):
        return node
    if any(_SETTER in syntax.code(each) for each in syntax.find(node, cst.Try)):
        return node

    def forced(call: cst.Call) -> cst.Call:
        root, _, rest = syntax.code(call.func).partition(".")
        paths = {f"{path}.{rest}".rstrip(".") for path in imported.get(root, ())}
        is_one = any(path.endswith(f"multiprocessing.{_SETTER}") for path in paths)
        is_open = any(arg.star for arg in call.args)
        if not is_one or is_open or syntax.argument(call, 1, "force") is not None:
            return call
        force = cst.Arg(
            cst.Name("True"),
            cst.Name("force"),
            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
        )
        return call.with_changes(args=[*syntax.without_commas(call.args), force])

    return syntax.each(node, cst.Call, forced)
