"""Members that wait for a batch: the earliest deadline first, in one queue or in one a worker."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from msgspec import Struct

from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.stream_usage import estimated
from cascadia.router.replicas.results import Reply

FEW = 64
"""So many that left are kept in any case."""


class Said(Struct, frozen=True):
    """An engine's answer on one member: `raw`, its part of the answer, which took `tokens`. `stage` named it."""

    raw: bytes
    tokens: int
    stage: str
    replica: str


class Asks(Protocol):
    """Whoever a member is of; told once of each."""

    def answered(self, slot: int, said: Said) -> None: ...

    def refused(self, slot: int, reply: "Reply[None]") -> None: ...

    def failed(self, slot: int, error: StageFailed) -> None: ...


class Sent(Protocol):
    """A batch with a worker, the `replica` of stage `model`."""

    @property
    def model(self) -> str: ...

    @property
    def replica(self) -> str: ...

    def left(self) -> None:
        """Tells that one of its members was given up."""


class Member(Struct, eq=False):
    """One input. `due_s` is when it should be answered, and `deadline_s` when nobody waits any more; both in the event
    loop's time. `slot` is its place among those of its request."""

    raw: bytes
    asks: Asks
    slot: int
    due_s: float
    deadline_s: float
    came_s: float = 0.0
    truncate: bytes = b""
    """What is asked of a text that is too long: members of one batch ask the same."""
    resets: int = 0
    """Batches of it that broke off."""
    left: bool = False
    queue: "Queue | None" = None
    """Where it waits."""
    batch: "Sent | None" = None
    """In which it is with a worker."""


def in_hand(members: Sequence[Member], said: Sequence[Said | None]) -> list[Said]:
    """What workers are reading of a request's `members` while it is given up, by their length."""
    return [
        Said(b"", estimated(member.raw, 0).input_tokens, member.batch.model, member.batch.replica)
        for member in members
        if member.batch is not None and said[member.slot] is None
    ]


class Queue:
    """`workers` queues that are filled in turn, or one (`workers` 0) for all."""

    __slots__ = ("_gone", "_heaps", "_next", "_number", "count")

    def __init__(self, workers: int) -> None:
        self._heaps: list[list[tuple[float, int, Member]]] = [[] for _ in range(max(1, workers))]
        self._next = self._number = self._gone = 0
        self.count = 0
        """Of those who wait; who has left takes nobody's place."""

    def add(self, member: Member) -> None:
        self._number += 1
        # The number: of one deadline who came first is first, and members cannot be compared.
        heappush(self._heaps[self._next], (member.due_s, self._number, member))
        self._next = (self._next + 1) % len(self._heaps)
        member.queue = self
        self.count += 1

    def leave(self, member: Member) -> None:
        """Marks one that nobody waits for any more. Those are dropped once they are as many as those that wait."""
        member.queue = None
        self.count -= 1
        self._gone += 1
        if self._gone > max(self.count, FEW):
            self._gone = 0
            for heap in self._heaps:
                heap[:] = [each for each in heap if each[2].queue is self]
                heapify(heap)

    def waiting(self, worker: int) -> int:
        """Number that `worker` may take; those that left among them are counted until they are met or dropped."""
        return len(self._heap(worker))

    def earliest(self, worker: int) -> Member | None:
        """The first that `worker` may take; who has left is dropped."""
        heap = self._heap(worker)
        while heap and heap[0][2].left:
            self._dropped(heappop(heap)[2])
        return heap[0][2] if heap else None

    def take(self, worker: int, most: int) -> list[Member]:
        """The earliest `most` of those that `worker` may take."""
        found: list[Member] = []
        while len(found) < most and self.earliest(worker) is not None:
            found.append(heappop(self._heap(worker))[2])
            self._dropped(found[-1])
        return found

    def _dropped(self, member: Member) -> None:
        if member.queue is None:
            self._gone -= 1
        else:
            member.queue = None
            self.count -= 1

    def every(self) -> Iterator[Member]:
        for heap in self._heaps:
            for _, _, member in heap:
                yield member

    def spread(self, gone: int) -> None:
        """Gives the others in turn what waits for worker `gone`."""
        if len(self._heaps) == 1:
            return
        heap, self._heaps[gone] = self._heaps[gone], []
        for _, _, member in heap:
            self._dropped(member)
            if member.left:
                continue
            if self._next == gone:
                self._next = (self._next + 1) % len(self._heaps)
            self.add(member)

    def _heap(self, worker: int) -> list[tuple[float, int, Member]]:
        return self._heaps[worker if len(self._heaps) > 1 else 0]
