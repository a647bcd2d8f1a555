"""Who waits for the compiler is told so."""

from collections.abc import Callable

from numba import njit

from cascadia.cli.shared.compiling import COMPILING, telling_of_the_compiler


def _plus_one() -> Callable[[int], int]:
    return njit(lambda n: n + 1)  # type: ignore[no-any-return]  # new each time: compiled at its first call


def test_the_bar_says_that_something_is_compiled_and_then_again_what_was_under_way() -> None:
    told: list[tuple[float | None, str | None]] = []
    with telling_of_the_compiler(lambda share=None, text=None: told.append((share, text))) as step:
        step(0.5, "searching")
        one_more = _plus_one()
        assert one_more(1) == 2
        assert one_more(2) == 3
    assert _plus_one()(1) == 2
    assert told == [(0.5, "searching"), (None, COMPILING), (0.5, "searching")]
