"""Copies of what was fed back a moment ago: retries, and clients that ask the same thing again and again.

A run of copies is one input: that the second agrees follows from the first. So a copy counts against settings that
differ on it, and for none. Wealth is then never above what it is with all of them counted, so whatever held of that
holds; and a run, however long, wins no more than one input does.
"""

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b

LAST = 100
"""So many inputs fed back are remembered."""


class Recent:
    """The last inputs fed back, by what tells each from others. What is kept of one means the same to any process."""

    def __init__(self, last: int = LAST) -> None:
        self._keys: deque[int] = deque(maxlen=last)

    def has(self, key: bytes | None) -> bool:
        """Tells whether `key` was among the last, and takes it in. None: nothing tells the input from others, and it
        is nobody's copy.
        """
        if key is None:
            return False
        found, known = int.from_bytes(blake2b(key, digest_size=6).digest()), self._keys
        copy = found in known
        known.append(found)
        return copy

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(self._keys)

    def resume(self, kept: Iterable[int]) -> None:
        self._keys.clear()
        self._keys.extend(kept)
