"""Runs the notebooks in docs/notebooks with Jupyter's own kernel, and writes what their cells print.

`python docs/notebooks.py` writes them; with `--check` it fails where a cell fails or prints something else.
"""

import difflib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent / "notebooks"
SECONDS = 600
"""What a cell may take."""


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook, run beside a copy of the examples that it reads."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as made:
        shutil.copytree(FOLDER.parent / "examples", Path(made) / "examples")
        folder = Path(made) / "notebooks"
        folder.mkdir()
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        resources = {"metadata": {"path": str(folder)}}
        # A busy machine cuts one print in two.
        client = NotebookClient(notebook, timeout=SECONDS, coalesce_streams=True, resources=resources)
        client.execute(env={**os.environ, "CASCADIA_CACHE_DIR": str(Path(made) / "cache")})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """Lines that the cells print."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs).splitlines(keepends=True)


def run(check: bool) -> int:
    stale = False
    for path in sorted(FOLDER.glob("*.ipynb")):
        old, new = nbformat.read(path, as_version=4), executed(path)
        if printed(old) == printed(new):
            continue
        stale = True
        sys.stderr.writelines(difflib.unified_diff(printed(old), printed(new), path.name, "now"))
        if not check:
            nbformat.write(new, path)
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(run("--check" in sys.argv[1:]))
