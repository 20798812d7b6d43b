"""What is written out in an expression."""

import ast
from functools import lru_cache


def words(text: str) -> frozenset[str]:
    """A set of names, which spaces separate."""
    return frozenset(text.split())


def literal(node: ast.expr) -> str | None:
    """The text of a string that is written out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def imported(node: ast.Call) -> str | None:
    """The module that ``import_module`` and ``__import__`` are asked for, if it is written out."""
    name = literal(node.args[0]) if node.args else None
    if name is None or not name.startswith("."):
        return name
    given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "package")]
    package = literal(given[0]) if given else None
    # A module further up than the package is none of Determined's.
    return f"{package}{name}" if package and name[1:2] != "." else None


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    return last_name(node.func)


def last_name(node: ast.AST | None) -> str:
    """``c`` of ``a.b.c``, and of ``c`` itself; empty of what is no name."""
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def decorators(node: ast.AST | None) -> set[str]:
    """The last names of the decorators of a function or class; those of calls are left out."""
    return {last_name(decorator) for decorator in getattr(node, "decorator_list", [])}


@lru_cache(maxsize=1 << 12)
def walked(node: ast.AST) -> tuple[ast.AST, ...]:
    """What ``ast.walk`` gives, kept: many checks ask for the same trees, which nobody changes."""
    return tuple(ast.walk(node))
