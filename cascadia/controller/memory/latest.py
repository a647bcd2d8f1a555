"""The last entries of each kind: what is remembered of a history where there is no room for all.

A day with many steps must not take away what decisions rest on: how often the fleet was moved today, with which GPUs
it was last decided, what load is usual. So steps, of which a move has hundreds, take no other entry's place.
"""

from collections import deque
from collections.abc import Sequence
from itertools import count

from cascadia.controller.memory.history import Entry, Kind, line_of

MOST, STEPS = 100, 300
"""Of a kind, and of steps."""


class Latest:
    def __init__(self) -> None:
        self._kept: dict[Kind, deque[tuple[int, Entry]]] = {}
        self._numbers = count()

    def add(self, entry: Entry) -> None:
        kept = self._kept.setdefault(entry.kind, deque(maxlen=STEPS if entry.kind == "step" else MOST))
        kept.append((next(self._numbers), entry))

    def entries(self) -> list[Entry]:
        """Entries in the order in which they were added."""
        numbered = [each for kept in self._kept.values() for each in kept]
        return [entry for _, entry in sorted(numbered, key=lambda each: each[0])]


def lines_within(entries: Sequence[Entry], most_bytes: int) -> list[str]:
    """Lines of as many entries as there is room for, in their order: steps give way first, then the oldest."""
    lines = [line_of(entry) for entry in entries]
    kept, size = set[int](), 0
    steps = [at for at, entry in enumerate(entries) if entry.kind == "step"]
    others = [at for at, entry in enumerate(entries) if entry.kind != "step"]
    for at in (*reversed(others), *reversed(steps)):
        size += len(lines[at].encode())
        if size > most_bytes:
            break
        kept.add(at)
    return [line for at, line in enumerate(lines) if at in kept]
