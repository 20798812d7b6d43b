"""Gradients and validations: those that one needs, and those that are there when one begins."""

import ast
import builtins
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import parsed
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import attributes_set

_GRADIENTS = ("torch.enable_grad()", "torch.set_grad_enabled(True)")

#: What a module gets that steps once in several batches.
KEEPING = """\
def on_validation_model_zero_grad(self):
    # gradients that wait for a later step stay
    pass
"""


#: What lets a module train in a validation that is no part of a ``fit()``, whose batches are made
#: in inference mode as well.
TRAINING = """\
if stage == "validate":
    # validation_step trains, for which Lightning's inference mode keeps nothing
    self.trainer.validate_loop.inference_mode = False
"""

#: The same for one whose validations keep tensors that take part in the next computation.
_GOING_ON = """\
if stage == "validate":
    # no training goes on with a state that was made in inference mode
    self.trainer.validate_loop.inference_mode = False
"""


def before_validations(
    own: Mapping[str, cst.FunctionDef], validating: Iterable[str], texts: Mapping[str, str]
) -> str:
    """What a module's ``setup`` has to do before a validation that is no part of a ``fit()``.

    Args:
        own: the methods of a trial.
        validating: those that a validation reaches.
        texts: the code of each function and class that they may name.
    """
    methods = [own[name] for name in validating]
    if any(map(asks, methods)):
        return TRAINING
    made = (t for t in _named("\n".join(map(syntax.code, own.values())), texts) if _MODEL.match(t))
    kept = any(_goes_on(syntax.code(each)) for each in methods) or any(map(_goes_on, made))
    return _GOING_ON if kept else ""


_MODEL = re.compile(r"(@.*\n)*class \w+\([^)]*Module\b")


