"""A notebook of fakes, which answer at once, prints what it shows; tests/e2e runs all of them with Jupyter."""

import ast
import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.data import ROOT

OF_FAKES = [
    path
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    if "cascadia.testing" in path.read_text()
]


async def run(cells: list[dict[str, Any]]) -> None:
    names: dict[str, Any] = {}
    for cell in cells:
        code = compile("".join(cell["source"]), cell["id"], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, names)  # as Jupyter runs a cell, which may await
        if inspect.isawaitable(done):
            await done


@pytest.mark.parametrize("path", OF_FAKES, ids=[path.stem for path in OF_FAKES])
def test_a_notebook_prints_what_it_shows(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    with pd.option_context("display.width", 80):
        asyncio.run(run(cells))
    shown = "".join(
        "".join(output["text"]) for cell in cells for output in cell["outputs"] if "text" in output
    )
    assert capsys.readouterr().out == shown
