"""The pages of the site: the documents of the repository, at the paths that they have in it.

MkDocs calls this as a hook; its links are then those that work in the repository, too.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from names_page import names_page

ROOT = Path(__file__).parents[1]
#: The modules whose public names `api.md` has, from their docstrings.
MODULES = (
    "det_compat.api.fit",
    "det_compat.api.run",
    "det_compat.adapters.module",
    "det_compat.pytorch",
    "det_compat.core",
    "det_compat.config",
    "det_compat.checkpoint",
    "det_compat.search",
    "det_compat.tensorboard",
    "det_compat.transformers",
)
API = "# Python\n\nWhat can be imported, from its docstrings. `determined` has most of it, too.\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the documents of the whole repository in place of those in ``docs/``, and make two."""
    kept = [file for file in files if not file.is_documentation_page() and not _is_other(file)]
    found = [*_documents(), *sorted(ROOT.glob("docs/*.svg"))]
    pages = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in found}
    pages["names.md"] = names_page()
    pages["api.md"] = API + "".join(f"::: {module}\n\n" for module in MODULES)
    made = [File.generated(config, name, content=text) for name, text in pages.items()]
    return Files([*kept, *made])


def _documents() -> list[Path]:
    own = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]
    return sorted(own)


def _is_other(file: File) -> bool:
    return file.src_uri.endswith((".py", ".pyc", ".svg"))
