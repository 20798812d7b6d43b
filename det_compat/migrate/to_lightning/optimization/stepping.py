"""Steps of optimizers: the lines that they stand for."""

import re
from collections.abc import Collection, Iterator, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.optimization import gradients
from det_compat.migrate.to_lightning.optimization.accumulation import Accumulation, when_due
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import FileTransformer, Line, Lines
from det_compat.migrate.tree.marks import above


def clipping(
    clip: cst.BaseExpression | None,
    optimizer: str,
    file: LightningFile,
    taken: Collection[str] = (),
) -> list[str]:
    """The lines that clip gradients as ``clip_grads`` did.

    Args:
        clip: what was given.
        optimizer: the expression of the optimizer.
        file: whose functions are known.
        taken: the names of variables around, which are not to be overwritten.
    """
    if clip is None or syntax.code(clip) == "None":
        return []
    if isinstance(clip, cst.IfExp):
        test = syntax.code(clip.test)
        arms = [clipping(arm, optimizer, file, taken) for arm in (clip.body, clip.orelse)]
        first, others = ([f"    {line}" for line in arm] for arm in arms)
        if not first:
            return [f"if not ({test}):", *others] if others else []
        if isinstance(clip.orelse, cst.IfExp) and others:
            return [f"if {test}:", *first, f"el{arms[1][0]}", *arms[1][1:]]
        return [f"if {test}:", *first, *(["else:", *others] if others else [])]
    params = _free("params", taken)
    lines = [f'{params} = [p for group in {optimizer}.param_groups for p in group["params"]]']
    if isinstance(clip, cst.Lambda) and len(clip.params.params) == 1:
        given = clip.params.params[0].name.value
        lines.append(syntax.code(syntax.replaced(clip.body, given, params)))
    elif _is_function(clip, file):
        lines.append(f"{syntax.code(clip)}({params})")
    else:
        is_kept = isinstance(clip, (cst.Name, cst.Attribute))
        name = syntax.code(clip) if is_kept else _free("clip_grads", taken)
        if name != syntax.code(clip):
            lines.append(f"{name} = {syntax.code(clip)}")
        lines += [f"if {name} is not None:", f"    {name}({params})"]
    return lines


def _is_function(clip: cst.BaseExpression, file: LightningFile) -> bool:
    """Whether it is sure to be a function, where an attribute may be None at times."""
    owner, _, name = syntax.code(clip).rpartition(".")
    if not owner:
        return name in file.functions
    is_known = name in file.functions or name in file.elsewhere.functions
    return isinstance(clip, cst.Attribute) and (is_known or owner.partition(".")[0] in file.names)


def _free(name: str, taken: Collection[str]) -> str:
    """This name, or a longer one, that no variable around has."""
    while name in taken:
        name = f"stepped_{name}"
    return name


def always_made(tree: cst.Module) -> set[str]:
    """The names of variables and attributes that a file sets to results of calls alone."""
    kinds: tuple[type[cst.For] | type[cst.CompFor], ...] = (cst.For, cst.CompFor)
    others = {name for kind in kinds for n in syntax.find(tree, kind) for name in _names(n.target)}
    others.update(param.name.value for param in syntax.find(tree, cst.Param))
    made: set[str] = set()
    for line in syntax.find(tree, cst.Assign):
        for target, value in syntax.pairs(line):
            (made if isinstance(value, cst.Call) else others).update(_names(target))
    for node in syntax.find(tree, cst.AnnAssign):
        is_made = node.value is None or isinstance(node.value, cst.Call)
        (made if is_made else others).update(_names(node.target))
    return made - others


def _names(target: cst.BaseExpression) -> set[str]:
    """The last part of what is set, or all names in something that is taken apart."""
    return {target.attr.value} if isinstance(target, cst.Attribute) else syntax.names_in(target)


def _step(
    optimizer: str,
    scaler: cst.BaseExpression | None,
    made: Collection[str],
    taken: Collection[str],
    there: Collection[str],
) -> list[str]:
    """The lines that step: by the scaler if there is one, which Determined asked at run time.

    Where some code around has asked already, what it is written as is ``there``.
    """
    if scaler is None or syntax.code(scaler) == "None":
        return [f"{optimizer}.step()"]
    lines, name = [], syntax.code(scaler)
    if isinstance(scaler, (cst.Name, cst.Attribute)):
        if name in there or _names(scaler) <= {*made}:
            return [f"{name}.step({optimizer})"]
    elif isinstance(scaler, cst.Call):
        return [f"{name}.step({optimizer})"]
    else:
        variable = _free("scaler", taken)
        lines, name = [f"{variable} = {syntax.whole(name)}"], variable
    plain, scaled = f"    {optimizer}.step()", f"    {name}.step({optimizer})"
    return [*lines, f"if {name} is None:", plain, "else:", scaled]