#: What makes no state of a model: it moves what there is, or collects what a metric needs.
_NO_STATE = words("to cuda to_device transfer_batch_to_device cat concat concatenate stack vstack")


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs after an object has been made."""
    if not (isinstance(node, ast.FunctionDef) and node.name == "__init__"):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _running(child)


def _goes_on(text: str) -> bool:
    """Whether a call takes an attribute that its result replaces, as the state of an RNN is."""
    for node in _running(parsed(textwrap.dedent(text))):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called = ast.unparse(node.value.func).rpartition(".")[2]
        if called[:1].isupper() or called in _NO_STATE or hasattr(builtins, called):
            continue
        targets = [t for each in node.targets for t in getattr(each, "elts", [each])]
        set_here = {ast.unparse(t) for t in targets if isinstance(t, ast.Attribute)}
        handed = [*node.value.args, *node.value.keywords]
        inner = (each for argument in handed for each in ast.walk(argument))
        if any(isinstance(n, ast.Attribute) and ast.unparse(n) in set_here for n in inner):
            return True
    return False


def with_gradients(method: cst.FunctionDef) -> cst.FunctionDef:
    """A method that a validation calls, with inference mode left where it asks for gradients.

    Lightning's ``validate()`` is in inference mode, and its ``fit()`` is not. What a hook makes in
    it before it asks could have no gradients.
    """
    body = syntax.body_of(method)
    before = body[syntax.has_docstring(body) : -1]
    if method.name.value.startswith("on_validation") and before and asks(method):
        # Leaving inference mode begins with gradients.
        leaving = [cst.Decorator(syntax.expression(text)) for text in _WITHOUT_INFERENCE]
        return method.with_changes(decorators=[*leaving, *method.decorators])
    return syntax.transformed(method, _Gradients())


_WITHOUT_INFERENCE = ("torch.inference_mode(False)", "torch.no_grad()")


def asks(method: cst.FunctionDef) -> bool:
    """Whether a method asks for gradients where there may be none."""
    return asks_gradients("".join(map(syntax.code, syntax.body_of(method))))


def asks_gradients(text: str) -> bool:
    """Whether some code asks for gradients where there may be none."""
    return any(each in text for each in _GRADIENTS)


def zeroes_gradients(step: cst.Call) -> bool:
    """Whether a call of ``step_optimizer`` is sure to zero the gradients."""
    zero = syntax.argument(step, 2, "auto_zero_grads")
    return zero is None or syntax.code(zero) == "True"


class _Gradients(cst.CSTTransformer):
    def leave_With(self, original: cst.With, updated: cst.With) -> cst.With:
        at = [syntax.code(item.item) in _GRADIENTS for item in original.items]
        if not any(at):
            return updated
        before, after = updated.items[: at.index(True)], updated.items[at.index(True) :]
        leaving = cst.WithItem(syntax.expression("torch.inference_mode(False)"))
        items = syntax.without_commas([*before, leaving, *after])
        return updated.with_changes(items=items)


#: Code around a trial that looks at gradients, or steps, by itself.
_LOOKS = re.compile(r"\.grad\b(?!\s*\()")
_STEPS = re.compile(rf"{_LOOKS.pattern}|\.step_optimizer\b")


def are_zeroed_first(
    own: Mapping[str, cst.FunctionDef],
    optimizers: Collection[str],
    symbols: Symbols,
    texts: Mapping[str, str],
) -> bool:
    """Whether each step is of gradients of its own batch alone, whatever was there before.

    Args:
        own: the methods of a trial, which nothing else trains.
        optimizers: the attributes that it wraps.
        symbols: of the file.
        texts: the code of each function and class that the methods may name.
    """
    code = "\n".join(map(syntax.code, own.values()))
    if _LOOKS.search(code) or any(map(_STEPS.search, _named(code, texts))):
        return False
    trained = {name: _models_of(name, own.values()) for name in optimizers}
    zeroed: list[bool] = []
    for method in own.values():
        # What a method is called by may have zeroed nothing.
        found = _Zeroing(syntax.self_name(method), trained, symbols)
        found.follow(syntax.body_of(method), set())
        zeroed += found.steps
    steps = sum(len(symbols.calls(method, "step_optimizer")) for method in own.values())
    return all(trained.values()) and zeroed == [True] * steps


def are_emptied(
    node: cst.ClassDef,
    optimizers: Collection[str],
    symbols: Symbols,
    texts: Mapping[str, str],
) -> bool:
    """Whether each batch ends with a step of every optimizer, so that no gradients are left.

    Args:
        node: the class of a trial, which has no heirs.
        optimizers: the attributes that it wraps.
        symbols: of the file.
        texts: the code of each function and class that it may name.
    """
    own = syntax.methods(node)
    if any(_trains_beside(each, own, texts) for each in _bases(node)):
        return False
    code = "\n".join(map(syntax.code, own.values()))
    every = [each for each in own.values() if symbols.calls(each, *_TRAINING)]
    if len(every) != 1 or any(".step_optimizer" in text for text in _named(code, texts)):
        return False
    me, body = f"{syntax.self_name(every[0])}.", syntax.body_of(every[0])
    models = {f"{me}{n}": {f"{me}{m}" for m in _models_of(n, own.values())} for n in optimizers}
    texts_of = "\n".join([code, *_named(code, texts)])
    # What freezes models elsewhere, or for a reason, may do so or not.
    is_plain = texts_of.count(".requires_grad") == sum(_freezes(line) is not None for line in body)
    frozen, stepped, left = set[str](), set[str](), set[str]()
    for line in body:
        call = syntax.lone_call(line)
        if symbols.calls(line, "backward"):
            left |= {name for name, of in models.items() if not of or not of <= frozen}
        if call is not None and is_plain and (freezes := _freezes(line)) is not None:
            model = syntax.code(call.func).rpartition(".")[0]
            frozen = frozen | {model} if freezes else frozen - {model}
        elif (
            call is not None
            and symbols.method(call) == "step_optimizer"
            and zeroes_gradients(call)
            and (optimizer := syntax.argument(call, 0, "optimizer"))
        ):
            stepped.add(syntax.code(optimizer))
            left.discard(syntax.code(optimizer))
        elif left and syntax.returns_in([line]):
            return False
    is_all = not left and models.keys() <= stepped
    return is_all and code.count(".backward(") == len(symbols.calls(every[0], "backward"))


def _freezes(line: cst.BaseStatement) -> bool | None:
    """Whether a statement freezes a model, or thaws it; None if it does neither."""
    call = syntax.lone_call(line)
    found = _FREEZING.search(syntax.code(call)) if call is not None else None
    return found["to"] == "False" if found is not None else None


_FREEZING = re.compile(r"\.requires_grad_\((?P<to>True|False)\)$")
_TRAINING = ("backward", "step_optimizer")


def _bases(node: cst.ClassDef) -> Iterator[str]:
    """The names of the classes that one derives from, but for Determined's."""
    names = (syntax.code(each.value).rpartition(".")[2] for each in node.bases)
    return (name for name in names if name != "object" and not name.startswith("__det_"))


