"""What is compiled runs where there is no place for a cache too."""

from cascadia_sim.engine.jitted import jitted
from tests.data import ROOT


def test_a_function_without_a_place_for_its_cache_is_compiled_all_the_same() -> None:
    found: dict[str, object] = {}
    exec("def same(value): return value", found)  # it is in no file: Numba finds no place either
    assert callable(jitted(nogil=True)(found["same"]))  # type: ignore[arg-type]


def test_nothing_is_compiled_past_it() -> None:
    own = [
        file for folder in ("cascadia", "sim", "judge", "traces") for file in (ROOT / folder).rglob("*.py")
    ]
    assert [file.name for file in own if "import njit" in file.read_text()] == ["jitted.py"]
