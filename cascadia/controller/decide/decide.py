"""Decision to move to another plan: only where what it gains on today's traffic outweighs the move, and not too
often.

A plan's loss on today's traffic is simulated: seconds of latency, dollars an hour, or points of quality short of 100,
as its objective says. With L0 the loss of keeping today's plan, L1 the candidate's, H the time for which traffic is
expected to stay as it is, D the duration of the move (start-up times of its models, one after another), k the part of
today's need that is kept all the while, G the GPU-seconds of loading and N all GPUs:

    gain    = 1 - L1 / L0                       (1 where only the candidate keeps the objective's bounds; what it
                                                 misses them by less where neither does)
    benefit = gain * (H - D)
    cost    = (1 - k) * D + G / N               seconds of the whole system, both

Move iff gain >= least gain, benefit >= margin * cost, the last move is long enough ago or traffic has changed since it
began, and today's budget is not spent.
What a stage would have less of (GPUs, or a threshold) is not given up for gain on scores of before a change, nor where
traffic that swings will want it back so soon that more requests would be late than may be.
Each move for gain of the last day beyond the free ones doubles the least gain, so that a load which swings to and fro
is followed a few times, and then only where that is worth ever more. A plan that no longer keeps its bounds may be left
at once, but not for a dearer one where it breaks them by no more than simulating errs by; for one that breaks them
less, where none keeps them, no gain is too small beyond that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median
from typing import Literal

from cascadia.controller.decide.misses import Misses

DAY_S = 86_400.0
ALIKE = 0.01
"""Two plans that break their bounds by shares less far apart than this do so alike: simulating errs by as much."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A plan on today's traffic. `loss`: smaller is better, `what` and `unit` say of what.

    `gpus`: by pool.
    """

    loss: float
    misses: Misses
    gpus: Mapping[str, int]
    what: str = "p95"
    unit: str = "s"

    @property
    def keeps_bounds(self) -> bool:
        """Tells whether it sustains the load, and keeps the objective's least quality and largest latencies."""
        return self.misses.most == 0.0

    def __str__(self) -> str:
        short = "" if self.keeps_bounds else f" ({self.misses})"
        return f"{self.loss:.3g} {self.unit}{short}"


@dataclass(frozen=True, slots=True)
class MoveCost:
    """Cost of a move: `starts` and `stops` of replicas in `duration_s`, GPU-seconds of loading, `keeps` (0-1).

    `back_s`: what it lets go would be ready again so long after it is wanted.
    """

    duration_s: float = 0.0
    gpu_s: float = 0.0
    keeps: float = 1.0
    starts: int = 0
    stops: int = 0
    back_s: float = 0.0

    @property
    def nothing(self) -> bool:
        return self.starts == self.stops == 0


@dataclass(frozen=True, slots=True)
class MovePolicy:
    """`horizon_s` stands in for H while too few changes were seen to tell. `free_moves` a day do not raise the bar.

    `reserve` of the day's moves are kept for when today's plan breaks its bounds. `noticing_s`: from a change to the
    plan for it.
    """

    least_gain: float = 0.1
    margin: float = 2.0
    horizon_s: float = 3600.0
    cooldown_s: float = 1800.0
    moves_per_day: int = 24
    free_moves: int = 3
    reserve: int = 2
    noticing_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Situation:
    """`gpus`: by pool, those there are. `moved_at_s`, `changed_at_s`: past moves and changes of traffic, in order;
    `mended_at_s`: of the moves those that mended a bound.

    `move_cost` None: there is no safe way to the candidate, as `blocked` says. `same`: the candidate is today's plan.
    `gives_up`: what a stage would have less of. Before `evaluations_until_s` there are no scores of this traffic.
    `late`: the share of requests that may be.
    """

    now_s: float
    today: Forecast
    candidate: Forecast
    move_cost: MoveCost | None
    gpus: Mapping[str, int]
    moved_at_s: Sequence[float] = ()
    mended_at_s: Sequence[float] = ()
    changed_at_s: Sequence[float] = ()
    blocked: str = ""
    same: bool = False
    gives_up: str = ""
    evaluations_until_s: float = 0.0
    late: float = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """`again_s`: when what forbids the move has passed by itself; 0 where nothing did. `mends`: it is for a bound, not
    for gain."""

    action: Literal["move", "keep"]
    why: str
    gain: float = 0.0
    benefit_s: float = 0.0
    cost_s: float = 0.0
    again_s: float = 0.0
    mends: bool = False

    def __str__(self) -> str:
        return f"{self.action}: {self.why}"