def _trains_beside(name: str, own: Collection[str], texts: Mapping[str, str]) -> bool:
    """Whether a base trains in methods that are not those of its heir, or is not known."""
    body = syntax.looked_at(textwrap.dedent(texts.get(name, ""))).body
    node = body[0] if len(body) == 1 else None
    if not isinstance(node, cst.ClassDef):
        return True
    methods = syntax.methods(node)
    codes = [syntax.code(method) for called, method in methods.items() if called not in own]
    if any(f".{each}(" in code for code in codes for each in _TRAINING):
        return True
    return any(_trains_beside(each, {*own, *methods}, texts) for each in _bases(node))


def _named(code: str, texts: Mapping[str, str]) -> Iterator[str]:
    """The texts of what code names, and of what that names; the steps of optimizers show."""
    left, waiting = {*texts}, [code]
    for text in waiting:
        found = left.intersection(_WORD.findall(text))
        left -= found
        waiting += (texts[name] for name in found if not _OPTIMIZER.match(texts[name]))
    yield from waiting[1:]


_PARAMETERS = re.compile(r"(?<!h)param")
_WORD = re.compile(r"\w+")
_OPTIMIZER = re.compile(r"class \w+\([\w.]*(Optimizer|Trial)\)")


def _models_of(optimizer: str, methods: Iterable[cst.FunctionDef]) -> frozenset[str]:
    """The attributes whose parameters an optimizer has; none if it may have others."""
    models: set[str] = set()
    for method in methods:
        of_model = re.compile(rf"\b{syntax.self_name(method)}\.(\w+)\.parameters\(\)")
        for name, text, _ in attributes_set(method):
            if name == optimizer:
                if len(found := of_model.findall(text)) != len(_PARAMETERS.findall(text)):
                    return frozenset()
                models.update(found)
    return frozenset(models)


class _Zeroing:
    """Goes through a method; ``steps`` says of each step whether its models were zeroed before."""

    def __init__(self, own: str, trained: Mapping[str, frozenset[str]], symbols: Symbols) -> None:
        self.steps: list[bool] = []
        self._own = f"{own}."
        self._trained = trained
        self._symbols = symbols

    def follow(self, lines: Iterable[cst.BaseStatement], zeroed: set[str]) -> None:
        """Go through a block, and add to ``zeroed`` the models that are zeroed by then."""
        for line in lines:
            if isinstance(line, (cst.With, cst.If)):
                # What is zeroed under a condition may not be.
                inner = zeroed if isinstance(line, cst.With) else {*zeroed}
                self.follow(syntax.body_of(line), inner)
            call = syntax.lone_call(line)
            if call is None:
                continue
            if self._symbols.method(call) == "step_optimizer":
                optimizer = syntax.argument(call, 0, "optimizer")
                name = syntax.code(optimizer).removeprefix(self._own) if optimizer else ""
                self.steps.append(self._trained.get(name, {""}) <= zeroed)
            elif syntax.code(call).startswith(self._own) and not call.args:
                name, _, method = syntax.code(call.func).removeprefix(self._own).rpartition(".")
                zeroed |= self._trained.get(name, {name}) if method == "zero_grad" else set()


