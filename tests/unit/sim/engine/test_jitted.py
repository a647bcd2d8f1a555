"""What is compiled runs where there is no place for a cache too."""

import pytest
from numba.core.caching import CacheImpl
from numba.core.dispatcher import Dispatcher

from cascadia_sim.engine import kernel
from cascadia_sim.engine.jitted import is_kept, jitted
from tests.data import ROOT


def test_a_function_without_a_place_for_its_cache_is_compiled_all_the_same() -> None:
    found: dict[str, object] = {}
    exec("def same(value): return value", found)  # it is in no file: Numba finds no place either
    assert callable(jitted(nogil=True)(found["same"]))  # type: ignore[arg-type]


def test_it_is_told_whether_what_is_compiled_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_kept()
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    assert not is_kept()


def test_nothing_is_compiled_past_it() -> None:
    own = [
        file for folder in ("cascadia", "sim", "judge", "traces") for file in (ROOT / folder).rglob("*.py")
    ]
    assert [file.name for file in own if "import njit" in file.read_text()] == ["jitted.py"]


def test_a_function_of_the_kernel_without_a_way_in_from_python_says_so_by_its_name() -> None:
    """Called from Python, such a function ends the process."""
    of_the_kernel = {name: made for name, made in vars(kernel).items() if isinstance(made, Dispatcher)}
    assert len(of_the_kernel) > 40
    closed = {name for name, made in of_the_kernel.items() if made.targetoptions.get("no_cpython_wrapper")}
    assert closed == {name for name in of_the_kernel if name.startswith("_")}
