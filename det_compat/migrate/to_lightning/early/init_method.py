"""``__init__`` of a LightningModule: hyperparameters are its arguments."""

import builtins
from collections.abc import Collection

import libcst as cst

from det_compat.migrate.configs import BATCHES
from det_compat.migrate.line_length import INDENT, LINES
from det_compat.migrate.to_lightning.class_facts import is_init_of_next
from det_compat.migrate.to_lightning.early.hyperparameters import (
    OF_CLI,
    places_of_dict,
    takes_dict,
    with_dict,
)
from det_compat.migrate.to_lightning.early.mixins import mixins_of
from det_compat.migrate.to_lightning.from_config.same_names import APART
from det_compat.migrate.to_lightning.plan import UNUSED, LightningFile, OtherBases, TrialPlan
from det_compat.migrate.to_lightning.transformer import takes_unnamed
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, marked
from det_compat.migrate.tree.parameters import DATA, Arguments
from det_compat.migrate.tree.symbols import Symbols

#: What the constructor of a trial did that has none itself: the module is the context.
_BASES_INIT = syntax.statement("super().__init__(self)")

_HANDING_ON = syntax.statement("super().__init__(**hparams)")
_GIVEN = "**{0} had what other classes gave, and has the hyperparameters now: take them from there"

#: What a trial calls that names its base, in place of ``super()``.
_TRIALS_INIT = "det_compat.pytorch.PyTorchTrial.__init__"


def with_arguments(
    init: cst.FunctionDef | None,
    plan: TrialPlan,
    file: LightningFile,
    *,
    asks_size: bool = False,
) -> cst.FunctionDef:
    """The ``__init__`` that takes hyperparameters in the place of the context.

    Args:
        init: what it is now.
        plan: of the trial.
        file: that it is in.
        asks_size: whether it needs the number of processes, too.
    """
    if init is None:
        init = syntax.method("def __init__(self):\n    pass\n")
        lines = [_bases_init(plan, file)] if plan.other_bases is OtherBases.INITIALIZED else []
        lines = inherited(plan) or ([_HANDING_ON] if _is_apart(plan) else lines)
        init = init.with_changes(body=cst.IndentedBlock(lines))
    # A parameter would hide a name of the file, or of Python's own, that __init__ uses.
    hidden = {*file.names, *dir(builtins)} & syntax.names_in(init.body)
    params = init.params
    names = _parameters(plan.arguments, hidden, file)
    if asks_size and plan.is_single and "world_size" not in plan.arguments.named:
        names.append(cst.Param(_WORLD_SIZE, syntax.annotation("int"), default=cst.Integer("1")))
    context = _context_name(init, file.symbols)
    kept = [p for p in params.params if p.name.value != context]
    keyword = [p for p in params.kwonly_params if p.name.value != context]
    names = [param for param in names if param.name.value not in plan.same_names.names]
    given = {param.name.value for param in names} | plan.same_names.names
    is_open = plan.arguments.is_open or not plan.arguments.named.keys() <= given
    # A trial for Determined's Trainer may be given its hyperparameters as one dict.
    if takes_dict(plan.arguments, {p.name.value for p in (*kept, *keyword)}):
        given = plan.arguments.types.keys() - {BATCHES}
        names = [param for param in names if param.name.value not in given]
        is_open = False
    has_star = isinstance(params.star_arg, (cst.Param, cst.ParamStar))
    open_end = cst.Param(cst.Name("hparams"), syntax.annotation("Any"))
    params = params.with_changes(
        params=syntax.without_commas(kept),
        kwonly_params=syntax.without_commas([*keyword, *names]),
        star_arg=cst.ParamStar() if names and not has_star else params.star_arg,
        star_kwarg=open_end if is_open else params.star_kwarg,
    )
    if is_open:
        file.imports.new.add("from typing import Any")
        init = _without_rest(init, is_whole=plan.is_single)
    init = init.with_changes(params=params)
    init = syntax.with_body(init, _body(init, plan, file))
    for name in sorted(plan.same_names.apart):
        init = marked(init, APART.format(name))
    was_spread = isinstance(init.whitespace_before_params, cst.ParenthesizedWhitespace)
    init = init.with_changes(whitespace_before_params=cst.SimpleWhitespace(""))
    is_spread = (was_spread and bool(names or keyword or kept[1:])) or _is_long(init)
    return _spread(init) if is_spread else init


