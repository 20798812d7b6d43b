"""Where the imports of a file lead in its tree."""

import os
from pathlib import Path

from det_compat.analysis.scopes import Import, Scope
from det_compat.catalog.names import ALIASED
from det_compat.catalog.support import is_determined


class Project:
    """The modules of the tree, by their files."""

    def __init__(self, modules: list[Scope]) -> None:
        self._modules = {str(module.source.path.absolute()): module for module in modules}
        self._folders: dict[Path, list[str]] = {}

    def find(self, found: Import) -> Scope | None:
        """The file that an import names as its module; None if it is not in the tree."""
        return self.module(found.scope, found.module, found.level)

    def is_determined(self, found: Import) -> bool:
        """Whether an import is of Determined, and not of a file of the tree with such a name.

        ``determined`` and ``pedl`` are aliased, and so win over the tree's own.
        """
        root = found.module.partition(".")[0]
        if found.level or not is_determined(root):
            return False
        return root in ALIASED or self.module(found.scope, found.module) is None

    def module(self, scope: Scope, name: str, level: int = 0) -> Scope | None:
        """A module by its dotted name, as seen from a scope."""
        below = os.sep.join(["", *name.split(".")]) if name else ""
        for folder in self._searched(scope, level):
            path = folder.rstrip(os.sep) + below
            module = self._modules.get(f"{path}.py")
            module = module or self._modules.get(os.path.join(path, "__init__.py"))
            if module is not None:
                return module
        return None

    def _searched(self, scope: Scope, level: int) -> list[str]:
        """Where a module is looked for: in the file's own folder, and in those above it."""
        path = scope.source.path
        if path not in self._folders:
            self._folders[path] = [str(folder) for folder in path.absolute().parents]
        folders = self._folders[path]
        return folders[level - 1 : level] if level else folders
