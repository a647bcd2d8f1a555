"""Notes to the user on the calibrations behind a plan: where nothing near was measured, and where that decides."""

from collections.abc import Iterable

from cascadia.domain.plan import Plan, PoolCalibration

KNEE = 2.0
"""A quantile that grows so many times at the slow end of the errors is near the knee of its queue."""


BASES = {
    "kernels": "kernels, not on a served engine of this GPU",
    "generic": "constants of the GPU's generation, fitted to no one engine",
}
"""Stand-ins that get a note; that a GPU is unmeasured is told when the spec is read."""


def calibration_notes(plan: Plan) -> list[str]:
    """One note for stages that rest on the same stand-in, one for each that goes beyond the measured range."""
    return [*_stand_ins(plan), *_beyond(plan), *_knee(plan)]


def _stand_ins(plan: Plan) -> Iterable[str]:
    alike: dict[tuple[str, str], list[tuple[str, PoolCalibration]]] = {}
    for name, c in _each(plan):
        if c.basis in BASES:
            alike.setdefault((c.pool, c.calibration), []).append((name, c))
    for (pool, _), found in alike.items():
        names, used = _listing([name for name, _ in found]), [c for _, c in found]
        tpot, ttft = max(c.error_tpot for c in used), max(c.error_ttft for c in used)
        yield (
            f"the times of {names} on {pool} rest on {BASES[used[0].basis]} ({used[0].calibration}):"
            " where such stand-ins were held against servers they were off by"
            f" {_percent(tpot)} a token and {_percent(ttft)} to the first, on average;"
            " `cascadia profile latency` measures your own engine"
        )


def _beyond(plan: Plan) -> Iterable[str]:
    for name, c in _each(plan):
        if c.beyond:
            yield f"{name} on {c.pool} goes beyond what {c.calibration} was measured on: {'; '.join(c.beyond)}"


def _knee(plan: Plan) -> Iterable[str]:
    found, expected = plan.error_range, plan.predicted.objective_s
    if found is None:
        return
    if not found.slow_holds:
        yield (
            "this plan does not keep up with its requests where its times are as much longer as their calibrations err:"
            " waiting then grows without end; measure with `cascadia profile latency`, or leave more room"
        )
    elif found.slow_s > KNEE * expected:
        yield (
            f"this plan is near the knee of its queues: where its times are as much longer as their calibrations err,"
            f" p{plan.objective.quantile * 100:g} is {found.slow_s:.3g} s instead of {expected:.3g} s;"
            " measure with `cascadia profile latency`, or leave more room (a lower rate, more GPUs)"
        )


def _each(plan: Plan) -> Iterable[tuple[str, PoolCalibration]]:
    for name, stage in plan.calibrations.items():
        for c in stage.pools:
            yield name, c


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _listing(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