def _bases_init(plan: TrialPlan, file: LightningFile) -> cst.BaseStatement:
    """The call of the ``__init__`` of a class in front of the trial class, with what it takes."""
    texts = [file.elsewhere.texts[name] for name in plan.own.bases & file.elsewhere.texts.keys()]
    nodes = [n for text in texts for n in syntax.find(syntax.looked_at(text), cst.ClassDef)]
    inits = [method for n in nodes if (method := syntax.methods(n).get("__init__")) is not None]
    takes = any(len([*syntax.find(init.params, cst.Param)]) > 1 for init in inits)
    return _BASES_INIT if takes or not inits else syntax.statement("super().__init__()")


def needs_init(plan: TrialPlan, file: LightningFile) -> bool:
    """Whether a class without an ``__init__`` needs one."""
    if not plan.is_root:
        return bool(inherited(plan)) or _is_apart(plan)
    heirs = (p for p in file.trials.values() if plan in p.ancestors)
    is_called = any(heir.own.calls_init or _is_apart(heir) for heir in heirs)
    is_inherited = plan.other_bases is OtherBases.INITIALIZED
    return "train_batch" in plan.own.methods or is_inherited or is_called


def _is_apart(plan: TrialPlan) -> bool:
    """Whether a class has another number of batches for each step than its base."""
    return plan.accumulation is not None and plan.accumulation.is_apart


_WORLD_SIZE = cst.Name("world_size")
#: Determined had given each model processes of its own that share its gradients.
_PARTIAL = [
    cst.EmptyLine(comment=cst.Comment(f'# several devices need pl.Trainer(strategy="{UNUSED}")'))
]


def _without_rest(init: cst.FunctionDef, *, is_whole: bool) -> cst.FunctionDef:
    """The method that hands no ``**kwargs`` on: Determined gave none, and hyperparameters go on."""
    rest = init.params.star_kwarg
    given = rest.name.value if rest is not None else "hparams"

    def handing_on(call: cst.Call) -> cst.Call:
        if rest is None or not syntax.code(call.func).endswith(".__init__"):
            return call
        is_rest = [arg.star == "**" and rest.name.deep_equals(arg.value) for arg in call.args]
        kept = [arg for arg, left in zip(call.args, is_rest, strict=True) if not left]
        return call.with_changes(args=syntax.without_commas(kept)) if any(is_rest) else call

    init = syntax.each(init, cst.Call, handing_on)
    if given == "hparams" or given not in syntax.names_in(init.body):
        return init
    empty = syntax.statement(f"{given} = {{}}")
    if not is_whole:
        empty = marked(empty, _GIVEN.format(given))
    return syntax.with_body(init, syntax.below_docstring(syntax.body_of(init), [empty]))


def _is_long(init: cst.FunctionDef) -> bool:
    header = syntax.code(init.with_changes(body=cst.IndentedBlock([]), leading_lines=[]))
    return len(header.split("\n")[0]) > LINES[-1] - INDENT


def _spread(init: cst.FunctionDef) -> cst.FunctionDef:
    """The method with one parameter a line, as formatters write it."""
    line = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(" " * INDENT))
    comma = cst.Comma(whitespace_after=line)
    end = cst.Comma(whitespace_after=line.with_changes(last_line=cst.SimpleWhitespace("")))
    params = init.params
    star = params.star_arg
    keyword = [p.with_changes(comma=comma) for p in params.kwonly_params]
    if keyword and params.star_kwarg is None:
        keyword[-1] = keyword[-1].with_changes(comma=end)
    params = params.with_changes(
        params=[p.with_changes(comma=comma) for p in params.params],
        star_arg=star.with_changes(comma=comma) if isinstance(star, cst.ParamStar) else star,
        kwonly_params=keyword,
        star_kwarg=params.star_kwarg and params.star_kwarg.with_changes(comma=end),
    )
    return init.with_changes(params=params, whitespace_before_params=line)


def _context_name(init: cst.FunctionDef, symbols: Symbols) -> str:
    contexts = filter(symbols.is_context, syntax.find(init.body, cst.Name))
    originals = {symbols.original(context) for context in contexts}
    for param in init.params.params[1:]:
        annotation = param.annotation and symbols.path(param.annotation.annotation)
        if param.name.value in originals or (annotation or "").endswith("TrialContext"):
            return param.name.value
    named = [p.name.value for p in init.params.params[1:] if "context" in p.name.value]
    return named[0] if named else ""


