"""The accuracy that no policy passes: requests as a fluid, always in the largest batches that are in time."""

from collections.abc import Mapping, Sequence

from cascadia.planner.policies.tables import Group
from cascadia.policy.problem import ModelProfile


def fluid_bound(group: Group, rate_rps: float) -> float | None:
    """Accuracy of the most accurate mixture of models that the workers carry; None where they carry none."""
    accuracy = {model.name: model.accuracy for model in group.models}
    mix = fluid_shares(group, rate_rps)
    return sum(share * accuracy[name] for name, share in mix.items()) if mix else None


def fluid_shares(group: Group, rate_rps: float) -> dict[str, float]:
    """Share (0-1) of the requests by model in that mixture; empty where the workers carry none.

    Maximise the mean accuracy of shares of requests, with the workers' time as the one constraint: an optimum of this
    linear program needs two models at most.
    """
    asks_s = {m.name: 1 / rate for m in group.models if (rate := m.carried_rps(group.slo_s)) > 0}
    accuracy = {model.name: model.accuracy for model in group.models}
    has_s = group.workers / rate_rps
    best: dict[str, float] = {}
    most = -1.0
    for fast in asks_s:
        for slow in asks_s:
            if asks_s[fast] > has_s or asks_s[slow] < asks_s[fast]:
                continue
            room = asks_s[slow] - asks_s[fast]
            share = 1.0 if asks_s[slow] <= has_s else (has_s - asks_s[fast]) / room
            mean = share * accuracy[slow] + (1 - share) * accuracy[fast]
            if mean > most:
                most = mean
                best = {slow: 1.0} if slow == fast or share == 1.0 else {fast: 1 - share, slow: share}
    return best


def concave_front(models: Sequence[ModelProfile], rate: Mapping[str, float]) -> list[ModelProfile]:
    """Models on the concave front of accuracy over the time that a request takes, most accurate first."""
    kept: list[ModelProfile] = []
    for model in sorted(models, key=lambda model: (-model.accuracy, -rate[model.name])):
        if kept and rate[model.name] <= rate[kept[-1].name]:
            continue
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            across = (1 / rate[b.name] - 1 / rate[model.name]) / (1 / rate[a.name] - 1 / rate[model.name])
            if b.accuracy <= model.accuracy + across * (a.accuracy - model.accuracy):
                kept.pop()
            else:
                break
        kept.append(model)
    return kept
