"""Statements above the ``__init__`` of a base: a module has nothing before that has run."""

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.early.late_models import Models
from det_compat.migrate.to_lightning.moving import known
from det_compat.migrate.to_lightning.moving.lines import asks_for, hands_on, targets
from det_compat.migrate.to_lightning.plan import LightningFile, OtherBases, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.trial_attributes import attributes_changed, attributes_read

_HPARAMS = "hyperparameters are kept by the __init__ of the base, below"
_MODEL = "a module keeps no model before the __init__ of its base, below"


def before_base(node: cst.ClassDef, plan: TrialPlan, file: LightningFile) -> cst.ClassDef:
    """A class whose ``__init__`` does without what a module has before that of its base ran.

    A trial could ask its context from the start, and keep whatever it liked.
    """
    init = syntax.methods(node).get("__init__")
    rest = None if init is None else init.params.star_kwarg
    if init is None or rest is None:
        return node
    me, given = syntax.self_name(init), rest.name.value
    body = syntax.body_of(init)

    def gives_hparams(line: cst.BaseStatement) -> bool:
        args = getattr(syntax.call_of(line), "args", ())
        return any(arg.star == "**" and given in syntax.names_in(arg) for arg in args)

    at = next((i for i, line in enumerate(body) if gives_hparams(line)), None)
    if at is None:
        return node

    def asked(attribute: cst.Attribute) -> syntax.Expression:
        name = attribute.attr.value
        if syntax.code(attribute.value) != f"{me}.hparams" or hasattr(dict, name):
            return attribute
        return syntax.expression(f'{given}["{name}"]')

    def asking(line: cst.BaseStatement) -> cst.BaseStatement:
        return syntax.replaced(syntax.each(line, cst.Attribute, asked), f"{me}.hparams", given)

    lines = [asking(line) for line in body[: at + 1]]
    order = _Order(node, init.with_changes(body=init.body), plan, file)
    parts = [order.parted(line, lines[i + 1 :]) for i, line in enumerate(lines[:-1])]
    above = [each for part, _ in parts for each in part]
    below = [each for _, part in parts for each in part]
    lines = [*above, lines[-1], *below, *body[at + 1 :]]
    return syntax.with_node(node, init, syntax.with_body(init, lines))


