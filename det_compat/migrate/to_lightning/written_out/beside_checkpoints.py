"""Hooks of callbacks that put files into a checkpoint's folder.

Determined called them when a checkpoint was written, with its folder. Lightning's checkpoint is one
file, and its hook comes just before that is written: for a hook that only adds files it is the
same, and one that reads what is there has no counterpart.
"""

import re
from collections.abc import Mapping

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.tree import syntax

#: The hooks, of which the first is what Determined called the other before.
NAMES = ("on_checkpoint_end", "on_checkpoint_write_end")
_SAVING = "on_checkpoint_save_start"
#: The folder that such files get beside the checkpoint, by the hook's own name for it.
_FOLDER = """\
saved_in = getattr(trainer.checkpoint_callback, "dirpath", None) or trainer.default_root_dir
{0} = os.path.join(saved_in, f"step={{trainer.global_step}}")
os.makedirs({0}, exist_ok=True)
"""
#: What a hook that only tells of the folder is given.
_TOLD = """\
{0} = getattr(trainer.checkpoint_callback, "dirpath", None) or trainer.default_root_dir
"""
#: Calls that may have to do with what is in a folder already, by words in their names.
_READING = words(
    """
    read load list glob walk scan iter copy move rename upload send zip tar archive run system call
    exec stat size exists isfile remove rmtree unlink
    """
)
#: Calls that write what they are given into the folder that they are given.
_WRITING = ("save", "dump", "write", "export")
_TELLING = words("print str repr format debug info warning error")
#: What is taken for a model, and what it may be asked for: it stays as it is, but for its mode.
_MODEL = re.compile(r"(?i)model|net|module|encoder|decoder|generator|discriminator|critic")
_ASKED = re.compile(
    r"(named_)?(parameters|modules|children|buffers)|state_dict|eval|train|forward|generate|sample"
    r"|predict\w*|encode|decode|evaluate\w*|\w*(save|export|dump|write)\w*|get_\w+|is_\w+"
    r"|append|update|items|keys|values|get"
)
_JOINING = ("join", "Path", "PurePath", "joinpath", *_TELLING)


def merged(node: cst.ClassDef) -> tuple[cst.ClassDef, bool]:
    """A callback whose hook that adds files has the place of Lightning's that saves.

    Returns:
        The callback, and whether it needs ``os``.
    """
    own = syntax.methods(node)
    hooks = [own[name] for name in NAMES if name in own]
    if len(hooks) != 1 or not _is_adding(hooks[0], own):
        return node, False
    hook, saving = hooks[0], own.get(_SAVING)
    called = {syntax.code(call.func) for call in syntax.find(node, cst.Call)}
    if any(text.endswith(f".{name}") for text in called for name in (*NAMES, _SAVING)):
        return node, False
    folder = hook.params.params[1].name.value
    uses = folder in syntax.names_in(hook.body)
    writes = uses and not _only_tells(hook)
    lines = syntax.statements((_FOLDER if writes else _TOLD).format(folder)) if uses else []
    whole = syntax.body_of(hook)
    at = 1 if syntax.has_docstring(whole) else 0
    # Determined called it in the chief alone, and Lightning calls its own in every process.
    block = cst.IndentedBlock([*lines, *whole[at:]])
    body = [*whole[:at], cst.If(syntax.expression("trainer.is_global_zero"), block)]
    if saving is None:
        header = f"def {_SAVING}({syntax.self_name(hook)}, checkpoint):\n    pass\n"
        made = syntax.method(header).with_changes(
            leading_lines=hook.leading_lines, returns=hook.returns
        )
    elif syntax.returns(saving):
        return node, False
    else:
        made, body = saving, [*syntax.body_of(saving), *body]
    made = syntax.with_body(made, body)
    lines_of_class = [
        made if line is hook else line for line in syntax.body_of(node) if line is not saving
    ]
    return syntax.with_body(node, lines_of_class), writes


def _only_tells(hook: cst.FunctionDef) -> bool:
    """Whether a hook calls nothing but what prints or logs."""
    names = {syntax.code(call.func).rpartition(".")[2] for call in syntax.find(hook, cst.Call)}
    return names <= {*_TELLING}


def _is_adding(hook: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a hook does nothing with its folder but add files, and changes no other object."""
    if len(hook.params.params) != 2 or hook.decorators:
        return False
    return _adds(hook, hook.params.params[1].name.value, own, ())


def _adds(
    method: cst.FunctionDef, folder: str, own: Mapping[str, cst.FunctionDef], above: tuple[str, ...]
) -> bool:
    calls = [*syntax.find(method.body, cst.Call)]
    # Python's own list() and iter() read no folder, nor does what makes a list of an object.
    named = {syntax.code(call.func) for call in calls} - {"list", "iter"}
    names = {name.rpartition(".")[2].lower() for name in named} - {"to_list", "tolist", "aslist"}
    parts = {part for name in names for part in name.strip("_").split("_")}
    text = syntax.code(method)
    if parts & _READING or "state_dict.pth" in text or "subprocess" in text:
        return False
    if any(_opens_to_read(call) for call in calls) or not _keeps_others(method):
        return False
    if any(_changes_model(call) for call in calls):
        return False
    left = sum(name.value == folder for name in syntax.find(method.body, cst.Name))
    for call in calls:
        name = syntax.code(call.func).rpartition(".")[2]
        for index, arg in enumerate(call.args):
            if syntax.code(arg.value) != folder:
                continue
            known = own.get(name) if name not in above else None
            given = known.params.params[1:] if known is not None else ()
            if index < len(given) and arg.keyword is None and known is not None:
                if not _adds(known, given[index].name.value, own, (*above, name)):
                    return False
            elif name not in _JOINING and not any(word in name.lower() for word in _WRITING):
                return False
            left -= 1
    joined = [node.expression for node in syntax.find(method.body, cst.FormattedStringExpression)]
    joined += [node.left for node in syntax.find(method.body, cst.BinaryOperation)]
    return left == sum(syntax.code(value) == folder for value in joined)


def _changes_model(call: cst.Call) -> bool:
    """Whether a call may change a model, which the checkpoint has been written with by then."""
    func = call.func
    owner = func.value if isinstance(func, cst.Attribute) else None
    if not isinstance(func, cst.Attribute) or not isinstance(owner, (cst.Name, cst.Attribute)):
        return False
    is_model = _MODEL.search(syntax.code(owner).rpartition(".")[2])
    return bool(is_model) and not _ASKED.fullmatch(func.attr.value)


def _opens_to_read(call: cst.Call) -> bool:
    if syntax.code(call.func).rpartition(".")[2] != "open":
        return False
    modes = [syntax.argument(call, 1, "mode")]
    if isinstance(call.func, cst.Attribute):
        # A path is told the mode first, `gzip` the name.
        modes.append(syntax.argument(call, 0, "mode"))
    texts = [str(m.evaluated_value) for m in modes if isinstance(m, cst.SimpleString)]
    return not any(set(text) <= set("rwxabt+") and set(text) & set("wax") for text in texts)


def _keeps_others(method: cst.FunctionDef) -> bool:
    """Whether a method sets nothing but its own variables, and attributes of its object."""
    me = syntax.self_name(method)
    targets = [
        part for line in syntax.find(method.body, cst.Assign) for part, _ in syntax.pairs(line)
    ]
    targets += [line.target for line in syntax.find(method.body, cst.AugAssign)]
    return all(
        isinstance(target, cst.Name)
        or (isinstance(target, cst.Attribute) and syntax.code(target.value) == me)
        or (isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name))
        for target in targets
    )
