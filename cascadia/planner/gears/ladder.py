"""The ladder of a deployment: gears for its levels of load, and their borders.

1. The trace's levels of load (`levels.py`), and routings that the replicas can serve (`candidates.py`).
2. How late each of these is at each level (`measured.py`).
3. One for each level (`choose.py`), for several amounts of lateness: a steady level says too little of what a burst
   leaves behind, so which amount is right is found by playing the whole trace (`played.py`).
4. Borders in requests under way, moved up or down as long as the trace is served better.

A ladder is no worse on its trace than the best of its candidates alone, or there is none. It is better, in this order,
where less is too late than may be, where its quality keeps the bar (and, where quality is sought, is no less than that
of the best alone), where, for least cost, APIs charge less, where it has `IN_HAND` of the lateness that may be left
over, and where its quality is higher. A ladder is fitted to its trace a little: on another of its kind more is late,
which what it has in hand makes up for. The best is taken that holds, and keeps the bounds, when the trace goes
on (`certificate.py`).

Where APIs are paid for and least cost is sought, a setting is worth what it does not pay them: the light gears may then
be as good as the heavy ones, and send to an API what the GPUs have no time for.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.gear import Ladder
from cascadia.domain.objective import GearRule, Level
from cascadia.domain.problem import Problem
from cascadia.domain.workload import Floats
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.gears.candidates import Candidates, candidates
from cascadia.planner.gears.choose import Choices, choose, falls
from cascadia.planner.gears.levels import Spread, spread
from cascadia.planner.gears.measured import Measured, measured
from cascadia.planner.gears.played import Decided, Played, play
from cascadia.planner.search import elsewhere
from cascadia.planner.search.context import Search
from cascadia.planner.stability.capacity_shares import limit_shares
from cascadia.planner.stability.certificate import Certificate, certify
from cascadia_sim.cascade.cascade import CascadeRun

Ints = NDArray[np.int64]

REQUESTS, FEWEST, MOST = 500_000, 20, 44
"""Ladders are played on so many requests together, and so many of them at least and at most."""
CORRECTED = 2
"""So many times what was measured at steady levels is corrected by a replay."""
LATENESS = (1.0, 0.9, 0.75, 1.15, 1.4)
"""Amounts of lateness that settings are chosen for, as parts of what the objective allows."""
BEYOND_MET = 1.5
"""Gears for more than the trace has begin at so many times what is under way at its busiest level."""
SCALES = (0.85, 1.2, 0.93, 1.08)
"""Borders are moved by these factors, all of them and one by one."""

CERTIFIED = 6
"""So many of the best ladders are held to the certificate of stability until one has it."""

LIGHTER = 0.9
"""Beyond the trace's own load only a gear of at most this part of the last one's work is worth having."""

IN_HAND = 0.08
"""Part of the lateness that the objective allows which a ladder leaves over on its own trace."""

LATE_COSTS, BAR_COSTS = 100.0, 10.0
"""While climbing: points of quality that all requests being late weigh as much as, and a point below the bar."""

MORE = 12
"""So many ladders more are played from the best pair on."""
POINTS_OF_DOLLARS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Where APIs are paid for: percent of the plan's dollars that a point of quality is worth, until the bar is kept."""
HOPELESS = 5.0
"""Times the lateness that may be: what is late by more at steady levels is not tried alone on the trace."""
PAIRS = ((2, 1), (3, 3), (6, 3))
MET = (0.7, 0.9)
"""Pairs of gears are so many candidates above and below the best alone, their border at these quantiles of what is
met."""
ABOVE = 4
"""So many candidates are tried alone that are better than the best that bisection finds in time."""


