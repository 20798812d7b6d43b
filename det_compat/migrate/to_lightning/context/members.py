"""What a context was asked for, as Lightning has it."""

from typing import TypeVar

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import calls
from det_compat.migrate.to_lightning.context.counterparts import (
    BEGINNING,
    BEGINS_ELSEWHERE,
    CALLED,
    COUNTING,
    EARLY,
    EARLY_IS_DIFFERENT,
    IMPORTS,
    READ,
    WORLD_SIZE,
)
from det_compat.migrate.to_lightning.context.ranks import handing_modules
from det_compat.migrate.to_lightning.data.batch_numbers import in_step
from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.to_lightning.data.transfers import is_batch, is_tensor
from det_compat.migrate.to_lightning.early.hyperparameters import (
    HYPERPARAMETERS,
    OF_ALL,
    hyperparameters,
    of_hyperparameters,
)
from det_compat.migrate.to_lightning.from_config.changed_hparams import changes_the_module
from det_compat.migrate.to_lightning.moving.base_first import before_base
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.to_lightning.script_contexts.one_place import as_init, given_contexts
from det_compat.migrate.to_lightning.transformer import LightningTransformer, beside_hparams
from det_compat.migrate.to_lightning.written_out.definitions import with_definitions
from det_compat.migrate.to_lightning.written_out.early_device import OF_PROCESS, with_device
from det_compat.migrate.to_lightning.written_out.gathering import DEFINITIONS, GATHERING
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.parameters import config_use
from det_compat.migrate.tree.trial_attributes import reachable

_Valued = TypeVar("_Valued", cst.Arg, cst.Assign, cst.Return, cst.DictElement, cst.Element)
_Loop = TypeVar("_Loop", cst.For, cst.CompFor)

#: What to say where training ends by a condition of a batch.
_ENDS = "# training ends with this batch, and not at the next report, validation or checkpoint"
_MOVE = "from pytorch_lightning.utilities import move_data_to_device"


