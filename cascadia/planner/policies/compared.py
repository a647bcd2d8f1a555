"""Chosen policies beside what others would do on the same workers, each with the best of its settings."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from cascadia.domain.policy import Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.baselines import Mixture, gears, greedy, jellyfish, mixture, model_switching
from cascadia.planner.policies.played import Outcome
from cascadia.planner.policies.sustained import unit_arrivals
from cascadia.planner.policies.tables import Group
from cascadia.planner.policies.wanted import Wanted, judged

BATCH_SHARES = (0.35, 0.5, 0.65)
"""Shares of the SLO that a batch may take."""
HEADROOMS = (0.8, 0.9, 0.95, 1.0)
SLACK_SHARES = (0.3, 0.5, 0.7, 1.0)


class Row(NamedTuple):
    """`setting` tells which of its settings was best."""

    name: str
    setting: str
    outcome: Outcome


def baseline_rows(group: Group, wanted: Wanted, only_rate_rps: float | None = None) -> list[Row]:
    """The best of each: by reward among what keeps the bound on lateness. With `only_rate_rps`, the load is known to
    be that, as RAMSIS section 7.2 has it; else it is estimated as all others estimate it."""
    unit_s = unit_arrivals()
    rows = []
    for name, settings in _settings(group, unit_s, wanted.late_max).items():
        tried = [
            Row(name, setting, _played(made(), group, wanted, only_rate_rps)) for setting, made in settings
        ]
        rows.append(max(tried, key=lambda row: wanted.merit(row.outcome)))
    return rows


Made = Policies | Mixture
Setting = tuple[str, Callable[[], Made]]


def _settings(group: Group, unit_s: Floats, late_max: float) -> dict[str, list[Setting]]:
    def each(make: Callable[..., Made], second: Sequence[float] = (), told: str = "") -> list[Setting]:
        """One for each share of the SLO that a batch may take, and each value of the second setting."""
        settings: list[Setting] = []
        for share in BATCH_SHARES:
            if any(model.largest_batch(share * group.slo_s) for model in group.models):
                told_share = f"batches within {share:.0%} of the SLO"
                one = partial(make, group, batch_share=share)
                more = [
                    (f"{told_share}, {v:.0%} of the {told}", partial(make, group, share, v)) for v in second
                ]
                settings += more or [(told_share, one)]
        return settings

    return {
        "jellyfish+": each(jellyfish, HEADROOMS, "throughput"),
        "modelswitching": each(partial(model_switching, unit_s=unit_s, late_max=late_max)),
        "gears": each(partial(gears, unit_s=unit_s, late_max=late_max)),
        "greedy": each(greedy, SLACK_SHARES, "slack"),
        "mixture": each(mixture, HEADROOMS, "throughput"),
    }


def _played(made: Made, group: Group, wanted: Wanted, only_rate_rps: float | None) -> Outcome:
    if isinstance(made, Mixture):
        mixed = made if only_rate_rps is None else made.at(only_rate_rps)
        return judged(mixed.first, group.models, wanted, mixed.kinds).outcome
    policies = made if only_rate_rps is None else made.only(only_rate_rps)
    return judged(policies, group.models, wanted).outcome