def _parameters(
    arguments: Arguments, hidden: Collection[str], file: LightningFile
) -> list[cst.Param]:
    """The parameters by keyword, but for ``hidden`` names; those with a default come last."""
    made = []
    for name, annotation in arguments.named.items():
        if name in hidden:
            continue
        if "Any" in annotation:
            file.imports.new.add("from typing import Any")
        default = None
        if name in arguments.defaults:
            default = cst.parse_expression(_literal(arguments.defaults[name]))
        made.append(cst.Param(cst.Name(name), syntax.annotation(annotation), default=default))
    return sorted(made, key=lambda param: param.default is not None)


def _literal(value: bool | float | str) -> str:
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def _body(init: cst.FunctionDef, plan: TrialPlan, file: LightningFile) -> list[cst.BaseStatement]:
    own = syntax.self_name(init)
    lines = [made for line in syntax.body_of(init) for made in _passing(line, plan, file.symbols)]
    if not plan.is_root and (plan.own.calls_init or "__init__" not in plan.own.methods):
        return lines
    # A class that does not call the __init__ of its base still must not.
    if plan.is_root and plan.other_bases in (OtherBases.INITIALIZED, OtherBases.UNKNOWN):
        # super() is another base here, whose __init__ is called where it was.
        is_found = any("super" in syntax.names_in(line) for line in lines)
        saved = _left_out(init, plan, file) if is_found else _all(init.params)
        absent = _absent(init, plan)
        if absent and not is_found:
            items = f"{saved}.items() if name not in absent"
            saved = f"{{name: value for name, value in {items}}}"
        said = _LEFT_OUT if OF_CLI[0] in saved else ""
        text = f"pl.LightningModule.__init__({own})\n{absent}{said}"
        text += f"{own}.save_hyperparameters({saved})\n"
    elif plan.is_root:
        # Given as one dict, they are what the module has.
        names = [p.name.value for p in (*init.params.params, *init.params.kwonly_params)]
        is_dict = takes_dict(plan.arguments, names)
        saved = "hparams" if is_dict else _left_out(init, plan, file)
        # Lightning would take the arguments of mixins in front for hyperparameters, too.
        heirs = (p for p in file.trials.values() if plan in p.ancestors and p is not plan)
        if any(each.own.hands_rest_on for p in heirs for each in mixins_of(p)):
            saved = _all(init.params)
        said = _LEFT_OUT if OF_CLI[0] in saved else ""
        absent = _absent(init, plan) if "absent" in saved else ""
        text = f"super().__init__()\n{absent}{said}{own}.save_hyperparameters({saved})\n"
        beside = [BATCHES] if plan.accumulation is not None else []
        beside += [name for name in names if name == _WORLD_SIZE.value]
        for name in beside if is_dict else ():
            # What is in the dict of a checkpoint counts before the default.
            text = text.replace("\n", f'\n{own}.save_hyperparameters("{name}")\n', 1)
    elif all("__init__" not in p.own.methods for p in plan.ancestors if p is not plan) and any(
        p.is_root and needs_init(p, file) for p in plan.ancestors
    ):
        # The base had none, and the one that it gets does what each module needs.
        text = f"super().__init__({', '.join(_given_on(init.params))})\n"
    else:
        saved = "hparams" if plan.accumulation is None else f"dict({BATCHES}={BATCHES}, **hparams)"
        text = f"pl.LightningModule.__init__({own})\n{own}.save_hyperparameters({saved})\n"
    if DATA in plan.arguments.defaults:
        text = f"{DATA} = {DATA} or {{}}\n{text}"
    manual = "" if plan.is_automatic else f"{own}.automatic_optimization = False\n"
    made = syntax.statements(text + (_counted_steps(plan) + manual if manual else ""))
    at = -1 if manual else 0
    made[at] = above(made[at], _PARTIAL if plan.is_partial else [])
    lines = syntax.below_docstring(lines, made)
    # The __init__ of a model in front may come to that of a module, which sets this again.
    again = [i for i, line in enumerate(lines) if line not in made and _initializes(line)]
    if manual and again:
        lines.remove(made[-1])
        lines.insert(again[-1], made[-1])
    return lines


def _initializes(line: cst.BaseStatement) -> bool:
    calls = syntax.find(line, cst.Call)
    return any(syntax.code(call.func).endswith(".__init__") for call in calls)


def _counted_steps(plan: TrialPlan) -> str:
    """What a comment says where Lightning counts more steps than there are batches."""
    if plan.steps is not None and plan.steps > 1:
        return f"# a batch makes {plan.steps} steps, and max_steps counts each\n"
    several = len(plan.all_optimizers) > 1 and not plan.steps
    return "# max_steps counts the steps of each optimizer\n" if several else ""


