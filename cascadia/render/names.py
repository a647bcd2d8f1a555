"""Names that Kubernetes, compose and DNS accept, whatever a stage or pool is called."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable

CHARTS_OWN = ("router", "controller", "controller-state", "cache", "default", "dashboards", "engines", "test")
"""Names of the chart's own objects; `judge` too, where the judge is no engine."""

LONGEST_LABEL = 52
"""Short enough for what controllers append to a workload's name to stay within DNS's 63 characters."""


def labels(names: Iterable[str], limit: int = LONGEST_LABEL) -> tuple[str, ...]:
    """DNS labels (RFC 1123), one per name and all different; equal input gives equal output.

    A name that is a label already stays as it is; one that loses something on the way and would then clash
    with another, or is too long, ends in a digest of the original.
    """
    names = tuple(names)
    kept = {name for name in names if _slug(name) == name and len(name) <= limit}
    taken: set[str] = set()
    result = []
    for name in names:
        label = _slug(name)
        if len(label) > limit or label in taken or (label != name and label in kept):
            label = _with_digest(label, name, limit, kept | taken)
        taken.add(label)
        result.append(label)
    return tuple(result)


def _slug(name: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-") or "x"


def _with_digest(label: str, name: str, limit: int, taken: set[str]) -> str:
    salt = 0
    while True:
        digest = hashlib.sha256(f"{name}/{salt}".encode()).hexdigest()[:6]
        candidate = f"{label[: limit - 7].rstrip('-')}-{digest}"
        if candidate not in taken:
            return candidate
        salt += 1