def decide(situation: Situation, policy: MovePolicy | None = None) -> Decision:
    """One decision, explained in a line."""
    policy = policy or MovePolicy()
    now, today, candidate, move_cost = (
        situation.now_s,
        situation.today,
        situation.candidate,
        situation.move_cost,
    )
    told = f"{candidate.what} {candidate} instead of {today}"
    if (lacking := _lacking(candidate.gpus, situation.gpus)) is not None:
        return Decision("keep", f"the new plan takes {lacking}")
    if situation.same:
        return Decision("keep", f"today's plan is the best found ({today.what} {today})")
    if move_cost is None:
        return Decision("keep", f"{told}, but {situation.blocked or 'there is no safe way there'}")
    # Where latency is what is sought, a plan that is slower on the same traffic is none to flee to, but for quality.
    better = today.misses.quality - candidate.misses.quality > ALIKE
    slower = candidate.unit == "s" and candidate.loss >= today.loss and not better
    gone = _lacking(today.gpus, situation.gpus) is not None
    dear = _dear(today, candidate, 1.0 + policy.least_gain)
    rescue = candidate.keeps_bounds and (gone or not (today.keeps_bounds or slower or dear))
    if today.keeps_bounds and not candidate.keeps_bounds:
        return Decision("keep", f"the new plan breaks its bounds ({told})")
    gain = 1.0 if rescue else 0.0 if slower else _gain(today, candidate)
    mends = rescue or (not slower and today.misses.most - candidate.misses.most > ALIKE)
    lasts_s = expected_s(situation.changed_at_s, policy.horizon_s)
    benefit_s = gain * max(0.0, lasts_s - move_cost.duration_s)
    cost_s = (1.0 - move_cost.keeps) * move_cost.duration_s + move_cost.gpu_s / max(
        1, sum(situation.gpus.values())
    )

    def keep(why: str) -> Decision:
        return Decision("keep", f"{told}, but {why}", gain, benefit_s, cost_s)

    recent = [at for at in situation.moved_at_s if now - at < DAY_S]
    for_gain = [at for at in recent if at not in situation.mended_at_s]
    left = policy.moves_per_day - len(recent) - (0 if mends else policy.reserve)
    least = 0.0 if mends else min(1.0, policy.least_gain * 2.0 ** max(0, len(for_gain) - policy.free_moves))
    if left <= 0:
        return keep(f"{len(recent)} moves in a day are enough")
    if dear and not (mends or today.keeps_bounds):
        return keep("bounds that are broken by no more than simulating errs by are not worth that")
    if gain < least:
        return keep(
            f"{_percent(gain)} is less than the {_percent(least)} asked after {len(for_gain)} moves for gain in a day"
        )
    # What was decided for one traffic says nothing of another: the cool-down is for second thoughts.
    begun_s = recent[-1] if recent else -inf
    changed = any(at_s > begun_s for at_s in situation.changed_at_s)
    if not (rescue or changed) and now - begun_s < policy.cooldown_s:
        why = f"{told}, but the last move was {(now - begun_s) / 60:.0f} min ago"
        return Decision("keep", why, gain, benefit_s, cost_s, again_s=begun_s + policy.cooldown_s)
    if situation.gives_up and not rescue and now < situation.evaluations_until_s:
        why = f"{told}, but it gives up {situation.gives_up}, and scores of this traffic are not there yet"
        return Decision("keep", why, gain, benefit_s, cost_s, again_s=situation.evaluations_until_s)
    if (
        situation.gives_up
        and move_cost.back_s
        and not rescue
        and now < (again_s := _stays_until_s(situation, move_cost, policy))
    ):
        why = f"{told}, but traffic changes each {lasts_s / 60:.0f} min: {situation.gives_up} would be missed too often"
        return Decision("keep", why, gain, benefit_s, cost_s, again_s=again_s)
    if benefit_s < policy.margin * cost_s:
        return keep(
            f"{_percent(gain)} for {(lasts_s - move_cost.duration_s) / 60:.0f} min does not pay for {_words(move_cost)}"
        )
    why = "today's plan no longer holds" if rescue else f"{_percent(gain)} better"
    return Decision("move", f"{told}, {why}; {_words(move_cost)}", gain, benefit_s, cost_s, mends=mends)


def _stays_until_s(situation: Situation, move_cost: MoveCost, policy: MovePolicy) -> float:
    """Instant until which traffic must have stayed as it is for what is given up not to be wanted back too
    often.

    Each time that it is, requests are late from the change until it is there again: of all that come between two
    changes no more than `late` may be. Learnt from three changes on.
    """
    changes = situation.changed_at_s
    needed_s = (policy.noticing_s + move_cost.back_s) / situation.late
    if expected_s(changes, inf) >= needed_s:
        return 0.0
    return changes[-1] + needed_s


def expected_s(changed_at_s: Sequence[float], otherwise_s: float) -> float:
    """Seconds for which traffic is expected to stay as it is: the median of the last seven times between
    changes.
    """
    gaps = [after - before for before, after in pairwise(changed_at_s)][-7:]
    return median(gaps) if len(gaps) >= 2 else otherwise_s


def _dear(today: Forecast, candidate: Forecast, times: float) -> bool:
    """Tells whether today's plan breaks its bounds, if at all, by what simulating errs by, and the other costs more
    than so many times as much."""
    return today.misses.most <= ALIKE and candidate.unit == "$/h" and candidate.loss > times * today.loss


def _gain(today: Forecast, candidate: Forecast) -> float:
    """Gain by their losses, or where a bound is broken, by how much less it is broken."""
    if abs(less := today.misses.most - candidate.misses.most) > ALIKE:
        return max(0.0, less)
    if today.loss <= 0.0 or candidate.loss >= today.loss:
        return 0.0
    return 1.0 - candidate.loss / today.loss


def _lacking(wanted: Mapping[str, int], there: Mapping[str, int]) -> str | None:
    for pool, count in sorted(wanted.items()):
        if count > there.get(pool, 0):
            return f"{count} GPUs of {pool}, and there are {there.get(pool, 0)}"
    return None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _words(move_cost: MoveCost) -> str:
    if move_cost.nothing:
        return "thresholds alone change"
    kept = (
        "" if move_cost.keeps >= 1.0 else f", {_percent(move_cost.keeps)} of the capacity needed on the way"
    )
    return f"{move_cost.starts} start and {move_cost.stops} stop in {move_cost.duration_s / 60:.0f} min{kept}"