def ask_module(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Ask the LightningModule instead of the context, where it knows as well."""

    def early(node: cst.ClassDef) -> cst.ClassDef:
        plan = file.plans.get(node.name.value)
        return node if plan is None or plan.is_root else before_base(node, plan, file)

    asking = _Members(file)
    tree = syntax.each(syntax.transformed(tree, asking), cst.ClassDef, early)
    tree = with_definitions(tree, file, sorted(asking.gathering), DEFINITIONS)
    return with_device(tree, file)


class _Members(LightningTransformer):
    marked_statements = (cst.SimpleStatementLine, cst.If, cst.While, cst.For, cst.With)

    def visit_Module(self, node: cst.Module) -> None:
        self._asks = config_use(node, self.symbols).is_open
        self._given_contexts = given_contexts(node, self.symbols)
        self._copied, self._asking = set[cst.CSTNode](), set[cst.CSTNode]()
        self._tried: list[bool] = []
        self._later, self._deferred = set[cst.CSTNode](), 0
        self.gathering: set[str] = set()

    @property
    def _is_early(self) -> bool:
        """Whether this runs before there is a Trainer."""
        plan = self.plan
        if self._deferred:
            return False
        if plan is None and self.functions:
            # An object or a result that the __init__ of a trial makes.
            name = self.functions[0].name.value
            if self.classes:
                own = syntax.methods(self.classes[-1])
                name = self.classes[-1].name.value if name in reachable(own, "__init__") else ""
            return name in self.file.called_early
        early = self.file.early.get(plan.own.name, frozenset()) if plan else frozenset[str]()
        # The methods that make loaders have Lightning's names by now.
        names = {*early, *(NAMES[name] for name in early if name in NAMES)}
        if plan is not None and plan.is_whole:
            # What __init__ called for a property is not called before there is a Trainer any more.
            names &= {*reachable(syntax.methods(self.classes[-1]), "__init__")}
        return any(function.name.value in names for function in self.functions)

    def visit_Assign(self, node: cst.Assign) -> None:
        """Note a lambda that an attribute keeps, if nothing calls it before there is a Trainer."""
        kept = node.targets[0].target
        if self.plan is None or len(node.targets) > 1 or not isinstance(node.value, cst.Lambda):
            return
        own = syntax.self_name(self.functions[0]) if self.functions else ""
        if not isinstance(kept, cst.Attribute) or syntax.code(kept.value) != own:
            return
        # What a parameter is by default is made where the lambda is.
        is_plain = not any(param.default for param in syntax.find(node.value, cst.Param))
        if is_plain and not self._is_used_early(self.plan, kept):
            self._later.add(node.value)

    def _is_used_early(self, plan: TrialPlan, kept: cst.Attribute) -> bool:
        """Whether an attribute is used before there is a Trainer, other than to set it once."""
        name, early = kept.attr.value, self.file.early.get(plan.own.name, ())
        methods = [m for n, m in syntax.methods(self.classes[-1]).items() if n in early]
        nodes = (node for method in methods for node in syntax.find(method, cst.Attribute))
        family = [plan, *(p for p in self.file.trials.values() if plan in p.ancestors)]
        others = {each for p in family for each in p.ancestors if each is not plan}
        return any(node.attr.value == name for node in nodes if node is not kept) or any(
            name in each.own.uses.get(method, ()) for each in others for method in early
        )

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        """Leave alone the functions that such a context is handed to, which go on asking it."""
        return bool(self.classes) or node.name.value not in self._given_contexts

    def visit_With(self, node: cst.With) -> bool:
        """Leave alone what asks a context that stays: it is in what `scripts` has left, marked."""
        return not any(as_init(item.item, self.symbols) for item in node.items)

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self._deferred += node in self._later

    def leave_Lambda(self, original: cst.Lambda, updated: cst.Lambda) -> cst.Lambda:
        self._deferred -= original in self._later
        return updated

    def leave_ClassDef(self, original: cst.ClassDef, updated: cst.ClassDef) -> cst.ClassDef:
        plan = self.file.plans.get(original.name.value)
        others = beside_hparams(original, plan, self.file) if plan is not None else ()
        updated = self.without_others(original, updated)
        is_there = HYPERPARAMETERS in syntax.methods(updated)
        if not others or is_there or not syntax.has_attribute(updated, HYPERPARAMETERS):
            return updated
        made = hyperparameters(others)
        body, init = [*syntax.body_of(updated)], syntax.methods(updated).get("__init__")
        at = next((i for i, n in enumerate(body, 1) if n is init), len(body))
        return syntax.with_body(updated, [*body[:at], made, *body[at:]])

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call = syntax.lone_call(updated)
        found = self.symbols.called(call)
        if call is None or found is None or found[1] != "set_stop_requested":
            return updated
        given = syntax.argument(call, 0, "stop_requested") or cst.Name("True")
        goal = syntax.expression(f"{self.symbols.module(found[0])}.trainer.should_stop")
        made = updated.with_changes(body=[syntax.assignment(goal, given)])
        name = self.functions[0].name.value if self.functions else ""
        trains = name == "training_step" or (self.plan is not None and name in self.plan.training)
        return above(made, [cst.EmptyLine(comment=cst.Comment(_ENDS))]) if trains else made

    def visit_Try(self, node: cst.Try) -> None:
        self._tried.append(bool(self.symbols.calls(node.body, "get_hparam")))

    def leave_Try(self, original: cst.Try, updated: cst.Try) -> cst.Try:
        """What caught the error of Determined's catches that of a dict."""
        if not self._tried.pop():
            return updated
        return updated.with_changes(handlers=[*map(_catching_keys, updated.handlers)])

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        found = self.symbols.called(updated)
        if found is None:
            return handing_modules(updated, self.file.elsewhere, self.symbols)
        module, member = self.symbols.module(found[0]), found[1]
        if member == "get_hparam" and (given := self._given_getter(updated.func)) is not None:
            return updated.with_changes(func=given)
        if member == "get_hparam":
            self._leave_out(updated, member, syntax.argument(updated, 0, "name"))
            return of_hyperparameters(module, updated, is_tried=any(self._tried))
        if member == "to_device":
            return self._moved(module, updated)
        if member in GATHERING and len(updated.args) == 1 and not updated.args[0].star:
            self._text(member, {})
            self.gathering.add(GATHERING[member])
            args = [updated.args[0].with_changes(keyword=None)]
            return updated.with_changes(func=cst.Name(GATHERING[member]), args=args)
        if member in BEGINNING:
            return syntax.expression(self._beginning(original, module, member))
        text = self._text(member, CALLED)
        if member == "is_epoch_start" and in_step(self.functions):
            text = "(batch_idx == 0)"
        if text is None:
            return updated
        self._leave_out(updated, member)
        return syntax.expression(text.format(module))

    def _leave_out(
        self, call: cst.Call, member: str, name: cst.BaseExpression | None = None
    ) -> None:
        """Say which arguments of a getter go: it never took any but a name."""
        more = [arg for arg in call.args if arg.value is not name]
        if more and (name is not None or member != "get_hparam"):
            given = ", ".join(map(syntax.code, syntax.without_commas(more)))
            self.mark(f"{member} never took this, which is left out: {given}")

    def visit_Call(self, node: cst.Call) -> None:
        self._asking.add(node.func)
        # These copy what they are given into a dict of their own.
        if syntax.code(node.func).lower().endswith("dict"):
            self._copied.update(node.args)

    def leave_Arg(self, original_node: _Valued, updated_node: _Valued) -> _Valued:
        """The node without the parentheses that its new value needs only in another expression."""
        called = self.symbols.called(original_node.value)
        if updated_node.value is None or called is None:
            return updated_node
        if isinstance(updated_node, cst.Assign) and called[1] == "get_hparam":
            return updated_node.with_changes(value=self._parameter(updated_node.value))
        is_kept = isinstance(updated_node, cst.Assign) and not self._is_asked_for(updated_node)
        is_kept &= not self._asks or self._changes_hparams()
        if called[1] == "get_hparams" and not is_kept:
            is_copied = original_node in self._copied or bool(getattr(updated_node, "star", ""))
            return updated_node.with_changes(
                value=self._whole(updated_node.value, is_copied=is_copied)
            )
        bare = updated_node.value.with_changes(lpar=[], rpar=[])
        is_needed = syntax.whole(syntax.code(bare)) != syntax.code(bare)
        return updated_node if is_needed else updated_node.with_changes(value=bare)

    def _is_asked_for(self, line: cst.Assign) -> bool:
        """Whether other code asks for an attribute that is set here."""
        names = {syntax.code(each.target).rpartition(".")[2] for each in line.targets}
        return not names.isdisjoint(self.file.elsewhere.asked)

    leave_Assign = leave_Arg
    leave_Return = leave_Arg
    leave_DictElement = leave_Arg
    leave_Element = leave_Arg

    def leave_StarredDictElement(
        self, original_node: cst.StarredDictElement, updated_node: cst.StarredDictElement
    ) -> cst.StarredDictElement:
        """A dict that gets hyperparameters gets nothing else."""
        called = self.symbols.called(original_node.value)
        if called is None or called[1] != "get_hparams":
            return updated_node
        return updated_node.with_changes(value=self._whole(updated_node.value, is_copied=True))

    def _whole(self, hparams: cst.BaseExpression, *, is_copied: bool) -> cst.BaseExpression:
        """All hyperparameters, and nothing else that a module is given; the dict may be a copy."""
        plain = self.plain_hparams(hparams)
        return hparams if is_copied and syntax.code(plain).startswith("dict(") else plain

    def leave_For(self, original_node: _Loop, updated_node: _Loop) -> _Loop:
        """A loop over hyperparameters goes through nothing else."""
        called = self.symbols.called(original_node.iter)
        if called is None or called[1] != "get_hparams":
            return updated_node
        return updated_node.with_changes(iter=self._whole(updated_node.iter, is_copied=True))

    leave_CompFor = leave_For

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        """The same for a condition."""
        if self.symbols.called(original.test) is None or original.test.lpar:
            return updated
        return updated.with_changes(test=updated.test.with_changes(lpar=[], rpar=[]))

    def _changes_hparams(self) -> bool:
        return any(changes_the_module(node, self.symbols) for node in self.classes[-1:])

    def _parameter(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """A hyperparameter by the name of the parameter that it is, where ``__init__`` keeps it."""
        name = syntax.code(value).rpartition(".")[2]
        if [function.name.value for function in self.functions] != ["__init__"]:
            return value
        init = self.functions[0]
        targets = (syntax.code(target.target) for target in syntax.find(init, cst.AssignTarget))
        is_one = name in (param.name.value for param in init.params.kwonly_params)
        # One that is None is not there, and must not be taken for a value.
        is_one &= self.plan is None or name not in self.plan.arguments.absent
        is_one &= not self._changes_hparams()
        return cst.Name(name) if is_one and name not in targets else value

    def _text(self, member: str, table: dict[str, str]) -> str | None:
        is_early = self._is_early
        if self.plan is not None and self.plan.accumulation is not None and member in COUNTING:
            return COUNTING[member]
        if is_early and member in EARLY_IS_DIFFERENT:
            self.mark(f"{member} is that of one device here, before there is a Trainer")
        text = EARLY.get(member) if is_early else None
        if text is None:
            return table.get(member)
        new = {line for start, line in IMPORTS.items() if start in text}
        self.file.imports.new |= {n for n in new if n.split()[-1] not in self.file.names}
        is_named = self.plan is not None and self.plan.is_single
        return text if is_named else text.replace(*WORLD_SIZE)

    def _beginning(self, call: cst.Call, module: str, member: str) -> str:
        """Where a run begins, which a module knows no longer once batches have been trained."""
        late, new = BEGINNING[member]
        is_told = self.plan is None or self._makes_loaders()
        if is_told and not self._is_early:
            return late.format(module, self.file.batches_per_step)
        if self.plan is None or not self._is_set_in_training(call):
            self.mark(BEGINS_ELSEWHERE.format(member))
        return new

    def _makes_loaders(self) -> bool:
        """Whether nothing but what makes loaders comes to the method around."""
        own, before = syntax.methods(self.classes[-1]), {*NAMES, *NAMES.values()}
        others = [name for name in own if name not in before]
        called = {n for name in others for n in reachable(own, name) if n != name}
        return self.functions[0].name.value in {*reachable(own, *before)} - called

    def _is_set_in_training(self, call: cst.Call) -> bool:
        """Whether a value is kept only until a batch is trained, which sets it anew."""
        own = syntax.methods(self.classes[-1])
        kept = {
            syntax.code(each.targets[0].target).partition(".")[2]
            for each in syntax.find(self.functions[0], cst.Assign)
            if each.value is call and len(each.targets) == 1
        }
        step = own.get("training_step", own.get("train_batch", self.functions[0]))
        lines = step.body.body if step is not None else ()
        parts = (
            p for line in lines if isinstance(line, cst.SimpleStatementLine) for p in line.body
        )
        targets = (t for part in parts if isinstance(part, cst.Assign) for t in part.targets)
        return any(syntax.code(each.target).partition(".")[2] in kept - {""} for each in targets)

    def _moved(self, module: str, call: cst.Call) -> cst.BaseExpression:
        data = syntax.argument(call, 0, "data")
        if data is None:
            return call
        device = OF_PROCESS if self._is_early else f"{module}.device"
        function, plan = self.functions[-1] if self.functions else None, self.plan
        if plan is not None and any(found.own.stays for found in plan.ancestors):
            self.file.imports.new.add(_MOVE)
            text = syntax.code(data)
            if any(found.arrays for found in plan.ancestors):
                # Determined made tensors of NumPy's arrays where it moved them.
                text = f"torch.utils.data.default_convert({text})"
            return syntax.expression(f"move_data_to_device({text}, {device})")
        if is_batch(data, function):
            # Lightning has moved the batch of a step to the device before it calls the step.
            return data
        if is_tensor(data, function):
            return syntax.expression(f"{syntax.code(data)}.to({device})")
        return syntax.expression(
            f"{module}.transfer_batch_to_device({syntax.code(data)}, {device}, 0)"
        )

    def _wrapped(self, member: str) -> list[str] | None:
        """The attributes with all that a trial wraps of a kind; None if they are not known."""
        plan = self.plan
        trials = [each for each in self.file.plans.values() if not each.is_mixin]
        if plan is None and self.classes and len(trials) == 1:
            # A callback, for example, that the one trial of the file makes.
            (plan,) = trials
        if plan is not None and not plan.is_mixin:
            # Code of a base may run in a class that wraps more.
            family = [plan, *(p for p in self.file.trials.values() if plan in p.ancestors)]
        elif plan is None and not self.classes and member == "models":
            # A script, which trains one of these.
            family = [p for p in self.file.trials.values() if not p.is_mixin]
        else:
            return None
        if any(_LISTS[member] in p.own.unkept for each in family for p in each.ancestors):
            return None
        if member == "optimizers" and any(each.lacking_optimizers for each in family):
            return None
        # A base that wraps no optimizer is trained as one of its heirs.
        trained = [each for each in family if each.all_optimizers] or family
        known = {tuple(_listed(each, member)) for each in trained}
        return [*known.pop()] if len(known) == 1 else None

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> syntax.Expression:
        """``context.models[0]`` as the first of them."""
        is_of_context = self.symbols.member(original.value) is not None
        listed = updated.value.elements if isinstance(updated.value, cst.List) else ()
        index = syntax.code(updated.slice[0].slice)
        is_known = is_of_context and len(updated.slice) == 1 and index.isdigit()
        if not is_known or not all(isinstance(each, cst.Element) for each in listed):
            return updated
        return listed[int(index)].value if int(index) < len(listed) else updated

    def _given_getter(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What holds a getter of hyperparameters in code beside trials, which stays one there."""
        symbol = self.symbols.get(node.value) if isinstance(node, cst.Attribute) else None
        if self.plan is not None or symbol is None or symbol.part != "get_hparam":
            return None
        # A trial that is asked for its own has none any more.
        own = f"{syntax.self_name(self.functions[0])}." if self.classes and self.functions else ""
        text = syntax.code(symbol.original).removeprefix(own)
        return symbol.original if text.isidentifier() else None

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> syntax.Expression:
        asked = self.symbols.called(original.value)
        if asked is not None and (asked[1], original.attr.value) == ("to_device", "device"):
            module = self.symbols.module(asked[0])
            return syntax.expression(OF_PROCESS if self._is_early else f"{module}.device")
        if asked is not None and asked[1] == "get_hparams" and original.attr.value in OF_ALL:
            return updated.with_changes(value=self._whole(updated.value, is_copied=True))
        found = self.symbols.member(updated)
        if found is not None and found[1] == "get_hparam" and original not in self._asking:
            given = self._given_getter(updated)
            getter = f"{self.symbols.module(found[0])}.hparams.__getitem__"
            return syntax.expression(getter) if given is None else given
        wrapped = self._wrapped(found[1]) if found is not None and found[1] in _LISTS else None
        if found is None:
            return updated
        module = self.symbols.module(found[0])
        if wrapped is not None:
            return syntax.expression(f"[{', '.join(name.format(module) for name in wrapped)}]")
        text = self._text(found[1], READ) if found[1] in READ else None
        text = text or (_OF_TRAINER.get(found[1]) if self._is_called_in_training() else None)
        return updated if text is None else syntax.expression(text.format(module))

    def _is_called_in_training(self) -> bool:
        """Whether a function beside trials is called by their methods, once there is a Trainer.

        One that steps needs what Lightning wraps these in, to count steps.
        """
        if self.plan is not None or self.classes or not self.functions:
            return False
        function, trials = self.functions[0], self.file.trials.values()
        name = function.name.value
        others = [f for n, f in self.file.elsewhere.functions.items() if n != name]
        own = {method for plan in trials for method in plan.own.methods}
        if any(name in calls(each) for each in others if each.name.value not in own):
            return False
        called = [plan.own.called for each in trials for plan in each.ancestors]
        early = {"__init__"}
        for _ in range(_DEEPEST_CALLS):
            early |= {n for methods in called for m in early for n in methods.get(m, ())}
        is_late = name not in early and any(name in each for m in called for each in m.values())
        return is_late and not any(each.startswith("step") for each in calls(function))


#: How many calls behind ``__init__`` are followed.
_DEEPEST_CALLS = 5
#: What a Trainer has of what was wrapped.
_OF_TRAINER = {
    "optimizers": "{0}.trainer.optimizers",
    "lr_schedulers": "[each.scheduler for each in {0}.trainer.lr_scheduler_configs]",
}
#: What a context has of what was wrapped, and by what.
_LISTS = {
    "models": "wrap_model",
    "optimizers": "wrap_optimizer",
    "lr_schedulers": "wrap_lr_scheduler",
}


def _listed(plan: TrialPlan, member: str) -> list[str]:
    """The expressions of what a trial wraps of a kind, given its module."""
    names = {
        "models": [model.attribute for model in plan.all_models],
        "optimizers": plan.all_optimizers,
        "lr_schedulers": [scheduler.attribute for scheduler in plan.all_schedulers],
    }[member]
    return [f"*{{0}}.{n[1:]}" if n.startswith("*") else f"{{0}}.{n}" for n in names]


def _catching_keys(handler: cst.ExceptHandler) -> cst.ExceptHandler:
    if handler.type is None or "ValueError" not in map(syntax.code, syntax.parts(handler.type)):
        return handler
    caught = ["KeyError", *map(syntax.code, syntax.parts(handler.type))]
    return handler.with_changes(type=syntax.expression(f"({', '.join(caught)})"))
