"""Members that wait for a batch: the earliest deadline first, in one queue or in one a worker."""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Protocol

from msgspec import Struct

from cascadia.router.openai.errors import StageFailed
from cascadia.router.replicas.results import Reply


class Said(Struct, frozen=True):
    """What an engine said of one member: `raw`, its part of the answer, which took `tokens`. `stage` named it."""

    raw: bytes
    tokens: int
    stage: str
    replica: str


class Asks(Protocol):
    """Whoever a member is of; told once of each."""

    def answered(self, slot: int, said: Said) -> None: ...

    def refused(self, slot: int, reply: "Reply[None]") -> None: ...

    def failed(self, slot: int, error: StageFailed) -> None: ...


class Member(Struct, eq=False):
    """One input. `due_s` is when it should be answered, and `deadline_s` when nobody waits any more; both in the event
    loop's time. `slot` is its place among those of its request."""

    raw: bytes
    asks: Asks
    slot: int
    due_s: float
    deadline_s: float
    came_s: float = 0.0
    resets: int = 0
    """Batches of it that broke off."""
    left: bool = False


class Queue:
    """`workers` queues that are filled in turn, or one (`workers` 0) for all."""

    __slots__ = ("_heaps", "_next", "_number", "count")

    def __init__(self, workers: int) -> None:
        self._heaps: list[list[tuple[float, int, Member]]] = [[] for _ in range(max(1, workers))]
        self._next = self._number = 0
        self.count = 0

    def add(self, member: Member) -> None:
        self._number += 1
        heappush(self._heaps[self._next], (member.due_s, self._number, member))
        self._next = (self._next + 1) % len(self._heaps)
        self.count += 1

    def waiting(self, worker: int) -> int:
        """Number that `worker` may take; those that left among them are counted until they are met."""
        return len(self._heap(worker))

    def earliest(self, worker: int) -> Member | None:
        """The first that `worker` may take; who has left is dropped."""
        heap = self._heap(worker)
        while heap and heap[0][2].left:
            heappop(heap)
            self.count -= 1
        return heap[0][2] if heap else None

    def take(self, worker: int, most: int) -> list[Member]:
        """The earliest `most` of those that `worker` may take."""
        found: list[Member] = []
        while len(found) < most and self.earliest(worker) is not None:
            found.append(heappop(self._heap(worker))[2])
            self.count -= 1
        return found

    def every(self) -> Iterator[Member]:
        for heap in self._heaps:
            for _, _, member in heap:
                yield member

    def spread(self, gone: int) -> None:
        """What waits for worker `gone` goes to the others in turn."""
        if len(self._heaps) == 1:
            return
        heap, self._heaps[gone] = self._heaps[gone], []
        self.count -= len(heap)
        for _, _, member in heap:
            if self._next == gone:
                self._next = (self._next + 1) % len(self._heaps)
            self.add(member)

    def _heap(self, worker: int) -> list[tuple[float, int, Member]]:
        return self._heaps[worker if len(self._heaps) > 1 else 0]
