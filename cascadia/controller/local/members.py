"""The replicas on this machine: which there are, on which GPUs, and which of them the router may be sent to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cascadia.clients.processes.ports import Reserved
from cascadia.clients.processes.process import LocalProcess
from cascadia.controller.local.launch import Launch
from cascadia.controller.move.state import Kind, State
from cascadia.domain.errors import CascadiaError


class FleetError(CascadiaError):
    """Error for what the fleet could not do; the message says why."""


@dataclass(slots=True)
class Member:
    """A replica here. `admitted`: the router sends to it. `leaving`: it is to get nothing new."""

    name: str
    launch: Launch
    process: LocalProcess
    gpus: tuple[int, ...]
    port: Reserved
    admitted: bool = False
    leaving: bool = False

    @property
    def stage(self) -> str:
        return self.launch.kind.stage

    @property
    def state(self) -> State:
        if self.process.state == "failed":
            return "failed"
        if self.leaving or self.process.state in ("stopping", "stopped"):
            return "draining"
        return "ready" if self.admitted and self.process.state == "ready" else "starting"


class Members(dict[str, Member]):
    """Members by name. `gpus`: ids by pool, of which each member holds some until it has gone."""

    def __init__(self, gpus: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.gpus = gpus

    def named(self, name: str) -> Member:
        if name not in self:
            raise FleetError(f"there is no replica {name}; there are {', '.join(self) or 'none'}")
        return self[name]

    def free(self, kind: Kind) -> tuple[int, ...]:
        """GPUs for one more of `kind`. Raises `FleetError` where too few are free."""
        taken = {i for m in self.values() if m.launch.kind.pool == kind.pool for i in m.gpus}
        free = [i for i in self.gpus.get(kind.pool, ()) if i not in taken]
        if len(free) < kind.gpus:
            raise FleetError(f"{kind.gpus} GPUs of {kind.pool} are wanted, and {len(free)} are free")
        return tuple(free[: kind.gpus])

    def serving(self, stage: str) -> list[Member]:
        """Members that the router's file names. One that died stays: it is coming back, and the router sees to
        its health.
        """
        return [m for m in self.values() if m.stage == stage and self.serves(m)]

    @staticmethod
    def serves(member: Member) -> bool:
        return member.admitted and not member.leaving and member.process.state != "failed"

    def launches(self) -> Iterator[Launch]:
        """One of each kind."""
        return iter({m.launch.kind: m.launch for m in self.values()}.values())
