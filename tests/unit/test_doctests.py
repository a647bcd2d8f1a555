"""Examples in docstrings say what happens."""

import doctest
from importlib import import_module

import pytest

from tests.data import ROOT

PLACES = ("cascadia", "sim/cascadia_sim", "judge/cascadia_judge", "traces/cascadia_traces")
FILES = [
    path for place in PLACES for path in sorted((ROOT / place).rglob("*.py")) if ">>> " in path.read_text()
]


def module_of(name: str) -> str:
    parts = name.removesuffix(".py").split("/")
    return ".".join(parts[parts[0] in ("sim", "judge", "traces") :])


@pytest.mark.parametrize("name", [str(path.relative_to(ROOT)) for path in FILES])
def test_examples_hold(name: str) -> None:
    failed, tried = doctest.testmod(import_module(module_of(name)))
    assert tried
    assert not failed
