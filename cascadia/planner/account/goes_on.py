"""Note on a bound that the trace keeps once and misses when it goes on.

A bound holds for one round of the trace. The first requests of a round meet no queue, those of later rounds do: a plan
just within its bound may be a little beyond it then, and hold by the certificate of stability all the same.
"""

from collections.abc import Iterator

from cascadia.domain.plan import Plan


def goes_on_notes(plan: Plan) -> Iterator[str]:
    """On gears nothing is said: the certificate is of the plan's own setting."""
    found, most_s = plan.stability, plan.objective.latency_max_s
    if found is None or plan.gears or most_s is None or found.objective_repeated_s <= most_s:
        return
    yield (
        f"when such traffic goes on {found.repeats} times as long, p{plan.objective.quantile * 100:g} is"
        f" {found.objective_repeated_s:.4g} s, beyond the {most_s:g} s asked for; a tighter bound leaves room"
    )
