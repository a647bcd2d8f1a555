"""Cost of stages and verdicts an hour, each on just what its requests take of its cheapest replicas."""

from cascadia.domain.problem import Problem
from cascadia.domain.quality import Floats
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.search.context import Search
from cascadia.planner.tables.shapes import Shape


def stage_usd(search: Search) -> dict[int, float]:
    """Dollars an hour of all requests at each stage, and under `JUDGE` of the verdicts of all gates."""
    return {d.stage: _usd_per_hour(d.table.saturated, d.shapes) for d, _ in search.whole_demands()}


def verdict_usd(search: Search, usd: dict[int, float]) -> float:
    """Cost of a verdict on all requests at one gate, where stages and judge cost `usd`."""
    return usd.get(JUDGE, 0.0) / max(len(search.problem.stages) - 1, 1) or _external_usd_per_hour(
        search.problem
    )


def _usd_per_hour(saturated: Floats, shapes: tuple[Shape, ...]) -> float:
    """Cost of all requests at one stage, on fractions of the replicas that serve them cheapest."""
    needed: list[float] = saturated.tolist()
    return min(x * shape.usd_per_hour for x, shape in zip(needed, shapes, strict=True))


def _external_usd_per_hour(problem: Problem) -> float:
    """Dollars an hour that a judge elsewhere charges for a verdict on every request of the first stage."""
    judge, w = problem.judge, problem.workload
    read = float((w.input_tokens[0] + w.output_tokens[0]).mean()) + judge.prompt_tokens
    usd = (
        read * judge.usd_per_million_input_tokens + judge.output_tokens * judge.usd_per_million_output_tokens
    )
    return w.rate_rps * 3600 * usd / 1e6
