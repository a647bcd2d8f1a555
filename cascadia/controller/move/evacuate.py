"""Evacuation of machines that take no pods any more (cordoned, as a drain begins). Pure.

Each is started elsewhere before it is drained, so a stage whose only replica is there is never away; who drains the
node waits until then, since the stage's budget of disruptions lets nobody take that replica. Only GPUs that are free
are taken: where there are none, nothing is done, and the budget holds.
"""

from collections.abc import Iterator, Mapping

from cascadia.controller.move.bin_packing import best_machine, gpus_of_pod
from cascadia.controller.move.state import Kind, Observed, Replica
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Step, Stop


def evacuation(
    observed: Observed, names: Mapping[str, Iterator[str]], *, last_only: bool = False
) -> list[Step]:
    """Steps that move replicas off such machines: those first whose stage has nobody elsewhere (`last_only`:
    these alone), then the large. `names`: by stage, those not taken.
    """
    free = {name: machine.gpus for name, machine in observed.machines.items()}
    for replica in observed.replicas:
        for machine in replica.on:
            if machine in free:
                free[machine] -= gpus_of_pod(replica.kind)
        if len(replica.on) < replica.kind.pods and _places(observed, free, replica.kind, replica) is None:
            return []  # what starts already finds no room
    steps: list[Step] = []
    leaving = [replica for replica in observed.replicas if observed.leaves_machine(replica)]
    for replica in sorted(leaving, key=lambda r: (_elsewhere(observed, r), -r.kind.gpus, r.name)):
        if last_only and _elsewhere(observed, replica):
            continue
        if _places(observed, free, replica.kind) is not None:
            new = next(names[replica.kind.stage])
            machine = next(machine for machine in replica.on if machine not in observed.machines)
            start = Start(new, replica.kind, empties=machine)
            steps += [start, AwaitReady(new), Drain(replica.name), Stop(replica.name)]
    return steps


def _elsewhere(observed: Observed, replica: Replica) -> int:
    """Replicas of its stage that serve and may stay."""
    return sum(
        r.state == "ready" and r.kind.stage == replica.kind.stage and not observed.leaves_machine(r)
        for r in observed.replicas
    )


def _places(
    observed: Observed, free: dict[str, int], kind: Kind, started: Replica | None = None
) -> list[str] | None:
    """Machines for its pods (for those that have none yet, where it is `started`), which are taken; None where there is
    no room."""
    pods = kind.pods - (len(started.on) if started else 0)
    there = [name for name, machine in observed.machines.items() if kind.pool in machine.pools]
    left, found = dict(free), list[str]()
    for _ in range(pods):
        machine = best_machine(left, sorted(there), gpus_of_pod(kind))
        if machine is None:
            return None
        left[machine] -= gpus_of_pod(kind)
        found.append(machine)
    free.update(left)
    return found
