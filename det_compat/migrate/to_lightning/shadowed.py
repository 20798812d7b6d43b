"""Methods that a class defines again further down: Python takes the last one."""

from collections.abc import Collection

import libcst as cst

from det_compat.migrate.tree import syntax


def without_shadowed(tree: cst.Module, trials: Collection[str]) -> cst.Module:
    """The tree without the methods of trials that are never called, as another takes their place.

    What they do would count as if it were done.
    """

    def left(node: cst.ClassDef) -> cst.ClassDef:
        body = syntax.body_of(node)
        methods = [line for line in body if isinstance(line, cst.FunctionDef)]
        # What the class itself names, or a decorator is given, may be an earlier one.
        named = {name for line in body if line not in methods for name in syntax.names_in(line)}
        named |= {n for line in methods for d in line.decorators for n in syntax.names_in(d)}
        last = {line.name.value: line for line in methods}
        kept = [
            line
            for line in body
            if not isinstance(line, cst.FunctionDef)
            or line is last[line.name.value]
            or line.decorators
            or line.name.value in named
        ]
        return syntax.with_body(node, kept) if len(kept) < len(body) else node

    def without(node: cst.ClassDef) -> cst.ClassDef:
        return left(node) if node.name.value in trials else node

    return syntax.each(tree, cst.ClassDef, without)
