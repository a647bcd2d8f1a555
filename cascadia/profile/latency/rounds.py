"""Order in which points are measured, and the end of it: what a fit cannot do without comes first, and time is
kept.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from cascadia.domain.errors import BadInput
from cascadia.profile.latency.measure import AtMost, Seen
from cascadia.profile.latency.points import Point

# Of the time for all points, the most that one measurement may take.
LARGEST_SHARE = 0.12
# Of the time that is left, the most that one without which a fit knows less may take.
NEEDED_SHARE = 0.6
TOO_LONG = "would take too much of the time"


class Rounds(NamedTuple):
    """Measurements by point, why the others have none, and the engine's limit of sequences where it was met.

    `broke`: what the engine said when it ended them early.
    """

    seen: dict[Point, list[Seen]]
    left_out: dict[Point, str]
    at_most: int | None
    took_s: dict[Point, float]
    broke: str | None = None


class Known(NamedTuple):
    """Knowledge before a run: measurements, and how many seconds requests took, from which first guesses are
    made.
    """

    seen: dict[Point, list[Seen]]
    took_s: dict[Point, float]


class Limits(NamedTuple):
    """Time limits: until when points are measured again and again, and until when those that are needed may be."""

    until_s: float
    needed_until_s: float


async def rounds(
    points: Sequence[Point],
    one: Callable[[Point], Awaitable[Seen | AtMost | str]],
    known: Known,
    needed: Callable[[Sequence[Seen]], Sequence[Point]],
    limits: Limits,
    clock: Callable[[], float],
) -> Rounds:
    """First each of the points that are `needed` beside what was seen, then all in turn, again and again.

    A point is not begun that, by what was seen, would end too late or take more than its share of the time. Where the
    engine does not work on so many sequences at once, more are not tried.
    """
    seen = {point: list(found) for point, found in known.seen.items()}
    took_s = dict(known.took_s)
    skipped: dict[Point, str] = {}
    at_most: int | None = None
    broke: str | None = None

    async def try_one(point: Point, until_s: float, most_s: float) -> bool:
        """Measures a point and tells whether that went well."""
        nonlocal at_most, broke
        began_s, guess_s = clock(), guessed_s(point, took_s)
        if point in skipped or broke is not None or began_s + guess_s > until_s:
            return False
        if guess_s > most_s:
            skipped[point] = TOO_LONG
            return False
        try:
            found = await one(point)
        except BadInput as error:
            broke = error.what
            return False
        took_s[point] = clock() - began_s
        if isinstance(found, Seen):
            seen.setdefault(point, []).append(found)
            return True
        if isinstance(found, AtMost):
            at_most = found.sequences
            why = f"the engine works on {at_most} at once"
            skipped.update((p, why) for p in points if p.sequences > at_most)
        else:
            skipped.update((p, found) for p in points if p.decodes and p.sequences >= point.sequences)
            skipped[point] = found
        return False

    while wanted := [p for p in needed(_all(seen)) if p not in skipped and p not in seen]:
        left_s = limits.needed_until_s - clock()
        if not await try_one(wanted[0], limits.needed_until_s, NEEDED_SHARE * left_s):
            skipped.setdefault(wanted[0], TOO_LONG)
    most_s = LARGEST_SHARE * (limits.until_s - clock())
    # Whether a needed point is worth its time was decided; the others are tried anew.
    skipped = {p: why for p, why in skipped.items() if why != TOO_LONG}
    fresh = True
    while fresh:
        fresh = False
        for point in points:
            fresh |= await try_one(point, limits.until_s, most_s)
    left_out = {p: skipped.get(p, "no time left") for p in points if p not in seen}
    return Rounds(seen, left_out, at_most, took_s, broke)


def _all(seen: dict[Point, list[Seen]]) -> list[Seen]:
    return [one for found in seen.values() for one in found]


def guessed_s(point: Point, took_s: dict[Point, float]) -> float:
    """Seconds that a point is likely to take: as long as before; else what the longest prompt took, a token,
    and the widest answer, a step.
    """
    if point in took_s:
        return took_s[point]
    longest = max(took_s, key=lambda p: (p.prompt_tokens * p.sequences, -p.output_tokens))
    reading_s = took_s[longest] / (longest.sequences * longest.prompt_tokens)
    writing_s = 0.0
    if point.decodes:
        widest = max(took_s, key=lambda p: p.sequences * p.output_tokens)
        read_s = min(reading_s * widest.sequences * widest.prompt_tokens, took_s[widest])
        step_s = (took_s[widest] - read_s) / max(widest.output_tokens - 1, 1)
        writing_s = step_s * point.output_tokens * max(1.0, point.sequences / widest.sequences)
    return point.sequences * point.prompt_tokens * reading_s + writing_s
