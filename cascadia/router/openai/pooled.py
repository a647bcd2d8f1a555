"""Answers of two classifiers to one input as one: a logarithmic pool of their probabilities.

Their products, the earlier one's to a power below 1, normed to 1 (Genest and Zidek 1986, "Combining probability
distributions"). A text that goes on was unclear to the earlier model, yet what that ruled out counts.
"""

from math import exp, log

import msgspec

from cascadia.router.openai.bounded import members_told_apart
from cascadia.router.openai.one_pass import Part, margin

FLOOR = 1e-6
"""A class is never ruled out by one model alone."""
_encode = msgspec.json.Encoder().encode


def pooled(later: Part, earlier: Part, weight: float) -> Part:
    """`later` with its label and probabilities as pooled with `earlier`'s, which count for `weight` (0-1) of its own.

    As it is where the two are not of as many classes, or where a class wins that neither finds likeliest: nobody told
    its label; and where it has too many members to change one.
    """
    if len(later.probs) != len(earlier.probs) or len(later.probs) < 2:
        return later
    logs = [
        log(max(p, FLOOR)) + weight * log(max(q, FLOOR))
        for p, q in zip(later.probs, earlier.probs, strict=True)
    ]
    largest = max(logs)
    odds = [exp(each - largest) for each in logs]
    total = sum(odds)
    probs = tuple(each / total for each in odds)
    top = _top(probs)
    source = next((part for part in (later, earlier) if _top(part.probs) == top), None)
    if source is None:
        return later
    members = members_told_apart(later.raw)
    if members is None:
        return later
    label = (members_told_apart(source.raw) or {}).get("label")
    told = {} if label is None else {"label": label}
    return Part(_encode(members | told | {"probs": probs}), margin(probs), probs)


def _top(probs: tuple[float, ...]) -> int:
    return max(range(len(probs)), key=probs.__getitem__)
