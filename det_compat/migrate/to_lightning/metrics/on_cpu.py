"""Whether a metric may be a tensor that is not on the device of the module.

Between devices Lightning averages a tensor where it is, and NCCL has no way to do that on the CPU;
Determined took all metrics for NumPy's. A number is put onto the device by Lightning.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.tree import syntax

_NUMBERS = words("item float int len round numpy tolist bool str")
#: Functions of torch whose result is on the CPU, unless they are told otherwise.
_MAKING = words(
    "tensor as_tensor from_numpy Tensor FloatTensor LongTensor zeros ones full empty arange eye"
    " linspace logspace rand randn randint randperm scalar_tensor"
)
#: Functions that take all their tensors on one device, which is that of the first.
_TOGETHER = re.compile(r"((torch\.)?nn\.functional|F)\.\w+|torch\.where")
_TO_CPU = re.compile(r"""\.to\(\s*(device=)?(["']cpu["']|torch\.device\(["']cpu)""")


@dataclass
class Devices:
    """What the variables of a method are set to, with those of what it calls.

    Attributes:
        method: the method.
        shapes: what else its class and file have.
        deep: how many calls are followed.
    """

    method: cst.FunctionDef
    shapes: Shapes
    deep: int = 2
    _values: dict[str, list[cst.BaseExpression]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        moved = _moved_at_once(self.method)
        for line in syntax.find(self.method, cst.Assign):
            for target, value in syntax.pairs(line):
                name = syntax.code(target).partition("[")[0]
                self._values.setdefault(name, []).extend([value] if value not in moved else [])
        for changed in syntax.find(self.method, cst.AugAssign):
            self._values.setdefault(syntax.code(changed.target), []).append(changed.value)
        for call in syntax.find(self.method, cst.Call):
            owner, _, name = syntax.code(call.func).rpartition(".")
            if name in ("append", "update", "extend"):
                self._values.setdefault(owner, []).extend(arg.value for arg in call.args)

    def may_be_on_cpu(self, node: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a value, or one in it, may be a tensor on the CPU."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            name = syntax.code(node)
            known = () if name in seen else self._values.get(name, ())
            return any(self.may_be_on_cpu(value, seen | {name}) for value in known)
        if isinstance(node, cst.Call):
            return self._gives_on_cpu(node, seen)
        return any(self.may_be_on_cpu(part, seen) for part in _parts(node))

    def _gives_on_cpu(self, call: cst.Call, seen: frozenset[str]) -> bool:
        owner, _, name = syntax.code(call.func).rpartition(".")
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if name in _NUMBERS:
            return False
        if name == "cpu" or _TO_CPU.search(syntax.code(call)[len(owner) :]):
            return True
        if name in ("to", "cuda", "to_device"):
            return False
        if owner in ("torch", "th") and name in _MAKING:
            return "device" not in given
        me = syntax.self_name(self.method)
        called, inner = self.shapes.reached(call, self.method)
        if called is not None:
            return self.deep > 0 and Devices(called, inner, self.deep - 1).returns_on_cpu()
        parts = [arg.value for arg in call.args]
        if _TOGETHER.fullmatch(f"{owner}.{name}") and ".cpu" not in syntax.code(call):
            parts = parts[:1]
        if isinstance(call.func, cst.Attribute) and owner not in ("torch", me):
            parts.append(call.func.value)
        return any(self.may_be_on_cpu(part, seen) for part in parts)

    def returns_on_cpu(self) -> bool:
        """Whether one of the metrics that the method returns may be on the CPU."""
        returned = (found.value for found in syntax.returns(self.method))
        return any(self.may_be_on_cpu(value) for value in returned if value is not None)


def _moved_at_once(method: cst.FunctionDef) -> set[cst.BaseExpression]:
    """What variables are set to before anything else than their move to a device reads them."""
    found, body = set[cst.BaseExpression](), syntax.body_of(method)
    for at, line in enumerate(body):
        name, call = syntax.target_of(line) or "", syntax.call_of(line)
        func = syntax.code(call.func) if call is not None else ""
        given = [syntax.code(arg.value) for arg in call.args] if call is not None else []
        is_moved = func in (f"{name}.to", f"{name}.cuda")
        is_moved |= func.endswith(".to_device") and given == [name]
        if not name.isidentifier() or not is_moved:
            continue
        before = cst.IndentedBlock([*body[:at]])
        sets = [
            v
            for n in syntax.find(before, cst.Assign)
            for to, v in syntax.pairs(n)
            if syntax.code(to) == name
        ]
        if sum(each.value == name for each in syntax.find(before, cst.Name)) == len(sets):
            found.update(sets)
    return found


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values that a value has in it, or is computed from."""
    if isinstance(node, cst.BinaryOperation):
        yield from (node.left, node.right)
    elif isinstance(node, cst.UnaryOperation):
        yield node.expression
    elif isinstance(node, cst.Subscript):
        yield node.value
    elif isinstance(node, cst.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, (cst.Dict, cst.List, cst.Tuple)):
        yield from (element.value for element in node.elements)
    elif isinstance(node, cst.DictComp):
        yield from (node.value, node.for_in.iter)
    elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        yield from (node.elt, node.for_in.iter)
