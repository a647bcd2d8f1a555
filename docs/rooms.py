"""The rooms of each package as a picture: from the contracts in pyproject.toml, and what each room says of itself."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENDS = (": ", "; ", ". ", " (", ", ", " which ")
"""What comes before the first of these is shown of a sentence."""

ROOTS = {"cascadia_sim": "sim", "cascadia_judge": "judge", "cascadia_traces": "traces"}


def rooms_section() -> Iterator[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    for contract in contracts["contracts"]:
        for package in contract.get("containers", ()):
            yield f"### `{package}`"
            yield "\n".join(["```text", *_picture(package, contract["layers"]), "```"])


def _picture(package: str, layers: list[str]) -> Iterator[str]:
    """A line a room, top to bottom; rooms of one layer, which do not know each other, are joined by `│`."""
    names = [[name.strip(" ()") for name in layer.split("|")] for layer in layers]
    width = max(len(name) for layer in names for name in layer)
    for layer in names:
        for at, name in enumerate(layer):
            joined = " " if len(layer) == 1 else "┌" if at == 0 else "└" if at == len(layer) - 1 else "│"
            yield f"{joined} {name:<{width}}  {_says(package, name)}"


def _says(package: str, room: str) -> str:
    """The first sentence of a room's, or a module's, docstring."""
    path = ROOT.joinpath(ROOTS.get(package.split(".")[0], ""), *package.split("."), room)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
    for end in ENDS:
        text = text.partition(end)[0]
    return text.rstrip(".")
