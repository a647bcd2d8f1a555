"""Observed and desired state, whoever runs it: replicas of interchangeable kinds, and what the router is told."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["starting", "ready", "draining", "failed"]

JUDGE = "judge"
"""Starts the names of judges' stages: `judge-1a2b3c`, after what is started, so that two judges are two stages and the
router never takes scores of the one for the other's."""


def judge_stage(spec: str) -> str:
    return f"{JUDGE}-{spec}"


def planned_stage(stage: str) -> str:
    """Name of the stage in a plan: `judge`, whichever judge it is."""
    return JUDGE if stage.startswith(judge_stage("")) else stage


def needed_rps(need_rps: Mapping[str, float], stage: str) -> float:
    """Requests a second that traffic asks of `stage`."""
    return need_rps.get(planned_stage(stage), 0.0)


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """Replicas of one kind can stand in for one another. `spec` says what is started: model, engine, flags, shape.

    `gpus` of `pool` are what one takes, from its start until it has stopped: as many for each of its `pods`, and those
    of a pod are of one machine. A judge is a stage like any other.
    """

    stage: str
    pool: str
    gpus: int
    spec: str = ""
    pods: int = 1


@dataclass(frozen=True, slots=True)
class Machine:
    """`gpus`: those that it has, free or not; they are of each of `pools`."""

    gpus: int
    pools: frozenset[str]


@dataclass(frozen=True, slots=True)
class Replica:
    """`ready`: it answers, and the router sends to it. `draining`: it gets nothing new. `failed`: nobody restarts it.

    `running` are the requests it has in hand. Of equals one with less `company`, the GPUs that are taken on its
    machine, leaves first: machines become empty as a whole, and have room for what is larger. `on`: the machine of each
    of its pods that has one.
    """

    name: str
    kind: Kind
    state: State
    running: int = 0
    company: int = 0
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Routing:
    """Routing that the router takes up in one swap: the stages it sends to, and the gates between them.

    `label` tells apart what thresholds do not, e.g. another judge. Where gears or a mixture have several thresholds for
    a stage, `thresholds` has the lowest, and `gates` says all of them.
    """

    stages: tuple[str, ...]
    thresholds: tuple[float, ...] = ()
    label: str = ""
    gates: str = ""

    @property
    def told(self) -> str:
        """Its gates in words; empty where it has none."""
        return self.gates or ", ".join(f"{threshold:g}" for threshold in self.thresholds)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Routing":
        """A routing as `asdict` writes it; one of an earlier version has no `gates`."""
        stages, thresholds = tuple(document["stages"]), tuple(document["thresholds"])
        return cls(stages, thresholds, document["label"], document.get("gates", ""))


@dataclass(frozen=True, slots=True)
class Observed:
    """`gpus`: by pool, those there are. `routing` None: no router has been told anything yet.

    `need_rps`: by stage, what today's traffic asks of it under the routing in force; 0 where absent. `machines`: by
    name, those that pods may be started on; empty where GPUs of a pool are as good as of one.
    """

    replicas: tuple[Replica, ...]
    gpus: Mapping[str, int]
    routing: Routing | None = None
    need_rps: Mapping[str, float] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)

    def used(self, pool: str) -> int:
        """A replica holds its GPUs until it has stopped. On a machine that takes no pods they are nobody else's."""
        held = (r for r in self.replicas if r.kind.pool == pool)
        return sum(r.kind.gpus - self._beyond(r) for r in held)

    def _beyond(self, replica: Replica) -> int:
        """GPUs that it has on machines which are not counted in `gpus`."""
        if not self.machines:
            return 0
        away = sum(machine not in self.machines for machine in replica.on)
        return away * (replica.kind.gpus // replica.kind.pods)

    def leaves_machine(self, replica: Replica) -> bool:
        """Tells whether it serves on a machine that takes no pods any more: somebody is about to empty that."""
        return replica.state == "ready" and self._beyond(replica) > 0

    def ready(self, stage: str) -> int:
        return sum(r.state == "ready" for r in self.replicas if r.kind.stage == stage)

    def ready_kinds(self) -> Counter[Kind]:
        """Number of replicas of each kind that are ready."""
        return Counter(r.kind for r in self.replicas if r.state == "ready")

    def replica(self, name: str) -> Replica:
        return next(r for r in self.replicas if r.name == name)


@dataclass(frozen=True, slots=True)
class Desired:
    """`counts`: by kind, how many. `need_rps`: what today's traffic will ask of each stage under `routing`.

    `capacity_rps`: what a replica of a kind sustains, 1 where absent. `surge`: GPUs by pool beyond those there are,
    for the time of the move.
    """

    counts: Mapping[Kind, int]
    routing: Routing
    need_rps: Mapping[str, float] = field(default_factory=dict)
    capacity_rps: Mapping[Kind, float] = field(default_factory=dict)
    surge: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(n < 0 for n in self.counts.values()):
            raise ValueError("counts of replicas are not negative")
        empty = [s for s in self.routing.stages if not any(n for k, n in self.counts.items() if k.stage == s)]
        if empty:
            raise ValueError(f"the routing has stages without replicas: {', '.join(empty)}")

    def gpus(self, pool: str) -> int:
        return sum(kind.gpus * n for kind, n in self.counts.items() if kind.pool == pool)

    def capacity(self, kind: Kind) -> float:
        return self.capacity_rps.get(kind, 1.0)


def gpus_of(pool: str) -> str:
    """What a pool has, in words."""
    return "cores" if pool == "cpu" else f"GPUs of {pool}"


def reached(observed: Observed, desired: Desired) -> bool:
    """Tells whether there is nothing left to do."""
    alive = observed.ready_kinds()
    wanted = Counter({kind: n for kind, n in desired.counts.items() if n})
    return len(observed.replicas) == alive.total() and alive == wanted and observed.routing == desired.routing
