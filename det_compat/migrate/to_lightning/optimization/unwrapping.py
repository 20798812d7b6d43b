"""The wrappers taken off: Lightning wraps what it needs to, and is shown what it would not see."""

import libcst as cst

from det_compat.migrate.line_length import INDENT, dedented
from det_compat.migrate.to_lightning.optimization.containers import (
    handed_out,
    hidden,
    hides,
    kept_plain,
    of_object,
)
from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.reducers.kinds import metric_class, unread_classes
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import FileTransformer, Line, Lines
from det_compat.migrate.tree.marks import PRECISION, PRECISION_LINK, without_word_of_wrapping
from det_compat.migrate.tree.trial_attributes import values_of

_WRAPPERS = {
    "wrap_model": "model",
    "wrap_optimizer": "optimizer",
    "wrap_lr_scheduler": "lr_scheduler",
    "wrap_scaler": "scaler",
    "wrap_reducer": "reducer",
    "experimental.wrap_reducer": "reducer",
}


#: What a module does with what is wrapped, and does not where no trial keeps it.
_NEEDED = {
    "wrap_optimizer": "configure_optimizers must return this optimizer",
    "wrap_lr_scheduler": "this LR scheduler must be stepped",
    "wrap_reducer": "a module must log what this reducer computes",
    "experimental.wrap_reducer": "a module must log what this reducer computes",
}


