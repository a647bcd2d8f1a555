"""Hot swap from one active plan to the next without losing a request.

A stage that both have keeps its queue, and every replica of the same address, key and health check: its connections,
breaker, health and what it has in hand. Its other replicas drain: they get nothing new, finish what they have, and are
then closed. Requests of the old plan keep their thresholds and their stages; where one of them still has to go to a
stage that both have, it goes to the replicas of now. A stage that the new plan lacks serves those of the old one that
still come to it, until the last of them is done.
"""

from collections import deque
from collections.abc import Iterable

from cascadia.router.live.active_plan import ActivePlan
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import Limits


def succeed(new: ActivePlan, old: ActivePlan) -> list[Replica]:
    """`new` takes over what both have; no await, so no request sees half of it. Returns the replicas that drain now."""
    before = {stage.name: stage for stage in old.all_stages}
    draining: list[Replica] = []
    for stage in new.all_stages:
        predecessor = before.get(stage.name)
        if predecessor is not None and predecessor is not stage:
            draining += _take_over(stage, predecessor)
    return draining


def _take_over(stage: Stage, old: Stage) -> list[Replica]:
    kept: list[Replica] = []
    fresh: list[Replica] = []
    left = dict.fromkeys(old.replicas)
    alike: dict[tuple[object, ...], deque[Replica]] = {}
    for replica in old.replicas:
        alike.setdefault(replica.identity, deque()).append(replica)
    for replica in stage.replicas:
        # Each of the old ones is taken over once at most, also where two are alike.
        found = alike.get(replica.identity)
        same = found.popleft() if found else None
        if same is not None:
            del left[same]
            _update(same, replica, stage.limits)
        else:
            fresh.append(replica)
        kept.append(same or replica)
    _name(stage.name, fresh, {replica.name for replica in old.replicas})
    # One list for all active plans of this stage, changed in place: those who wait under an older plan see it too.
    old.replicas[:] = kept
    # After the list has changed: who waits is woken to look at the replicas of now.
    stage.inherit(old)
    for replica in left:
        replica.drain()
    return list(left)


def _update(replica: Replica, told: Replica, limits: Limits) -> None:
    """Updates what may change of a replica while it serves."""
    replica.weight = told.weight
    replica.kind = told.kind
    replica.max_concurrency = told.max_concurrency
    replica.limits = limits
    replica.pool.connect_s = limits.connect_s
    breaker = replica.breaker
    breaker.limit = limits.breaker_failures
    breaker.first_s, breaker.longest_s = limits.breaker_first_s, limits.breaker_longest_s


def _name(stage: str, fresh: Iterable[Replica], taken: set[str]) -> None:
    """Names replicas: who stays keeps its name; who is new gets one that nobody has, those that leave included.

    Who is known by an address is named after it.
    """
    number = 0
    for replica in fresh:
        if replica.address is not None:
            continue
        while f"{stage}-{number}" in taken:
            number += 1
        replica.name = f"{stage}-{number}"
        taken.add(replica.name)
