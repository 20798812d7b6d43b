"""Methods of classes that are no modules, under names that their bases have given up."""

from collections.abc import Iterator

from det_compat.migrate.review.project import Code, Finding, Text, methods
from det_compat.migrate.tree.symbols import new_name

_MESSAGE = "{0} calls this {1} now, since a LightningModule has another {2}: rename it"


def overridden(after: Code, text: Text) -> Iterator[Finding]:
    """The methods that override what a base, which is also one of modules, has renamed."""
    for node in text.classes.values():
        bases, others = after.ancestors(node)
        if "pl.LightningModule" in others:
            continue
        for name, method in methods(node).items():
            new = new_name(name)
            base = next((b for b in bases if b is not node and new in methods(b)), None)
            if base is not None and new not in methods(node):
                yield Finding(method.lineno, _MESSAGE.format(base.name, new, name))