def unwrap(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Take the wrappers off: Lightning wraps what it needs to."""
    return syntax.transformed(tree, _Unwrapping(file))


_CONTAINERS = (
    ((cst.List, cst.ListComp), "ModuleList"),
    ((cst.Dict, cst.DictComp), "ModuleDict"),
)


class _Unwrapping(FileTransformer[LightningFile]):
    def __init__(self, file: LightningFile) -> None:
        super().__init__(file)
        self._lists: set[str] = set()
        self._made: dict[str, list[cst.BaseExpression]] = {}
        self._plain: set[str] = set()
        self._hidden: set[cst.Call] = set()
        self._loose: set[cst.Call] = set()

    def visit_Module(self, node: cst.Module) -> None:
        self._plain = kept_plain(node, self.symbols)
        self._made = values_of(node)
        for each in syntax.find(node, cst.ClassDef):
            if each.name.value in self.file.plans:
                self._hidden |= hidden(each, self.symbols, self._made, self._plain)
        functions = (each for each in node.body if isinstance(each, cst.FunctionDef))
        self._loose = {call for each in functions for call in handed_out(each, self.symbols)}

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        found = wrappings(node, self.symbols)
        # Of ``nets["d"]`` and ``nets.values()``, the dict.
        names = {w.attribute.partition("[")[0] for w in found if w.member == "wrap_model"}
        self._lists |= {name.removesuffix(".values()") for name in names}

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Leave out what was only made to be wrapped, as a scaler is that does not scale."""
        super().leave_FunctionDef(original, updated)
        for call in self.symbols.calls(original, "wrap_scaler"):
            made = syntax.argument(call, 0, "scaler")
            left = [line for line in syntax.body_of(updated) if not _makes(line, made)]
            if isinstance(made, cst.Name) and not any(
                made.value in syntax.names_in(line) for line in left
            ):
                updated = syntax.with_body(updated, left)
        return updated

    def leave_ListComp(self, original: cst.ListComp, updated: cst.ListComp) -> cst.BaseExpression:
        """A list of all that something has, which were wrapped one by one."""
        every = _all_of(updated)
        # Of models it may become a ModuleList.
        if every is None or not self.symbols.calls(original.elt, "wrap_optimizer"):
            return updated
        return syntax.expression(f"list({syntax.code(every)})")

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        """A list of models is a ModuleList, a dict a ModuleDict, or Lightning does not see them."""
        for index, _ in enumerate([*syntax.pairs(updated)]):
            # What has been put in place of one value has made new nodes of all the others.
            target, value = [*syntax.pairs(updated)][index]
            if value is updated.value and all(
                each.target is not target for each in updated.targets
            ):
                # What is unpacked at once is kept as no list.
                continue
            if (seen := self._seen(target, value)) is not value:
                updated = syntax.with_node(updated, value, seen)
        return updated

    def leave_AnnAssign(self, original: cst.AnnAssign, updated: cst.AnnAssign) -> cst.AnnAssign:
        """As for an assignment without an annotation."""
        value = updated.value
        seen = value and self._seen(updated.target, value)
        return updated if seen is value else updated.with_changes(value=seen)

    def _seen(self, target: cst.BaseExpression, value: cst.BaseExpression) -> cst.BaseExpression:
        attribute = syntax.code(target).partition(".")[2]
        made = next((name for kinds, name in _CONTAINERS if isinstance(value, kinds)), "")
        if attribute not in self._lists or not made or attribute in self._plain:
            return value
        self.file.imports.new.add("import torch")
        is_empty = isinstance(value, (cst.List, cst.Dict)) and not value.elements
        text = "" if is_empty else syntax.code(_all_of(value) or value)
        return syntax.expression(f"torch.nn.{made}({text})")

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        is_bare = isinstance(small, cst.Expr) and isinstance(small.value, (cst.Name, cst.Attribute))
        was_call = syntax.call_of(original) is not None
        if shown := self._is_trial() and of_object(original, self.symbols):
            kept = [] if syntax.is_idle(updated) else [updated]
            return cst.FlattenSentinel([*kept, syntax.statement(shown)])
        if (syntax.is_idle(updated) and not syntax.is_idle(original)) or (is_bare and was_call):
            return cst.RemoveFromParent()
        if not self.symbols.calls(original, *_WRAPPERS):
            return updated
        # Nothing is wrapped here any more.
        return without_word_of_wrapping(updated)

    def _is_trial(self) -> bool:
        return any(node.name.value in self.file.plans for node in self.classes)

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If | cst.RemovalSentinel:
        """A condition on which something was only wrapped asks for nothing any more."""
        otherwise = updated.orelse
        if isinstance(otherwise, cst.Else) and not getattr(otherwise.body, "body", ()):
            updated = updated.with_changes(orelse=None)
        is_empty = updated.orelse is None and not getattr(updated.body, "body", ())
        return cst.RemoveFromParent() if is_empty else updated

    def leave_For(self, original: cst.For, updated: cst.For) -> cst.For | cst.RemovalSentinel:
        """A loop in which things were only wrapped goes through them for nothing."""
        is_empty = updated.orelse is None and not getattr(updated.body, "body", ())
        return cst.RemoveFromParent() if is_empty else updated

    def leave_Attribute(
        self, original: cst.Attribute, updated: cst.Attribute
    ) -> cst.Attribute | cst.Name:
        """Leave a parameter that wraps models: it is given the module's own method for that."""
        holder = self.symbols.held_by(updated) if updated.attr.value == "wrap_model" else ""
        params = (each for f in self.functions for each in syntax.find(f.params, cst.Param))
        return cst.Name(holder) if holder in {each.name.value for each in params} else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        member = self.symbols.method(updated)
        if member == "configure_apex_amp":
            return self._without_apex(updated)
        name = _WRAPPERS.get(member)
        wrapped = syntax.argument(updated, 0, name) if name else None
        if wrapped is None or original in self._hidden:
            # A method of the module shows Lightning what is hidden.
            return updated
        if member in _NEEDED and not self._is_trial():
            self.mark(_NEEDED[member])
        elif original in self._loose or (
            member == "wrap_model" and not self._is_trial() and hides(self.classes)
        ):
            self.mark("Lightning must be given this model, in an attribute of the module")
        if name == "reducer" and (metric := metric_class(wrapped, self.file, self._made)):
            unread = unread_classes(wrapped, self.file, self._made)
            if not unread:
                return syntax.expression(f"{metric}({syntax.code(wrapped)})")
            for made in unread:
                self.mark(f"{made} is in none of these files, and has to be a torchmetrics.Metric")
        if not _depth(updated):
            return wrapped
        # What stands below the call stays deeper than the statement.
        depth = _depth(wrapped)
        return dedented(wrapped, min(INDENT, max(depth - INDENT, 0)) if depth else INDENT)

    def _without_apex(self, call: cst.Call) -> cst.BaseExpression:
        models = syntax.argument(call, 0, "models")
        optimizers = syntax.argument(call, 1, "optimizers")
        if models is None or optimizers is None:
            return call
        self.mark(PRECISION, PRECISION_LINK)
        return syntax.expression(f"({syntax.code(models)}, {syntax.code(optimizers)})")


def _all_of(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a list is made from that has all of it as it is; None if it is another one."""
    if not isinstance(value, cst.ListComp):
        return None
    loop = value.for_in
    is_same = isinstance(loop.target, cst.Name) and loop.target.deep_equals(value.elt)
    is_all = not (loop.ifs or loop.inner_for_in or loop.asynchronous)
    return loop.iter if is_same and is_all else None


def _depth(node: cst.BaseExpression) -> int:
    """How deep the arguments of a call stand below its statement; 0 if they follow the bracket."""
    space = node.whitespace_before_args if isinstance(node, cst.Call) else None
    return len(space.last_line.value) if isinstance(space, cst.ParenthesizedWhitespace) else 0


def _makes(line: cst.BaseStatement, made: cst.BaseExpression | None) -> bool:
    """Whether a statement does nothing but call what makes the value of a variable."""
    is_call = isinstance(getattr(syntax.simple(line), "value", None), cst.Call)
    return is_call and made is not None and syntax.target_of(line) == syntax.code(made)
