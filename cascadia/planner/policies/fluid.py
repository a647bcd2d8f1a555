"""The accuracy that no policy passes: requests as a fluid, always in the largest batches that are in time."""

from cascadia.planner.policies.tables import Group


def fluid_bound(group: Group, rate_rps: float) -> float | None:
    """Most accurate mixture of two models that the workers carry; None where they carry none.

    Maximise the mean accuracy of shares of requests, with the workers' time as the one constraint: an optimum of this
    linear program needs two models at most.
    """
    asks_s = [
        (1 / rate, model.accuracy) for model in group.models if (rate := model.throughput_rps(group.slo_s))
    ]
    has_s = group.workers / rate_rps
    best: float | None = None
    for one_s, one in asks_s:
        for other_s, other in asks_s:
            if one_s <= has_s:
                share = 1.0 if other_s <= has_s else (has_s - one_s) / (other_s - one_s)
                mean = max(one, other) if other_s <= has_s else (1 - share) * one + share * other
                best = mean if best is None else max(best, mean)
    return best
