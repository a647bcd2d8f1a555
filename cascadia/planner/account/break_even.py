"""Break-even rates: from how many requests a second on a model on GPUs of one's own costs less than an API's tokens.

With one replica for $F an hour that sustains c requests a second, and $a that the API charges for a request on average,
the replica pays from F / (3600 a) requests a second on, if that is within c; the shape that pays first is told. Both
answer the same requests here. Whether they answer them as well is for the quality table to say.
"""

from collections.abc import Iterator

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.planner.search.context import Search
from cascadia.planner.tables.loads import Load, stage_load

HOUR_S = 3600.0


def break_even_notes(search: Search) -> Iterator[str]:
    """A sentence for each pair of a stage elsewhere and one of the GPUs'."""
    problem = search.problem
    every = np.ones(len(problem.workload), bool)
    for api, stage in enumerate(problem.stages):
        if stage.external is None or not (usd := usd_per_request(problem, api)):
            continue
        for own in search.shapes:
            if own < 0:
                continue
            rate = _pays_from(search, own, stage_load(problem, own, every), usd)
            name = problem.stages[own].name
            pays = f"pays from {rate:.2g} requests/s on" if rate is not None else "never pays"
            yield f"own {name} {pays}, against {stage.name} at ${1000 * usd:.3g} per 1,000 requests"


def usd_per_request(problem: Problem, stage: int) -> float:
    """Dollars that a stage elsewhere charges for one of the workload's requests, on average."""
    api, w = problem.stages[stage].external, problem.workload
    assert api is not None
    return api.usd(float(w.input_tokens[stage].mean()), float(w.output_tokens[stage].mean()))


def _pays_from(search: Search, stage: int, load: Load, usd_per_request: float) -> float | None:
    """Least rate at which a replica of some shape costs less than so many dollars a request; None: at none."""
    found = []
    for shape in search.shapes[stage]:
        rate = shape.usd_per_hour / (HOUR_S * usd_per_request)
        if rate <= search.capacities.sustained.rps(shape.timing, load):
            found.append(rate)
    return min(found, default=None)
