"""Run the notebooks of the examples, and keep what their cells print.

``python docs/run_notebooks.py`` does it. It needs ``nbclient`` and ``ipykernel``, which
the extra ``docs`` brings.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]


def run(path: Path) -> None:
    """Run a notebook in a copy of its folder, and write its outputs into it.

    Bars are widgets, which a file cannot show, and warnings name the folders of a machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(path.parent, folder, dirs_exist_ok=True)
        notebook = nbformat.read(path, 4)
        NotebookClient(notebook, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if _is_told(one)]
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, path)


def _is_told(output: NotebookNode) -> bool:
    return output.output_type == "execute_result" or output.get("name") == "stdout"


if __name__ == "__main__":
    for found in sorted(ROOT.glob("examples/*/*.ipynb")):
        run(found)
