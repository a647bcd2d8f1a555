"""Gates of a plan as a routing has them, where gears or a mixture bring several thresholds for one stage."""

from collections.abc import Iterable

from cascadia.controller.move.state import Routing
from cascadia.domain.plan import Plan
from cascadia.report.names import printable
from cascadia.report.words import limits, threshold_words


def routing_of(plan: Plan, served: Iterable[str], gated: Iterable[str], label: str) -> Routing:
    """Routing to the stages `served`, of which `gated` have a gate: the lowest of each is its threshold, and all of
    them are told in words where they are several."""
    found = {stage: limits(plan, stage) for stage in gated}
    several = len(plan.gears) > 1 or plan.mixture is not None
    words = [f"{printable(stage)} {threshold_words(found[stage])}" for stage in found if several]
    by = "mixture" if plan.mixture is not None else "gears"
    return Routing(
        tuple(served),
        tuple(lowest for lowest, *_ in found.values()),
        label,
        f"{', '.join(words)}, by {by}" if words else "",
    )