class _Order:
    """What of a class is done before the ``__init__`` of its base, and what after it."""

    def __init__(
        self, node: cst.ClassDef, init: cst.FunctionDef, plan: TrialPlan, file: LightningFile
    ) -> None:
        self._init, self._me, self._plan = init, syntax.self_name(init), plan
        self._own, self._around = syntax.methods(node), file.elsewhere
        self._models = Models([plan], file.elsewhere)
        family = {each for p in file.trials.values() if plan in p.ancestors for each in p.ancestors}
        self._methods: dict[str, list[cst.FunctionDef]] = {}
        self._inits = list[cst.FunctionDef]()
        for each in family or {*plan.ancestors}:
            methods = _methods(file.elsewhere.texts.get(each.own.name, ""))
            for name, method in methods.items():
                self._methods.setdefault(name, []).append(method)
            is_base = each in plan.ancestors[1:] and "__init__" in methods
            self._inits += [methods["__init__"]] if is_base else []

    def parted(
        self, line: cst.BaseStatement, rest: Sequence[cst.BaseStatement]
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
        """What becomes of a statement, above and below the call of the base that ends the rest."""
        called = [*self._reached(self._called(line))]
        asks = any(map(self._asks_hparams, called))
        if not (asks or self._keeps_model(line, called)):
            return [line], []
        names = {syntax.code(each) for each in targets(line)}
        is_set = bool(names) and all(name.startswith(f"{self._me}.") for name in names)
        if is_set and not any(self._is_asked(name, rest) for name in names):
            is_name = isinstance(getattr(syntax.simple(line), "value", None), cst.Name)
            used = (syntax.names_in(line) & _named(rest, is_name=is_name)) - {self._me}
            may_wait = self._is_still(line, called, rest) if asks else self._is_plain(line)
            if may_wait and not used:
                return [], [line]
            parts = [] if asks else self._apart(line)
            if parts:
                return parts[:1], parts[1:]
        return [marked(line, _HPARAMS if asks else _MODEL)], []

    def _apart(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        """A value that is made where it was, and kept below; nothing where it has no name."""
        small = syntax.simple(line)
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return []
        target = small.targets[0].target
        name = syntax.code(target).removeprefix(f"{self._me}.")
        used = syntax.names_in(self._init) | syntax.local_names(self._init)
        free = [each for each in (name, f"own_{name}") if each not in used]
        if not name.isidentifier() or not free:
            return []
        kept = syntax.statement(f"{self._me}.{name} = {free[0]}")
        return [syntax.with_node(line, target, cst.Name(free[0])), kept]

    def _called(self, line: cst.CSTNode) -> set[str]:
        """The methods of the family that some code uses."""
        every = (each for each in syntax.find(line, cst.Attribute))
        own = {each.attr.value for each in every if syntax.code(each.value) == self._me}
        return own & {*self._methods, *self._own} - {"__init__"}

    def _reached(self, names: Collection[str]) -> Iterator[cst.FunctionDef]:
        """Methods of these names, and all that they use of the family."""
        found = [*names]
        for name in found:
            for method in (*self._methods.get(name, ()), *self._found_own(name)):
                yield method
                more = {*attributes_read(method)} & self._methods.keys()
                found += sorted(more - {*found, "__init__"})

    def _found_own(self, name: str) -> list[cst.FunctionDef]:
        return [self._own[name]] if name in self._own else []

    def _asks_hparams(self, method: cst.FunctionDef) -> bool:
        asked = re.search(r"\bget_hparam|_batch_size\(", syntax.code(method))
        return syntax.has_attribute(method, "hparams") or asked is not None

    def _is_asked(self, name: str, rest: Sequence[cst.BaseStatement]) -> bool:
        """Whether something may ask for an attribute before the base has been initialized."""
        if any(each.other_bases is OtherBases.UNKNOWN for each in self._plan.ancestors):
            return True
        short = f"self.{name.removeprefix(f'{self._me}.')}"
        inits = [method for init in self._inits for method in (init, *self._used_by(init))]
        for method in (*inits, *self._reached({n for each in rest for n in self._called(each)})):
            own = syntax.self_name(method)
            if asks_for(method, short.replace("self", own, 1)) or hands_on(method, own):
                return True
        return any(asks_for(each, name) or hands_on(each, self._me) for each in rest)

    def _used_by(self, init: cst.FunctionDef) -> Iterator[cst.FunctionDef]:
        yield from self._reached({*attributes_read(init)} & self._methods.keys() - {"__init__"})

    def _keeps_model(self, line: cst.BaseStatement, called: Sequence[cst.FunctionDef]) -> bool:
        """Whether a statement may give the module a model."""
        if not [*targets(line)]:
            changed = {name for method in called for name in attributes_changed(method)}
            return not changed.isdisjoint(self._models.attributes)
        return any(
            target.startswith(f"{self._me}.") and self._may_be_model(value)
            for target, value in _each_set(line)
        )

    def _may_be_model(self, value: cst.BaseExpression) -> bool:
        if isinstance(value, _PLAIN):
            return False
        if self._models.is_one(value, self._init, self._models.attributes):
            return True
        names = (syntax.code(call.func) for call in syntax.find(value, cst.Call))
        return any(
            re.match(r"(torch\.)?nn\.[A-Z]", name)
            or re.search(r"\bnn\.[A-Z]", self._around.texts.get(name.rpartition(".")[2], ""))
            or any(
                path.startswith(_OF_MODELS)
                for path in self._around.imported.get(name.partition(".")[0], ())
                for path in (f"{path}.{name.partition('.')[2]}",)
            )
            for name in names
        )

    def _is_plain(self, line: cst.BaseStatement) -> bool:
        """Whether a statement asks the trial for nothing, and makes modules without weights."""
        asked = [each for each in syntax.find(line, cst.Name) if each.value == self._me]
        return len(asked) == len([*targets(line)]) and _has_no_weights(line)

    def _is_still(
        self,
        line: cst.BaseStatement,
        called: Sequence[cst.FunctionDef],
        rest: Sequence[cst.BaseStatement],
    ) -> bool:
        """Whether a value is the same behind the base's ``__init__``, and draws nothing."""
        changed = {name for each in self._plan.ancestors[1:] for name in each.own.stores}
        changed |= {syntax.code(each).rpartition(".")[2] for one in rest for each in targets(one)}
        read = {name for method in called for name in attributes_read(method)}
        read |= {each.attr.value for each in syntax.find(line, cst.Attribute)}
        read -= {syntax.code(each).rpartition(".")[2] for each in targets(line)}
        calls = [call for node in (line, *called) for call in syntax.find(node, cst.Call)]
        return read.isdisjoint(changed - {"context"}) and all(
            name in self._methods or name in known.BUILTINS | known.READING
            for call in calls
            for name in [syntax.code(call.func).rpartition(".")[2]]
        )


def _methods(text: str) -> dict[str, cst.FunctionDef]:
    nodes = (each for each in syntax.looked_at(text).body if isinstance(each, cst.ClassDef))
    return {name: method for node in nodes for name, method in syntax.methods(node).items()}


def _each_set(node: cst.CSTNode) -> Iterator[tuple[str, cst.BaseExpression]]:
    for line in syntax.find(node, cst.Assign):
        yield from ((syntax.code(each.target), line.value) for each in line.targets)
    for annotated in syntax.find(node, cst.AnnAssign):
        if annotated.value is not None:
            yield syntax.code(annotated.target), annotated.value


def _named(lines: Sequence[cst.BaseStatement], *, is_name: bool) -> set[str]:
    """What some statements set, or hand on but for what is in lists and dicts that are opened.

    A variable that is only kept is the same object, whatever becomes of that.
    """
    found = {syntax.code(each) for line in lines for each in targets(line)}
    if is_name:
        return found
    calls = (call for line in lines for call in syntax.find(line, cst.Call))
    args = (arg for call in calls for arg in call.args if not arg.star)
    return found | {name for arg in args for name in syntax.names_in(arg)}


def _has_no_weights(line: cst.BaseStatement) -> bool:
    """Whether all that a statement calls makes modules that draw nothing, and have no weights."""
    names = [syntax.code(call.func) for call in syntax.find(line, cst.Call)]
    found = [re.fullmatch(r"(?:torch\.)?nn\.(\w+)", name) for name in names]
    return all(each and re.fullmatch(_WEIGHTLESS, each[1]) for each in found)


#: What is no module, whatever it holds.
_PLAIN = (cst.List, cst.Dict, cst.Tuple, cst.Set, cst.ListComp, cst.DictComp, cst.Lambda)
_OF_MODELS = ("torchvision.models.", "timm.", "segmentation_models_pytorch.")
_WEIGHTLESS = re.compile(
    r"(?!Adaptive)\w+Loss|Identity|Flatten|Dropout\d?d?|\w*ELU6?|SiLU|Mish|Tanh|Sigmoid|(Log)?Softmax"
)
