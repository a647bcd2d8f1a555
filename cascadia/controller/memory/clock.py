"""The machine's clock, which somebody may set while the controller runs."""

from collections.abc import Callable

SET_S = 60.0
"""By less than that a clock is put right, not set."""


class Clock:
    """`unix_s` is the machine's, `steady_s` seconds that pass, whoever sets that."""

    def __init__(self, unix_s: Callable[[], float], steady_s: Callable[[], float]) -> None:
        self._unix_s = unix_s
        self._steady_s = steady_s
        self._off_s = unix_s() - steady_s()

    def set_by_s(self) -> float:
        """Seconds by which it was set since it was last asked; 0 where it was not."""
        before, self._off_s = self._off_s, self._unix_s() - self._steady_s()
        by_s = self._off_s - before
        if abs(by_s) < SET_S:
            return 0.0
        return by_s


def in_words(by_s: float) -> str:
    """How far it was set, as 1 d 2 h 3 min."""
    minutes = round(abs(by_s) / 60.0)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    told = " ".join(f"{count} {unit}" for count, unit in parts if count)
    return f"{told or '0 min'} {'on' if by_s > 0 else 'back'}"
