"""What the classes that derive from one give its ``__init__`` by themselves."""

import ast
from collections.abc import Iterator, Sequence

from det_compat.analysis.expressions import last_name, walked
from det_compat.analysis.given.values import Given, Placed


def given_again(given: Given, name: str, parameters: Sequence[str]) -> frozenset[str]:
    """The parameters of a class that only classes which derive from it give it, by themselves.

    What they give is made of no parameters of their own but such as are given to them in this way,
    so that whoever makes one of these classes again need not know it.

    Args:
        given: what is made in all files.
        name: of the class.
        parameters: of its ``__init__``, without ``self``.
    """
    places: dict[str, list[Placed]] = {}
    for to, placed in values_given(given, name, parameters):
        places.setdefault(to, []).append(placed)
    return frozenset(
        to for to, made in places.items() if all(_is_given_again(given, each) for each in made)
    )


def classes_handing_on(given: Given, name: str) -> list[str]:
    """A class, and those that derive from it and hand on to it whatever they are given."""
    names = [name]
    for each in names:
        for node in given.classes:
            init = given.inits.get(node.name)
            hands_on = init is None or init.args.kwarg is not None
            if hands_on and each in map(last_name, node.bases) and node.name not in names:
                names.append(node.name)
    return names


def values_given(
    given: Given, name: str, parameters: Sequence[str]
) -> Iterator[tuple[str, Placed]]:
    """What the parameters of a class are given wherever it is made, also by what derives from it.

    Args:
        given: what is made in all files.
        name: of the class.
        parameters: of its ``__init__``, without ``self``.
    """
    for each in classes_handing_on(given, name):
        yield from given.to(each, parameters)


def _is_given_again(
    given: Given, placed: Placed | None, seen: frozenset[object] = frozenset()
) -> bool:
    """Whether an expression in the ``__init__`` of a class has nothing that only a caller knows."""
    if placed is None:
        return True
    node, scope = placed
    owner = given.owner(scope)
    if owner is None or not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
        return False
    args = scope.args
    places = [each.arg for each in (*args.posonlyargs, *args.args)]
    named = {*places[2:], *(each.arg for each in args.kwonlyargs)}
    rest = args.vararg.arg if args.vararg else ""
    never = {*places[:1], *([args.kwarg.arg] if args.kwarg else [])}
    for name in {each.id for each in walked(node) if isinstance(each, ast.Name)}:
        if name in never or (scope, name) in seen:
            return False
        made = [each for each in given.of(name, scope) if each and each[1] is scope]
        if name in named or name == rest:
            # The context comes first.
            every = given.to(owner.name, [*(places[1:] or ["context"]), rest])
            handed = [each for to, each in every if to == name]
            if name in named and not handed:
                return False
            made += handed
        if not all(_is_given_again(given, each, seen | {(scope, name)}) for each in made):
            return False
    return True
