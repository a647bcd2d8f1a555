"""Which tests are nearest to a module: those that import it and those of its room; and all of its package."""

import re
from collections.abc import Mapping
from pathlib import Path

UNIT = Path("tests/unit")
LEAVES = frozenset({"sim", "judge", "traces"})
"""Folders of leaf packages; those of their tests have the same names."""

GOLDEN = "test_golden.py"
"""Holds figures that many modules of its package have a part in."""


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
    """Test files, nearest first: those that import the module, the others of its room, where none imports the module
    the package's that import what imports it, and the package's golden figures."""
    package = root / package_tests(path)
    everywhere = {test: test.read_text() for test in sorted((root / UNIT).rglob("test_*.py"))}
    direct = _importing(everywhere, module(path))
    direct.sort(key=lambda test: not test.is_relative_to(package))
    room = root / room_tests(path)
    others = [test for test in everywhere if test.parent == room and test not in direct]
    found = [*direct, *others]
    if not direct:
        sources = [source for top in ("cascadia", *LEAVES) for source in sorted((root / top).rglob("*.py"))]
        users = _importing({source: source.read_text() for source in sources}, module(path))
        theirs = [test for user in users for test in _importing(everywhere, module(user.relative_to(root)))]
        found += [test for test in theirs if not found or test.is_relative_to(package)]
    found += [test for test in everywhere if test.name == GOLDEN and test.is_relative_to(package)]
    return [test.relative_to(root) for test in dict.fromkeys(found)]


def _importing(texts: Mapping[Path, str], name: str) -> list[Path]:
    wanted = re.compile(rf"\b{re.escape(name)}\b")
    return [path for path, text in texts.items() if wanted.search(text)]
