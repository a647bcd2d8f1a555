"""Which tests are nearest to a module: those of its room and those that import it; and all of its package."""

import re
from pathlib import Path

UNIT = Path("tests/unit")
LEAVES = frozenset({"sim", "judge", "traces"})
"""Folders of leaf packages; those of their tests have the same names."""


def package_tests(path: Path) -> Path:
    """The folder of the tests of the package that the file `path` belongs to."""
    return UNIT / (path.parts[0] if path.parts[0] in LEAVES else path.parts[1])


def room_tests(path: Path) -> Path:
    """The folder that mirrors the file's."""
    inside = path.parts[2:-1]
    return package_tests(path).joinpath(*inside)


def module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[1:] if parts[0] in LEAVES else parts)


def nearest(root: Path, path: Path) -> list[Path]:
    """Test files of the package, nearest first: those that import the module, then the others of its room."""
    name = re.compile(rf"\b{re.escape(module(path))}\b")
    package = root / package_tests(path)
    direct = [test for test in sorted(package.rglob("test_*.py")) if name.search(test.read_text())]
    room = root / room_tests(path)
    others = [test for test in sorted(room.glob("test_*.py")) if test not in direct] if room.is_dir() else []
    return [test.relative_to(root) for test in [*direct, *others]]
