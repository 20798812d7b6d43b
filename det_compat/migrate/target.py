"""What a migration goes to, and what keeps files from it."""

import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from det_compat.migrate.tree.elsewhere import Elsewhere, elsewhere
from det_compat.migrate.tree.facts import Analysis
from det_compat.migrate.tree.transformers import CannotRewriteError


@dataclass(frozen=True)
class Problem:
    """Why a file stays as it was; with a traceback if det_compat is to blame."""

    reason: str
    traceback: str = ""


class Problems(dict[Path, Problem]):
    """The files that stay as they were."""

    @contextmanager
    def of(self, *paths: Path) -> Iterator[None]:
        """Note what keeps files from being rewritten, so that it does not stop the others.

        CannotRewriteError says what is wrong with the file. Any other error is a bug of
        det_compat's, and is noted as one.
        """
        try:
            yield
        except CannotRewriteError as error:
            self |= dict.fromkeys(paths, Problem(str(error)))
        except RecursionError:
            self |= dict.fromkeys(paths, Problem("it is nested too deeply for LibCST"))
        except Exception as error:
            reason = f"internal error: {type(error).__name__}: {error}; please report it"
            self |= dict.fromkeys(paths, Problem(reason, traceback.format_exc()))


class Target:
    """Rewrites the files of one analysis.

    Args:
        analysis: of all files that are migrated together.
        sources: their texts.
        problems: gets what cannot be rewritten, while the files are read.
    """

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes], problems: Problems) -> None:
        self.analysis = analysis
        self.sources = sources
        self.problems = problems

    @cached_property
    def elsewhere(self) -> Elsewhere:
        """What the code beside trial classes and reducers does."""
        return elsewhere(self.sources.values())

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether there may be anything to do in these files, for which they are analysed."""
        return True

    def trials(self, path: Path) -> list[str]:
        """The trial classes of a file that are rewritten: none, unless overridden."""
        return []

    def kept_whole(self, before: Mapping[Path, bytes]) -> dict[Path, bytes]:
        """Files as they were ``before`` all steps, with marks, where no trial of them goes further.

        There are none, unless overridden.
        """
        return {}

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has nothing to do with this target.

        Raises:
            CannotRewriteError: there can be none.
        """
        raise NotImplementedError