def _written_out(
    call: cst.Call, file: LightningFile, taken: Collection[str], there: Collection[str]
) -> list[str] | None:
    """What ``step_optimizer`` does, line by line; None if it is called in an unknown way."""
    optimizer, scaler = syntax.argument(call, 0, "optimizer"), syntax.argument(call, 3, "scaler")
    zero = syntax.argument(call, 2, "auto_zero_grads")
    if optimizer is None or any(given.star for given in call.args):
        return None
    name = syntax.code(optimizer)
    lines = clipping(syntax.argument(call, 1, "clip_grads"), name, file, taken)
    lines += _step(name, scaler, file.made, taken, there)
    if gradients.zeroes_gradients(call):
        lines.append(f"{name}.zero_grad()")
    elif zero is not None and syntax.code(zero) != "False":
        lines += [f"if {syntax.code(zero)}:", f"    {name}.zero_grad()"]
    return lines


def write_out_steps(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Write out the steps outside of trial classes, in callbacks for example."""
    return syntax.transformed(tree, _Stepping(file))


class _Stepping(FileTransformer[LightningFile]):
    """Writes out every ``step_optimizer`` that is a statement.

    ``own`` is what a method calls a module that steps once in several batches. One that ``trains``
    takes its backward passes by the module, which shares gradients with other processes there.
    """

    def __init__(
        self,
        file: LightningFile,
        own: str = "",
        accumulation: Accumulation | None = None,
        *,
        trains: bool = False,
    ) -> None:
        super().__init__(file)
        self._own = own
        self._accumulation = accumulation
        self._trains = trains
        self._there: list[str] = []
        self._asked: dict[cst.CSTNode, str] = {}

    def visit_If(self, node: cst.If) -> None:
        self._asked[node.body] = _is_there(node.test)
        if isinstance(node.orelse, cst.Else):
            self._asked[node.orelse.body] = _is_there(node.test, "is")

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self._there.append(self._asked.get(node, ""))

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        self._there.pop()
        return updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        func = updated.func
        # What is given a loss is no loss.
        is_plain = all(arg.keyword is not None for arg in updated.args)
        if not self._trains or not isinstance(func, cst.Attribute) or not is_plain:
            return updated
        loss = func.value
        own = {self._own, f"super({self._own})", "super()"}
        if func.attr.value != "backward" or syntax.code(loss) in own or self.symbols.get(loss):
            return updated
        manual = syntax.expression(f"{self._own}.manual_backward")
        return updated.with_changes(func=manual, args=[cst.Arg(loss), *updated.args])

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call = syntax.lone_call(updated)
        if call is None or self.symbols.method(call) != "step_optimizer":
            return updated
        lines = self._lines(call)
        if lines is None:
            return updated
        last, beside = lines[-1], updated.trailing_whitespace
        if isinstance(last, cst.SimpleStatementLine):
            lines[-1] = last.with_changes(trailing_whitespace=beside)
        elif beside.comment is not None:
            lines[0] = above(lines[0], [cst.EmptyLine(comment=beside.comment)])
        lines[0] = above(lines[0], updated.leading_lines)
        return cst.FlattenSentinel(lines)

    def _lines(self, call: cst.Call) -> list[cst.BaseStatement] | None:
        taken = {name for method in self.functions for name in syntax.local_names(method)}
        lines = _written_out(call, self.file, taken, self._there)
        optimizer = syntax.argument(call, 0, "optimizer")
        if lines is None or optimizer is None or self._accumulation is None:
            return syntax.statements("\n".join(lines) + "\n") if lines is not None else None
        due = when_due(lines, self._own, syntax.code(optimizer), self._accumulation)
        return syntax.statements("\n".join(due) + "\n")


def _is_there(test: cst.BaseExpression, operator: str = "is not") -> str:
    """What is not None where a test has come out as this operator says; ``""`` for nothing."""
    if isinstance(test, (cst.Name, cst.Attribute)):
        return syntax.code(test) if operator == "is not" else ""
    found = re.fullmatch(rf"([\w.]+) {operator} None", syntax.code(test))
    return found[1] if found else ""


def _targets(method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """What a method sets, each by itself."""
    targets = [found.target for found in syntax.find(method, cst.AssignTarget)]
    targets += [found.target for found in syntax.find(method, cst.AnnAssign)]
    for target in targets:
        yield from syntax.parts(target)


def asks_where_it_steps(
    own: Mapping[str, cst.FunctionDef], plan: TrialPlan, file: LightningFile
) -> bool:
    """Whether the methods that step can ask Lightning for the optimizers that a class has made.

    Lightning counts the steps of those that it has wrapped. All others are to look at the
    attributes alone, which keep what was made for the next ``fit``.
    """
    optimizers = plan.all_optimizers
    names = "|".join(optimizers)
    if plan.lacking_optimizers or _asked(optimizers, file):
        return False
    if not optimizers or not names.replace("|", "").isidentifier():
        return False
    for name, method in own.items():
        members = map(file.symbols.member, syntax.find(method.body, cst.Attribute))
        is_open = any(member is not None and member[1] == "optimizers" for member in members)
        if is_open or "setattr" in syntax.names_in(method.body) or asks_by_name(method):
            return False
        own_ones = {f"{syntax.self_name(method)}.{each}" for each in optimizers}
        targets = [each for each in _targets(method) if isinstance(each, cst.Attribute)]
        if not own_ones.isdisjoint(syntax.code(each.value) for each in targets):
            # What is set on a wrapper is not on the optimizer, where others would look for it.
            return False
        if _steps(method, plan, file):
            is_set = not own_ones.isdisjoint(map(syntax.code, targets))
            if is_set or syntax.names_in(method.body) & {*optimizers}:
                return False
        elif name not in plan.early and _does_more(method, optimizers):
            return False
    return True


def asks_by_name(node: cst.CSTNode) -> bool:
    """Whether a method asks its object for attributes whose names are known at run time."""
    own = syntax.self_name(node) if isinstance(node, cst.FunctionDef) else "self"
    calls = (call for call in syntax.find(node, cst.Call) if syntax.is_name(call.func, "getattr"))
    given = ([arg.value for arg in call.args[:2]] for call in calls if len(call.args) > 1)
    return any(
        syntax.is_name(owner, own) and not isinstance(name, cst.SimpleString)
        for owner, name in given
    )


def _steps(method: cst.FunctionDef, plan: TrialPlan, file: LightningFile) -> bool:
    """Whether a method steps optimizers, or may, and runs where Lightning can be asked for them."""
    if file.symbols.calls(method, "step_optimizer"):
        return True
    name = method.name.value
    is_plain = name in plan.training - {*plan.early} and _does_more(method, plan.all_optimizers)
    return is_plain and not _asked((name,), file)


def _asked(names: Collection[str], file: LightningFile) -> set[str]:
    """Those of some members of a trial that code elsewhere may ask it for.

    What another class of the project has, too, is asked of that.
    """
    around = file.elsewhere
    others = [text for name, text in around.texts.items() if name not in file.trials]
    return {
        name
        for name in {*names} & around.asked
        if not any(re.search(rf"\bdef {name}\(self|\bself\.{name}\s*=", t) for t in others)
    }


def _does_more(method: cst.FunctionDef, optimizers: Collection[str]) -> bool:
    """Whether a method steps one of these attributes, or hands it on.

    Whatever else an optimizer has, Lightning's wrapper has from it.
    """
    names = "|".join(map(re.escape, optimizers))
    more = rf"\b{syntax.self_name(method)}\.({names})\b(?!\.(?!step\b)\w)"
    return bool(optimizers) and re.search(more, syntax.code(method.body)) is not None


def with_optimizers(
    method: cst.FunctionDef, plan: TrialPlan, file: LightningFile, asks: bool
) -> cst.FunctionDef:
    """A method with its steps written out.

    It asks Lightning for the optimizers it steps if it ``asks``.
    """
    own, optimizers = syntax.self_name(method), plan.own.optimizers
    steps = _steps(method, plan, file)
    stepped = [name for name in optimizers if steps and syntax.mentions(method, f"{own}.{name}")]
    trains = not (plan.is_automatic or plan.is_mixin) and method.name.value in plan.training
    # An object of the project's own may have such a method, and be no loss.
    trains &= not any("def backward(self" in text for text in file.elsewhere.texts.values())
    changed = syntax.transformed(method, _Stepping(file, own, plan.accumulation, trains=trains))
    if not asks or not stepped or syntax.names_in(method.body) & {*optimizers}:
        return changed
    for attribute in stepped:
        changed = syntax.replaced(changed, f"{own}.{attribute}", attribute)
    names = [name if name in stepped else "_" for name in optimizers]
    first = syntax.statements(f"{', '.join(names)} = {own}.optimizers()\n")
    return syntax.with_body(changed, syntax.below_docstring(syntax.body_of(changed), first))


def keeps_gradients(node: cst.ClassDef, plan: TrialPlan, file: LightningFile) -> bool:
    """Whether gradients may be there when a validation starts, which Lightning clears."""
    own, symbols, texts = syntax.methods(node), file.symbols, file.elsewhere.texts
    every = plan.all_optimizers
    trains = plan.is_root or "train_batch" in own
    above = [each for each in plan.ancestors[1:] if each.is_root and not each.is_mixin]
    if any(not each.is_whole and len(each.all_optimizers) > 1 for each in above):
        # A base that has several has the hook for all of its heirs.
        return False
    if plan.accumulation is not None:
        return plan.is_root
    if trains and "add_param_group" in file.elsewhere.asked:
        return True
    if not trains or (len(every) < 2 and not "".join(every).startswith("*")):
        return gradients.may_be_kept(own, symbols)
    # The backward pass of one may go through the models of another.
    if plan.is_whole and gradients.are_zeroed_first(own, every, symbols, texts):
        return False
    has_heirs = any(plan in each.ancestors[1:] for each in file.trials.values())
    return has_heirs or not gradients.are_emptied(node, every, symbols, texts)