def _left_out(init: cst.FunctionDef, plan: TrialPlan, file: LightningFile) -> str:
    """What a module does not want among its hyperparameters.

    That is what LightningCLI adds, where it does more than look hyperparameters up and has a name
    for each, and what ``load_from_checkpoint`` and a run that goes on would refuse to unpickle:
    classes and other objects, also those that heirs take.
    """
    params = (*init.params.params[1:], *init.params.kwonly_params)
    own = [param.name.value for param in params]
    # Lightning takes the arguments of heirs, too, of which one may look up what others are given.
    family = {each for p in file.trials.values() if plan in p.ancestors for each in p.ancestors}
    needed = {name for p in family for name in p.arguments.needs} - {*own}
    hparams = {name for p in family for name in (*p.arguments.named, *p.same_names.names)}
    given = {name for p in family for name in p.objects} - hparams - needed
    left = [*(name for name in own if name in given), *sorted(given - {*own})]
    left += OF_CLI if not takes_unnamed(init) and file.hands_hparams_on(plan) else ()
    listed = [f'"{name}"' for name in left] + (["*absent"] if _absent(init, plan) else [])
    if listed == ["*absent"]:
        return "ignore=absent"
    return f"ignore=[{', '.join(listed)}]" if listed else ""


def _absent(init: cst.FunctionDef, plan: TrialPlan) -> str:
    """The lines that find out which parameters nobody gives, where the code asks for that."""
    params = (param.name.value for param in init.params.kwonly_params)
    names = [name for name in params if name in plan.arguments.absent]
    if len(names) == 1:
        found = f'["{names[0]}"] if {names[0]} is None else []'
        return f"# without one it is no hyperparameter, as before\nabsent = {found}\n"
    if not names:
        return ""
    given = ", ".join(f'"{name}": {name}' for name in names)
    found = "[name for name, value in given.items() if value is None]"
    said = "# those that nobody gives are no hyperparameters, as before\n"
    return f"{said}given = {{{given}}}\nabsent = {found}\n"


_LEFT_OUT = "# LightningCLI adds these two, which are no hyperparameters\n"


def _all(params: cst.Parameters) -> str:
    """All arguments as a dict: Lightning finds those by itself only where ``super`` is named."""
    given = _given_on(params)
    if len(given) == 1 and given[0].startswith("**"):
        return given[0].removeprefix("**")
    return f"dict({', '.join(given)})" if given else ""


def _given_on(params: cst.Parameters) -> list[str]:
    """All arguments, as another call gets them by name."""
    named = [param.name.value for param in (*params.params[1:], *params.kwonly_params)]
    rest = [] if params.star_kwarg is None else [params.star_kwarg.name.value]
    return [*(f"{name}={name}" for name in named), *(f"**{name}" for name in rest)]


def _passing(line: cst.BaseStatement, plan: TrialPlan, symbols: Symbols) -> list[cst.BaseStatement]:
    """What becomes of a statement that calls the base's ``__init__``, in a block or not."""
    if isinstance(line, cst.SimpleStatementLine):
        made = _passing_hparams(line, plan, symbols)
        first = _base_first(line, plan, symbols)
        return first if first else [] if made is None else [made]

    def in_block(small: cst.SimpleStatementLine) -> cst.BaseStatement:
        made = _passing_hparams(small, plan, symbols)
        return syntax.statement("pass") if made is None else made

    return [syntax.each(line, cst.SimpleStatementLine, in_block)]


def _passing_hparams(
    line: cst.BaseStatement, plan: TrialPlan, symbols: Symbols
) -> cst.BaseStatement | None:
    """A call of the base's ``__init__`` with hyperparameters instead of the context."""
    call = syntax.lone_call(line)
    if call is not None and symbols.path(call.func) == _TRIALS_INIT:
        return None
    if call is None or not syntax.code(call.func).endswith(".__init__"):
        return line
    if plan.is_root and _is_of_other_base(call, plan):
        is_unknown = plan.other_bases is OtherBases.UNKNOWN
        return marked(line, "it is not known which __init__ this calls") if is_unknown else line
    given = [arg for arg in call.args if not symbols.is_context(arg.value)]
    # A mixin's took nothing, and the base gets one of its own, which takes hyperparameters.
    bases = [each for each in plan.parents if not each.is_mixin]
    is_new = bool(bases) and all("__init__" not in each.own.methods for each in bases)
    if is_new and not call.args and not plan.is_root:
        return line.with_deep_changes(call, args=[cst.Arg(cst.Name("hparams"), star="**")])
    if plan.is_root and (len(given) < len(call.args) or not call.args):
        return None
    if len(given) == len(call.args):
        return line
    if not plan.is_root and not _reaches_base(call, plan):
        line = marked(line, "a mixin's __init__, which takes no hyperparameters, comes first here")
    if (places := places_of_dict(plan)) is not None:
        return line.with_deep_changes(call, args=with_dict(call, places, symbols))
    hparams = cst.Arg(syntax.expression(_rest(call, plan, symbols)), star="**")
    return line.with_deep_changes(call, args=syntax.without_commas([*given, hparams]))


