"""The steps from what runs to so many of each kind: starts at once, and drains where no stage loses its last."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from cascadia.controller.move.reconcile import Names
from cascadia.controller.move.state import Desired, Kind, Observed, Replica
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Step, Stop


def alive(observed: Observed) -> Counter[Kind]:
    """Counts those of each kind that serve or are about to."""
    return Counter(r.kind for r in observed.replicas if r.state in ("starting", "ready"))


def as_there(desired: Desired, observed: Observed) -> tuple[Desired, Observed]:
    """A plan with as many replicas of its kinds as there are, and what runs without those that leave: what there is to
    hold where the number of replicas is the inner loop's. A kind that has none is wanted as planned."""
    there = alive(observed)
    counts = {kind: there[kind] or count for kind, count in desired.counts.items()}
    stays = tuple(r for r in observed.replicas if r.state in ("starting", "ready"))
    return replace(desired, counts=counts), replace(observed, replicas=stays)


def steps_to(observed: Observed, counts: Mapping[Kind, int]) -> list[Step]:
    """Lists what is to be done now, in any order. Who starts is awaited and who drains is stopped, though another
    controller began that."""
    there = alive(observed)
    names = Names({replica.name for replica in observed.replicas})
    steps: list[Step] = [AwaitReady(r.name) for r in observed.replicas if r.state == "starting"]
    steps += [Stop(r.name) for r in observed.replicas if r.state in ("draining", "failed")]
    for kind, count in counts.items():
        steps += [Start(next(names[kind.stage]), kind) for _ in range(count - there[kind])]
        if (spare := there[kind] - count) > 0:
            ready = sorted(
                (r for r in observed.replicas if r.kind == kind and r.state == "ready"), key=_leaves
            )
            # Who starts may yet fail: as many stay as are wanted of those that serve.
            steps += [Drain(r.name) for r in ready[: min(spare, len(ready) - max(1, count))]]
    return steps


def _leaves(replica: Replica) -> tuple[int, int, str]:
    return replica.running, replica.company, replica.name