def may_be_kept(own: Mapping[str, cst.FunctionDef], symbols: Symbols) -> bool:
    """Whether methods of a class step otherwise than to zero all gradients after every batch."""
    every = plain = 0
    for name, method in own.items():
        every += len(symbols.calls(method, "step_optimizer"))
        surely = _surely_stepping(syntax.body_of(method), symbols) if name != "__init__" else ()
        plain += sum(map(zeroes_gradients, surely))
    return every > plain


def _surely_stepping(lines: Iterable[cst.BaseStatement], symbols: Symbols) -> list[cst.Call]:
    """The steps in a block that are taken whenever it runs, in either branch of a choice."""
    found: list[cst.Call] = []
    for line in lines:
        call = syntax.call_of(line)
        if call is not None and symbols.method(call) == "step_optimizer":
            found.append(call)
        other = line.orelse if isinstance(line, cst.If) else None
        if isinstance(line, cst.If) and isinstance(other, cst.Else):
            first, second = (
                _surely_stepping(syntax.body_of(each), symbols) for each in (line, other)
            )
            names = ({*map(_stepped, calls)} for calls in (first, second))
            found += [*first, *second] if len({*map(frozenset, names)}) == 1 else []
    return found


def _stepped(step: cst.Call) -> str:
    optimizer = syntax.argument(step, 0, "optimizer")
    return syntax.code(optimizer) if optimizer is not None else ""


_SAVING = """\
def on_save_checkpoint(self, checkpoint):
    if getattr(self, "{0}", None) is not None:
        checkpoint["{0}"] = self.{0}.state_dict()
"""
#: A checkpoint of another device may have none, and a scaler that does nothing has an empty state.
_LOADING = """\
def on_load_checkpoint(self, checkpoint):
    if getattr(self, "{0}", None) is not None and checkpoint.get("{0}"):
        self.{0}.load_state_dict(checkpoint["{0}"])
"""
_MAYBE = 'getattr(self, "{0}", None) is not None'
_ALWAYS = ((f"    if {_MAYBE}:\n    ", ""), (f"{_MAYBE} and ", ""))


def scaler_hooks(own: Mapping[str, cst.FunctionDef], symbols: Symbols) -> list[cst.FunctionDef]:
    """The hooks by which a checkpoint has the gradient scaler of a trial, as Determined's had.

    Args:
        own: the methods of the trial.
        symbols: what placeholders stand for.
    """
    if "on_save_checkpoint" in own or "on_load_checkpoint" in own:
        return []
    for method in own.values():
        lines = [*syntax.find(method, cst.SimpleStatementLine)]
        wrapping = [line for line in lines if symbols.calls(line, "wrap_scaler")]
        if not wrapping:
            continue
        # A variable that is wrapped, or is what is wrapped, is kept elsewhere.
        names = {syntax.target_of(line) for line in wrapping}
        calls = (call for line in wrapping for call in symbols.calls(line, "wrap_scaler"))
        names |= {syntax.code(call.args[0].value) for call in calls if call.args}
        kept = [n for n in lines if {syntax.target_of(n), syntax.code(_value(n))} & names]
        for line in (*wrapping, *kept):
            attribute = (syntax.target_of(line) or "").removeprefix(f"{syntax.self_name(method)}.")
            if attribute == syntax.target_of(line) or not attribute.isidentifier():
                continue
            is_sure = isinstance(_value(line), cst.Call) and line in syntax.body_of(method)
            is_sure &= method.name.value == "__init__"
            pairs = zip((_SAVING, _LOADING), _ALWAYS, strict=True)
            texts = (text.replace(*each, 1) if is_sure else text for text, each in pairs)
            return [syntax.method(text.format(attribute)) for text in texts]
    return []


def _value(line: cst.SimpleStatementLine) -> cst.BaseExpression:
    return getattr(syntax.simple(line), "value", None) or cst.Name("None")
