"""Prices as the spec has them now, beside what the plan in force was made with.

A price that moved is a reason to plan anew as a changed load is: what was cheapest may not be. Both plans are then
compared at the prices of now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from cascadia.controller.move.state import JUDGE
from cascadia.domain.errors import CascadiaError
from cascadia.domain.plan import Plan
from cascadia.planner.problem.cluster import build_cluster
from cascadia.planner.spec.file import answers_in_one_pass, read_policy_spec, read_spec

MOVED = 0.05
"""A share by which a price must differ to have moved."""

Price = tuple[str, str]
"""A pool's name, a stage's or `JUDGE`, and what of it is paid for."""
GPU_HOUR, INPUT, OUTPUT = "a GPU-hour", "a million tokens in", "a million tokens out"


class _PaidByToken(Protocol):
    @property
    def usd_per_million_input_tokens(self) -> float | None: ...
    @property
    def usd_per_million_output_tokens(self) -> float | None: ...


class SpecPrices:
    """Prices in a spec that somebody may write again while a controller runs; read where the file is another."""

    def __init__(self, spec: Path) -> None:
        self._spec = spec
        self._seen: tuple[int, int] | None = None

    def fresh(self) -> Mapping[Price, float] | None:
        """The prices, where the file has been written since the last look; None where it has not, or cannot be read: a
        file that makes no sense stops nobody, and the next plan says what is wrong with it."""
        try:
            found = self._spec.stat()
            if (at := (found.st_mtime_ns, found.st_size)) == self._seen:
                return None
            self._seen = at
            return dict(_of_spec(self._spec))
        except (OSError, CascadiaError):
            return None


def _of_spec(path: Path) -> Iterator[tuple[Price, float]]:
    if answers_in_one_pass(path):
        yield from (((each.kind, GPU_HOUR), each.usd_per_hour) for each in read_policy_spec(path).workers)
        return
    spec = read_spec(path)
    for pool in build_cluster(spec.cluster, path.parent, path.name).cluster.pools:
        yield (pool.name, GPU_HOUR), pool.usd_per_gpu_hour
    for each in spec.stages:
        yield from _by_token(each.name, each)
    yield from _by_token(JUDGE, spec.judge)


def _by_token(name: str, told: _PaidByToken) -> Iterator[tuple[Price, float]]:
    if told.usd_per_million_input_tokens is not None:
        yield (name, INPUT), told.usd_per_million_input_tokens
    if told.usd_per_million_output_tokens is not None:
        yield (name, OUTPUT), told.usd_per_million_output_tokens


def prices_of(plan: Plan) -> dict[Price, float]:
    """Prices that `plan` was made with."""
    found: dict[Price, float] = {(p.name, GPU_HOUR): p.usd_per_gpu_hour for p in plan.cluster.pools}
    for each in plan.stages:
        if each.external is not None:
            found.update(_by_token(each.name, each.external))
    found.update(_by_token(JUDGE, plan.judge))
    return found


def moved(before: Mapping[Price, float], now: Mapping[Price, float]) -> str:
    """Says which prices moved; empty where none did by more than `MOVED`."""
    told = [
        f"{name} costs {now[name, what]:g} $ {what} instead of {usd:g}"
        for (name, what), usd in before.items()
        if (name, what) in now and abs(now[name, what] - usd) > MOVED * max(usd, now[name, what])
    ]
    return "; ".join(told)


def at_prices(plan: Plan, prices: Mapping[Price, float]) -> Plan:
    """`plan` where everything costs what `prices` say; what they do not name stays."""

    def tokens(name: str) -> dict[str, Any]:
        known = {
            "usd_per_million_input_tokens": prices.get((name, INPUT)),
            "usd_per_million_output_tokens": prices.get((name, OUTPUT)),
        }
        return {key: usd for key, usd in known.items() if usd is not None}

    pools = tuple(
        replace(pool, usd_per_gpu_hour=prices.get((pool.name, GPU_HOUR), pool.usd_per_gpu_hour))
        for pool in plan.cluster.pools
    )
    stages = tuple(
        each if each.external is None else replace(each, external=replace(each.external, **tokens(each.name)))
        for each in plan.stages
    )
    cluster, judge = replace(plan.cluster, pools=pools), replace(plan.judge, **tokens(JUDGE))
    return replace(plan, cluster=cluster, stages=stages, judge=judge)
