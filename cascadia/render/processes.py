"""Engine processes on named nodes: what compose and the local target share."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from cascadia.render.engine_args import Launch, Ranks
from cascadia.render.engine_groups import EngineGroup

FIRST_PORT = 8100
FIRST_RENDEZVOUS_PORT = 20000
"""Below the ports that systems hand out by themselves."""

_RENDEZVOUS_STEP = 4
"""An engine may take a few ports after the one it is given."""

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Process:
    """Rank `rank` of replica `replica` of `group`; `gpus` are ids on `node`.

    `port` is no other process's on any node; requests go to rank 0's. `rendezvous_port` is None where the
    replica is a single process.
    """

    group: EngineGroup
    replica: int
    rank: int
    _: KW_ONLY
    node: str
    leader: str
    gpus: tuple[int, ...]
    port: int
    rendezvous_port: int | None

    @property
    def name(self) -> str:
        suffix = "" if self.group.ranks == 1 else f"-{self.rank}"
        return f"{self.group.name}-{self.replica}{suffix}"

    @property
    def serves(self) -> bool:
        return self.rank == 0

    def launch(self, *, weights: str, host: str, port: int) -> Launch:
        launch = self.group.launch(weights=weights, host=host, port=port)
        if self.rendezvous_port is None:
            return launch
        return replace(
            launch, ranks=Ranks(self.group.ranks, str(self.rank), self.leader, self.rendezvous_port)
        )


def processes(groups: Sequence[EngineGroup]) -> Iterator[Process]:
    """Processes in the order of groups, replicas and ranks. Nodes are called after their pool: `h100-0`,
    `h100-1`.
    """
    number = 0
    for group in groups:
        for r, replica in enumerate(group.replicas):
            nodes = [f"{group.pool_label}-{slot.node}" for slot in replica]
            leader = LOOPBACK if len(set(nodes)) == 1 else nodes[0]
            rendezvous = None if len(replica) == 1 else FIRST_RENDEZVOUS_PORT + _RENDEZVOUS_STEP * number
            for rank, (node, slot) in enumerate(zip(nodes, replica, strict=True)):
                yield Process(
                    group,
                    r,
                    rank,
                    node=node,
                    leader=leader,
                    gpus=slot.gpus,
                    port=FIRST_PORT + number,
                    rendezvous_port=rendezvous,
                )
                number += 1


def node_names(groups: Sequence[EngineGroup]) -> tuple[str, ...]:
    """The nodes in use."""
    return tuple(dict.fromkeys(process.node for process in processes(groups)))
