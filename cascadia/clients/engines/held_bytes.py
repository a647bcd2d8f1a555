"""Bytes of answers that a process holds back at a time, all requests together: beyond a limit it takes no more.

An answer is held while it comes in whole, in a cascade until its gate has decided, and until its client reads. One
engine that writes without end is bounded by the size of an answer; ten thousand requests at once are bounded by this.
"""

from collections.abc import Callable


class HeldBytes:
    """`used` of `limit` bytes. `relief` is asked for room where there is none: whether it has given some back."""

    __slots__ = ("limit", "relief", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.relief: Callable[[], bool] | None = None
        self.used = 0

    def take(self, count: int) -> bool:
        """False where there is no room for `count` more: nothing is taken then."""
        while self.used + count > self.limit:
            if self.relief is None or not self.relief():
                return False
        self.used += count
        return True

    def give(self, count: int) -> None:
        self.used -= count


class Holding:
    """Share of one request in `of`, given back once by `release`."""

    __slots__ = ("_of", "count")

    def __init__(self, of: HeldBytes) -> None:
        self._of = of
        self.count = 0

    def take(self, count: int) -> bool:
        taken = self._of.take(count)
        self.count += count if taken else 0
        return taken

    def release(self) -> None:
        self._of.give(self.count)
        self.count = 0