@dataclass(frozen=True, slots=True, eq=False)
class Goals:
    """Goals that a ladder must keep: at most `late` (0-1) of the requests later than `bound_s`, a lower bound
    on quality of at least `bar` over all, and of at least `floor` in each gear. At most `most` gears.
    """

    bound_s: float
    late: float
    bar: float
    floor: float
    most: int
    heavier: bool = True
    """Whether gears may take more work than the plan's own setting."""
    better: bool = True
    """Whether quality above the bar is sought."""
    rule: GearRule = "whole-trace"

    @property
    def safe(self) -> float:
        return (1 - IN_HAND) * self.late

    @property
    def by_floor(self) -> "tuple[Goals, ...]":
        """These goals, behind those that let no gear go below the bar: what these find, a lower floor must not lose."""
        return (replace(self, floor=self.bar), self) if self.floor < self.bar else (self,)

    @staticmethod
    def of(problem: Problem, own_s: float) -> "Goals":
        """`own_s`: the objective's quantile under the plan's own setting, which stands in for a bound."""
        objective, floor = problem.objective, problem.quality_floor
        bar = objective.quality_min or 0.0
        deadline = objective.deadline or Level("e2e", objective.quantile, own_s)
        return Goals(
            deadline.max_s,
            1 - deadline.quantile,
            bar,
            bar if floor is None else floor,
            problem.gears,
            heavier=objective.goal != "latency",
            better=objective.goal != "cost",
            rule=problem.gear_rule,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FoundLadder:
    """Gears by `routings`, heaviest first, their ladder, and how the trace goes on it. `rates_rps`: at which steady
    rate each border's number of requests is under way. `elsewhere_usd`: what APIs charge an hour; `limit`: the largest
    share of its limit that one is sent. `certificate`: of those that hold when the trace goes on."""

    routings: tuple[int, ...]
    ladder: Ladder
    rates_rps: tuple[float, ...]
    _: KW_ONLY
    played: Played
    late: float
    quality_lower: float
    elsewhere_usd: float
    limit: float
    certificate: Certificate | None = None


def find_ladder(
    search: Search, simulator: Simulator, deployment: Deployment, own_latency_s: Floats, goals: Goals
) -> FoundLadder | None:
    """Ladder of gears; None where one setting does as well at any load, or the trace is too short (`spread`).

    `own_latency_s` (n) is what the deployment's own routing takes on the simulator's requests.
    """
    known = load_of(search, own_latency_s)
    if known is None:
        return None
    decided = Decided(search.routings, simulator)
    latency_s = float(own_latency_s.mean())
    found = (_of_floor(search, decided, deployment, known, latency_s, each) for each in goals.by_floor)
    return min(
        (ladder for ladder in found if ladder is not None),
        key=lambda ladder: _rank(ladder, goals, goals.bar),
        default=None,
    )


def _of_floor(
    search: Search, decided: Decided, deployment: Deployment, known: Spread, latency_s: float, goals: Goals
) -> FoundLadder | None:
    """`latency_s`: the mean of the deployment's own routing."""
    simulator = decided.simulator
    calmest = known.levels[0].rate_rps / search.problem.workload.rate_rps
    among = candidates(search, deployment, goals.floor, calmest)
    if not goals.heavier:
        among = _no_heavier(search, among, deployment.routing)
    if len(among) < 2:
        return None
    found = measured(search, deployment, among, known.levels, goals.bound_s, latency_s)
    # A trace that is short beside its latencies is played several times over (`certificate.py`).
    known = replace(known, met=np.resize(known.met, len(simulator.arrivals)))
    return _Finder(
        search,
        simulator,
        deployment,
        goals=goals,
        spread=known,
        among=among,
        measured=found,
        decided=decided,
    ).best()


def _rank(found: FoundLadder, goals: Goals, least: float) -> tuple[float, ...]:
    """Smaller is better. Nothing is in hand of what has less quality than `least`."""
    beyond, short = max(found.late - goals.late, 0.0), max(goals.bar - found.quality_lower, 0.0)
    beyond += max(found.limit - 1.0, 0.0)
    in_hand = found.quality_lower >= least
    over = max(found.late - goals.safe, 0.0) if in_hand else goals.late
    paid = 0.0 if goals.better else found.elsewhere_usd
    return beyond, short, paid, over, -found.quality_lower


def load_of(search: Search, own_latency_s: Floats) -> Spread | None:
    """The trace's levels of load; None where it is too short to know them."""
    return spread(search.problem.workload.arrival_s, float(own_latency_s.mean()))


def _no_heavier(search: Search, among: Candidates, own: int) -> Candidates:
    """Candidates of `among` that take less of the replicas than the deployment's own routing, and that one."""
    here = among.routings == own
    if not here.any():
        return among.take(here)
    lighter = (among.work <= among.work[here]) & (among.total < among.total[here])
    return among.take(
        here | (lighter & (search.routings.lower[among.routings] <= search.routings.lower[own]))
    )


@dataclass(eq=False)
class _Finder:
    search: Search
    simulator: Simulator
    deployment: Deployment
    _: KW_ONLY
    goals: Goals
    spread: Spread
    among: Candidates
    measured: Measured
    decided: Decided
    seen: dict[tuple[tuple[int, ...], tuple[float, ...]], FoundLadder] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lower = self.search.routings.lower[self.among.routings]
        usd, work, total = self.among.usd, self.among.work, self.among.total
        self.priced = bool(usd.any())
        self.percent_usd = max(self.deployment.usd_per_hour + float(usd.mean()), 1e-12) / 100
        self.follows = falls(self.lower)
        if self.priced:
            later = np.arange(len(usd)) > np.arange(len(usd))[:, None]
            less = (work < work[:, None]) | (total < total[:, None])
            self.follows |= later & less & (usd > usd[:, None])

    def best(self) -> FoundLadder | None:
        alone = self._best_alone()
        base = self._played((alone,), ())
        printed = self._in_time_at_each_level()
        if self.goals.rule == "each-level":
            in_time = printed is not None and printed.late <= max(self.goals.late, base.late)
            dearer = self.priced and printed is not None and printed.elsewhere_usd > base.elsewhere_usd
            if printed is None or not in_time or (dearer and base.late <= self.goals.late):
                return None
            return self._going_on([printed])
        chosen = [alone] * (len(self.spread) - 1)
        # Beyond all that the trace has a lighter gear changes nothing on it.
        lightest = self._lightest(alone)
        if self._lighter(lightest, alone):
            self._played(
                (alone, lightest),
                rising([BEYOND_MET * (int(under_way(base.played).max(initial=0)) + 1)]),
            )
        for _ in range(CORRECTED):
            laddered = self._chosen(self._corrected(base, chosen))
            if not laddered:
                break
            chosen, base = min(laddered, key=lambda pair: self._worse(pair[1]))
        several = [found for found in self.seen.values() if len(found.routings) > 1]
        most = int(np.clip(REQUESTS // len(self.simulator.arrivals), FEWEST, MOST))
        if several:
            self._climb(min(several, key=self._worse), most)
        if pairs := [self._played(*pair) for pair in self._pairs(alone)]:
            self._climb(min(pairs, key=self._worse), max(self.plays, most) + MORE)
        several = [found for found in self.seen.values() if len(found.routings) > 1]
        if not several:
            return None
        single = self._played((alone,), ())
        in_time = self.goals.better and single.late <= self.goals.late
        least = max(self.goals.bar, single.quality_lower) if in_time else self.goals.bar
        rank = partial(_rank, goals=self.goals, least=least)
        better = [found for found in several if rank(found) <= rank(single)]
        ranked = sorted(better, key=rank)[:CERTIFIED]
        return self._going_on(ranked)

    def _going_on(self, ranked: Sequence[FoundLadder]) -> FoundLadder | None:
        """The first of `ranked` that holds and keeps its bounds when the trace goes on, with its certificate."""
        for found in ranked:
            certificate = self._certificate(found)
            if certificate.holds and certificate.strain_repeated <= 1.0:
                return replace(found, certificate=certificate)
        return None

    def _certificate(self, found: FoundLadder) -> Certificate:
        decided = found.played.decided
        shares = self.search.capacities.shares(self.simulator.problem, self.deployment, decided)

        def plays(every: Simulator) -> CascadeRun:
            each = Decided(self.search.routings, every)
            return play(every, self.deployment, [each(k) for k in found.routings], found.ladder).run

        return certify(self.simulator, self.deployment, decided, shares, before=self.rounds, plays=plays)

    @property
    def rounds(self) -> int:
        """Number of times that the trace is played to be one round."""
        return len(self.simulator.arrivals) // len(self.search.problem.workload)

    def _in_time_at_each_level(self) -> FoundLadder | None:
        """The best at each level of which enough is in time there, else the lightest (CascadeServe's rule)."""
        late = self.measured.late
        chosen = [max(range(len(self.among)), key=lambda k: (late[k, 0] <= self.goals.late, self._worth(k)))]
        for level in range(1, len(self.spread)):
            before = chosen[-1]
            may = [before, *np.flatnonzero(self.follows[before]).tolist()]
            in_time = [k for k in may if late[k, level] <= self.goals.late]
            chosen.append(max(in_time, key=self._worth) if in_time else may[-1])
        while len(set(chosen)) > self.goals.most:
            # Whom the rarest gear served gets the next lighter one, which is in time there too.
            weight = {
                k: sum(w for c, w in zip(chosen, self.spread.weight, strict=True) if c == k) for k in chosen
            }
            rarest = min(sorted(weight)[:-1], key=lambda k: weight[k])
            lighter = min(k for k in weight if k > rarest)
            chosen = [lighter if k == rarest else k for k in chosen]
        gears, borders = self._laddered(chosen)
        return self._played(gears, borders) if len(gears) > 1 else None

    def _pairs(self, alone: int) -> Iterator[tuple[tuple[int, ...], tuple[float, ...]]]:
        """Two gears on either side of the best candidate alone, apart by so many candidates in order of quality, or of
        work where APIs are paid for.

        Steady levels do not tell what bursts shorter than a latency do; these starts ask the trace itself.
        """
        order = np.argsort(self.lower, kind="stable").tolist()
        if self.priced:
            order = list(reversed(range(len(self.among))))
        at = order.index(alone)
        met = under_way(self._played((alone,), ()).played)
        for heavier, lighter in PAIRS:
            gears = order[min(at + heavier, len(order) - 1)], order[max(at - lighter, 0)]
            if self.follows[gears] and self._lighter(gears[1], gears[0]):
                for quantile in MET:
                    yield gears, rising([float(np.quantile(met, quantile))])

    def _worth(self, k: int) -> tuple[float, ...]:
        """Key of a candidate: the larger, the better where it is in time."""
        if not self.priced:
            return (float(self.lower[k]),)
        return min(float(self.lower[k]), self.goals.bar), -float(self.among.usd[k])

    def _values(self) -> Iterator[Floats]:
        """Values of the candidates, of which the first is taken with which the bar is kept."""
        if not self.priced:
            yield self.lower
            return
        paid = self.among.usd / self.percent_usd
        for worth in POINTS_OF_DOLLARS if self.goals.floor < self.goals.bar else (0.0,):
            yield worth * self.lower - paid

    def _corrected(self, found: FoundLadder, chosen: Sequence[int]) -> Floats:
        """Lateness measured at steady levels, moved by what `chosen` shows on the trace at each of them."""
        late = found.played.latency_s > self.goals.bound_s
        met = np.bincount(self.spread.met, minlength=len(self.spread) - 1)
        shown = np.bincount(self.spread.met, weights=late, minlength=len(self.spread) - 1) / met
        steady = self.measured.late[list(chosen), np.arange(len(self.spread) - 1)]
        # Differences and not ratios: a steady level may show no late request at all. None is known beyond the
        # trace.
        moved = np.append(shown - np.minimum(steady, 1.0), 0.0)
        late_at: Floats = np.where(
            self.measured.late < 1, np.clip(self.measured.late + moved, 0, 1), self.measured.late
        )
        return late_at

    def _chosen(self, late_at: Floats) -> list[tuple[list[int], FoundLadder]]:
        """Ladders for several amounts of lateness, with the candidate of each level that the trace has."""
        found = []
        for part in LATENESS:
            chosen = list[int]()
            for value in self._values():
                choices = Choices(value, late_at, self.spread.weight, self.follows)
                chosen = list(choose(choices, part * self.goals.safe, self.goals.most))
                if not self.priced or self.spread.weight @ self.lower[chosen] >= self.goals.bar:
                    break
            gears, borders = self._laddered(chosen)
            if len(gears) > 1:
                found.append((chosen[:-1], self._played(gears, borders)))
        return found

    def _laddered(self, chosen: list[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Candidates by gear, and borders: halfway between what is under way on either side, rising."""
        if not self._lighter(chosen[-1], chosen[-2]):
            chosen[-1] = chosen[-2]
        gears, borders = [chosen[0]], list[float]()
        for level in range(1, len(chosen)):
            before, now = chosen[level - 1], chosen[level]
            if now == before:
                continue
            here = float(self.measured.in_flight[before, level - 1])
            there = float(self.measured.in_flight[now, level])
            if not np.isfinite(here):
                here = float(max(self._finite(before), default=self.spread.levels[level - 1].rate_rps))
            if level == len(chosen) - 1:
                here, there = BEYOND_MET * here, BEYOND_MET * here
            there = max(there, here) if np.isfinite(there) else 1.2 * here
            gears.append(now)
            borders.append((here + there) / 2)
        return tuple(gears), rising(borders)

    def _lighter(self, candidate: int, than: int) -> bool:
        """Tells whether it leaves the fullest stage, or all GPUs together, noticeably less to do."""
        work, total = self.among.work, self.among.total
        return bool(work[candidate] <= LIGHTER * work[than] or total[candidate] <= LIGHTER * total[than])

    def _lightest(self, than: int) -> int:
        """The candidate with the least work of those that may follow; itself where none may."""
        return int(np.flatnonzero(self.follows[than]).max(initial=than))

    def _finite(self, candidate: int) -> list[float]:
        under_way = self.measured.in_flight[candidate]
        return list(under_way[np.isfinite(under_way)].tolist())

    def _best_alone(self) -> int:
        """The candidate with the best quality that keeps the bound on the whole trace; else the least late.

        Lateness mostly rises with quality: bisection finds about where the bound is, and a few above that are tried.
        Where APIs are paid for, those that keep the bar are tried by what they pay, until one is in time.
        """
        order = np.argsort(self.lower, kind="stable").tolist()
        low, high = 0, len(order)
        if self.priced:
            low = high = len(order) if self._cheapest_in_time() else 0
        while low < high:
            middle = (low + high) // 2
            if self._played((order[middle],), ()).late <= self.goals.late:
                low = middle + 1
            else:
                high = middle
        own = np.flatnonzero(self.among.routings == self.deployment.routing).tolist()
        for k in [*own, *order[max(low - 1, 0) : low + ABOVE]]:
            self._played((k,), ())
        alone = [(found, gears[0]) for (gears, _), found in self.seen.items() if len(gears) == 1]
        return min(alone, key=lambda each: _rank(each[0], self.goals, math.inf))[1]

    def _cheapest_in_time(self) -> bool:
        """Plays candidates that keep the bar alone, by what they pay, and tells whether one is in time."""
        steady = self.spread.weight @ self.measured.late.T
        good = (self.lower >= self.goals.bar) & (steady <= HOPELESS * self.goals.late)
        by_usd = np.argsort(self.among.usd, kind="stable").tolist()
        return any(good[k] and self._played((k,), ()).late <= self.goals.late for k in by_usd)

    def _climb(self, best: FoundLadder, plays: int) -> None:
        """Steps to better ladders beside the best, until none helps or so many were played."""
        better = True
        while better:
            better = False
            gears = next(key[0] for key, found in self.seen.items() if found is best)
            for setting in self._beside(gears, best.ladder.borders):
                if self.plays >= plays:
                    return
                if setting in self.seen:
                    continue
                found = self._played(*setting)
                if self._worse(found) < self._worse(best):
                    best, better = found, True
                    break

    def _beside(
        self, gears: tuple[int, ...], borders: tuple[float, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[float, ...]]]:
        """Other borders; one gear a candidate, or three, heavier or lighter."""
        for moved in _moved(borders):
            yield gears, moved
        for at, by in product(range(len(gears)), (-1, 1, -3, 3)):
            other = [*gears[:at], gears[at] + by, *gears[at + 1 :]]
            if 0 <= other[at] < len(self.among) and all(self.follows[pair] for pair in pairwise(other)):
                yield tuple(other), borders

    def _worse(self, found: FoundLadder) -> float:
        """Value that a climb makes small: a little more lateness than allowed may lead to where there is less."""
        late, lower = max(found.late - self.goals.safe, 0.0), found.quality_lower
        late += max(found.limit - 1.0, 0.0)
        worth = -found.elsewhere_usd / self.percent_usd if self.priced else lower
        return LATE_COSTS * late + BAR_COSTS * max(self.goals.bar - lower, 0.0) - worth

    @property
    def plays(self) -> int:
        """Number of ladders of several gears that were played."""
        return sum(len(gears) > 1 for gears, _ in self.seen)

    def _played(self, gears: tuple[int, ...], borders: tuple[float, ...]) -> FoundLadder:
        key = gears, borders
        if key not in self.seen:
            self.seen[key] = self._play(gears, borders)
        return self.seen[key]

    def _play(self, gears: tuple[int, ...], borders: tuple[float, ...]) -> FoundLadder:
        routings = tuple(int(self.among.routings[k]) for k in gears)
        ladder = Ladder(borders)
        decided = [self.decided(k) for k in routings]
        played = play(self.simulator, self.deployment, decided, ladder)
        share = played.gear_shares(len(gears))
        problem, by = self.simulator.problem, played.decided
        usd = elsewhere.usd_an_hour(problem, by.reached, by.judged) if elsewhere.charges(problem) else 0.0
        return FoundLadder(
            routings,
            ladder,
            tuple(self._rate(k, border) for k, border in zip(gears, borders, strict=False)),
            played=played,
            late=float((played.latency_s > self.goals.bound_s).mean()),
            quality_lower=float(share @ self.search.routings.lower[list(routings)]),
            elsewhere_usd=round(usd, 6),
            limit=max(limit_shares(problem, by).values(), default=0.0),
        )

    def _rate(self, candidate: int, border: float) -> float:
        """The steady rate at which `border` requests are under way in a gear."""
        under_way = self.measured.in_flight[candidate]
        finite = np.isfinite(under_way)
        rates = np.array([level.rate_rps for level in self.spread.levels])
        if not finite.any():
            return float(rates[0])
        return float(np.interp(border, under_way[finite], rates[finite]))


def under_way(played: Played) -> Ints:
    """Number of others that each request of the trace meets."""
    arrival_ps, gone = played.run.arrival_ps, np.sort(played.run.finish_ps)
    return np.asarray(np.arange(len(arrival_ps)) - np.searchsorted(gone, arrival_ps, side="right"), np.int64)


def rising(borders: Sequence[float]) -> tuple[float, ...]:
    """Whole numbers, each above the one before."""
    kept: list[float] = []
    for border in borders:
        kept.append(max(float(round(border)), (kept[-1] if kept else 0.0) + 1.0))
    return tuple(kept)


def _moved(borders: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    for scale in SCALES:
        yield rising([scale * border for border in borders])
    if len(borders) > 1:
        for at in range(len(borders)):
            for scale in SCALES[:2]:
                yield rising([scale * b if i == at else b for i, b in enumerate(borders)])
