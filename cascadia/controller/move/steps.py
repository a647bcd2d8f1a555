"""The steps of a move, and what each does to what is observed when it goes well."""

from dataclasses import dataclass, replace

from cascadia.controller.move.state import Kind, Observed, Replica, Routing


@dataclass(frozen=True, slots=True)
class Start:
    """Takes the GPUs and begins to load the model.

    `machine`: where that leaves most room for others. `empties`: another that it is started for, and then it has to be
    at `machine`; else that is a wish. Both empty where there is none.
    """

    name: str
    kind: Kind
    machine: str = ""
    empties: str = ""

    def __str__(self) -> str:
        why = f" to empty {self.empties}" if self.empties else ""
        return f"start {self.name} ({self.kind.gpus} of {self.kind.pool}){why}"


@dataclass(frozen=True, slots=True)
class AwaitReady:
    """Wait until a replica answers its health check; then the router sends to it."""

    name: str

    def __str__(self) -> str:
        return f"await {self.name}"


@dataclass(frozen=True, slots=True)
class Undrain:
    """Back to work, since it is wanted after all."""

    name: str

    def __str__(self) -> str:
        return f"undrain {self.name}"


@dataclass(frozen=True, slots=True)
class Drain:
    """The router sends nothing new there; returns at once."""

    name: str

    def __str__(self) -> str:
        return f"drain {self.name}"


@dataclass(frozen=True, slots=True)
class Stop:
    """Waits for what a draining replica has in hand, within its drain time; then its GPUs are free."""

    name: str

    def __str__(self) -> str:
        return f"stop {self.name}"


@dataclass(frozen=True, slots=True)
class Route:
    """Stages and thresholds change in one swap; requests under way keep theirs."""

    routing: Routing

    def __str__(self) -> str:
        told = self.routing.told
        return f"route to {', '.join(self.routing.stages)}" + (f" at {told}" if told else "")


Step = Start | AwaitReady | Undrain | Drain | Stop | Route


def apply(observed: Observed, step: Step) -> Observed:
    """State that is observed once `step` has gone well."""
    match step:
        case Start(name, kind):
            return replace(observed, replicas=(*observed.replicas, Replica(name, kind, "starting")))
        case AwaitReady(name) | Undrain(name):
            return _changed(observed, replace(observed.replica(name), state="ready"))
        case Drain(name):
            return _changed(observed, replace(observed.replica(name), state="draining"))
        case Stop(name):
            return replace(observed, replicas=tuple(r for r in observed.replicas if r.name != name))
        case Route(routing):
            return replace(observed, routing=routing)


def _changed(observed: Observed, changed: Replica) -> Observed:
    replicas = tuple(changed if r.name == changed.name else r for r in observed.replicas)
    return replace(observed, replicas=replicas)
