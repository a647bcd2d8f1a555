"""Finished plans beside each other: a search stops somewhere, so one made under stricter bounds may be better.

A plan tells `bounds` (the rate, and what limits quality, latency, dollars an hour and each pool's GPUs; None: nothing)
and `worth` (what it reaches of them, and `goal`, of which less is better, with `slack` as a share of it).
"""

from collections.abc import Mapping
from typing import Any

_EQUAL = 1e-9


def meets(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """The plan `one` is within the bounds that `other` was made under, at its rate."""
    bounds, worth = other["bounds"], one["worth"]
    most = {name: bounds[name] for name in ("latency_s", "usd_per_hour") if bounds[name] is not None}
    return bool(
        abs(one["bounds"]["rate_rps"] / bounds["rate_rps"] - 1) < _EQUAL
        and (bounds["quality"] is None or worth["quality"] >= bounds["quality"])
        and all(worth[name] <= limit for name, limit in most.items())
        and all(gpus <= bounds["gpus"].get(pool, 0) for pool, gpus in worth["gpus"].items())
    )


def beats(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """The plan `one` is nearer the goal than `other` by more than its slack, or as near and cheaper."""
    mine, theirs = one["worth"], other["worth"]
    nearer = mine["goal"] < theirs["goal"] - abs(theirs["goal"]) * max(mine["slack"], _EQUAL)
    cheaper = mine["usd_per_hour"] < theirs["usd_per_hour"] * (1 - _EQUAL)
    return bool(nearer or (mine["goal"] <= theirs["goal"] and cheaper))
