"""What still asks ``pedl`` after its trials have become Determined's, which have no run of PEDL."""

from collections.abc import Iterable
from pathlib import Path

import libcst as cst

from det_compat.migrate.target import Target
from det_compat.migrate.tree import leftovers, syntax
from det_compat.migrate.tree.file import File, FileTransformer
from det_compat.migrate.tree.symbols import resolve


class PedlLeft(Target):
    """Marks what is left of PEDL in the files of one analysis, and changes nothing else."""

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether any file names it."""
        return any(b"pedl" in text for text in texts)

    def migrated(self, path: Path) -> bytes | None:
        """The file with its marks; None if nothing in it is PEDL's."""
        facts = self.analysis.facts(path)
        if facts is None or b"pedl" not in self.sources[path]:
            return None
        tree, symbols = resolve(self.sources[path], facts)
        file = File(symbols)
        marks = _Marks(file)
        tree = syntax.transformed(tree, marks)
        return leftovers.put_back_silently(tree, file).bytes if marks.found else None


class _Marks(FileTransformer[File]):
    marked_statements = (cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef, cst.If)

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self.found = False

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
        symbol = self.symbols.get(original)
        path = "" if symbol is None else symbol.path.partition("()")[0]
        if path.startswith("det_compat.pedl."):
            self.found = True
            self.mark(f"{path.removeprefix('det_compat.')} has no counterpart")
        return updated