def _reaches_base(call: cst.Call, plan: TrialPlan) -> bool:
    """Whether hyperparameters that a trial gives by name come to the trial that it derives from."""
    between = [each.own for each in mixins_of(plan) if "__init__" in each.own.methods]
    owner = syntax.code(call.func).removesuffix(".__init__")
    if owner in {each.own.name for each in plan.parents if not each.is_mixin}:
        return True
    taken = {name for own in between for name in own.methods["__init__"][1:]}
    return all(own.hands_rest_on for own in between) and not any(
        taken & {*each.arguments.named, *each.arguments.needs} for each in plan.ancestors
    )


def _base_first(
    line: cst.SimpleStatementLine, plan: TrialPlan, symbols: Symbols
) -> list[cst.BaseStatement]:
    """A call of the next ``__init__`` of a mixin with a context, below that of the trial behind it.

    Nothing if that is no other order than it was, or not known to be none.
    """
    call = syntax.lone_call(line)
    if call is None or not is_init_of_next(call):
        return []
    is_given = any(symbols.is_context(arg.value) for arg in call.args)
    return [*inherited(plan)[:-1], line] if is_given and inherited(plan) else []


def inherited(plan: TrialPlan) -> list[cst.BaseStatement]:
    """The calls of the ``__init__`` of its base, and of the mixins with a context in front of it.

    Nothing if that is no other order than it was, or not known to be none.
    """
    between = [each.own for each in mixins_of(plan) if "__init__" in each.own.methods]
    bases = [each.own.name for each in plan.parents if not each.is_mixin]
    known = len(bases) == 1 and bases[0] in plan.own.bases
    takes = all(own.passes_on and not own.hands_rest_on for own in between)
    if plan.is_root or plan.is_mixin or not (between and known and takes):
        return []
    return [syntax.statement(f"{bases[0]}.__init__(self, **hparams)"), _BASES_INIT]


def _rest(call: cst.Call, plan: TrialPlan, symbols: Symbols) -> str:
    """The hyperparameters that a base is given besides those which it is given one by one."""
    inits = (parent.own.methods.get("__init__", []) for parent in plan.parents)
    places = next((names[1:] for names in inits if names), [])
    # What the module does not save, no checkpoint gives beside what is given here.
    others = {name for each in plan.ancestors[1:] for name in each.same_names.names}
    unsaved = {name for each in plan.ancestors for name in each.objects} - others
    mixins = [each.own for each in mixins_of(plan)]
    if any(own.hands_rest_on for own in mixins):
        unsaved |= {name for own in mixins for name in own.methods.get("__init__", ())}
    taken, given = [], set[str]()
    # One that names its base gives the object first.
    args = call.args if is_init_of_next(call) else call.args[1:]
    for index, arg in enumerate(args):
        place = places[index] if index < len(places) and not arg.star else ""
        name = arg.keyword.value if arg.keyword is not None else place
        given.add(name)
        texts = {text.evaluated_value for text in syntax.find(arg, cst.SimpleString)}
        is_hparam = name in texts or any(name in each.arguments.types for each in plan.ancestors)
        is_kept = bool(name) and name not in unsaved and not symbols.is_context(arg.value)
        # What the class itself takes by this name is not among the rest.
        is_kept &= name not in plan.own.methods["__init__"]
        if is_hparam or is_kept:
            taken.append(name)
    # What it is not given has its default, whatever hyperparameter has the same name.
    if "**" not in {arg.star for arg in call.args}:
        taken += sorted(others - {*given, *plan.same_names.names})
    if not taken:
        return "hparams"
    test = f'!= "{taken[0]}"' if len(taken) == 1 else f"not in {tuple(taken)}".replace("'", '"')
    return f"{{name: value for name, value in hparams.items() if name {test}}}"


def _is_of_other_base(call: cst.Call, plan: TrialPlan) -> bool:
    """Whether a call of a base's ``__init__`` may be one of a base that is not Determined's."""
    # One that names its base was looked for by the name of Determined's.
    is_named = not syntax.code(call.func).startswith("super(")
    return is_named or plan.other_bases in (OtherBases.INITIALIZED, OtherBases.UNKNOWN)
