"""Names of columns, by what they hold: those of every known format, so that none is taken for another's.

A hint to rename a column may never turn an output into an input. So a name is first given the role that its nearest
known name has, and only then offered for that role.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

OPENAI_TIMES = ("timestamp", "arrival_time", "start_time", "created_at", "created")
OPENAI_PAIRS = (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))
"""Chat completions and completions count the former, responses the latter."""
OPENAI_SESSIONS = ("session_id", "conversation_id")
OPENAI_NESTED = ("", "usage.", "response.usage.", "response.body.usage.")
"""Where the counts stand in an object that was flattened into columns."""

ROLES = {
    "arrival_s": ("arrival_s", *OPENAI_TIMES, "arrival_timestamp", "arrived_at"),
    "input_tokens": (
        "input_tokens", "prompt_tokens", "ContextTokens", "Request tokens", "input_length",
        "prompt_length", "request_length", "input_len", "prompt_len", "num_prefill_tokens",
        "prompt_size",
    ),
    "output_tokens": (
        "output_tokens", "completion_tokens", "GeneratedTokens", "Response tokens", "output_length",
        "generated_length", "response_length", "output_len", "completion_len", "num_decode_tokens",
        "token_size",
    ),
}  # fmt: skip

COUNTS = ("input_tokens", "output_tokens")

_CUTOFF = 0.6
_MARGIN = 0.1
_NEITHER = ("total", "cached", "max", "reasoning")


def plain(name: str) -> str:
    """A column's name without case, blanks and punctuation, so that `Request_Tokens` is `Request tokens`."""
    return re.sub(r"[\W_]+", "", name).lower()


_UNITS = (
    ("milliseconds", 1e-3, ("ms", "msec", "msecs", "millis", "millisecond", "milliseconds")),
    ("microseconds", 1e-6, ("us", "usec", "usecs", "micros", "microsecond", "microseconds")),
    ("nanoseconds", 1e-9, ("ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds")),
    ("minutes", 60.0, ("min", "mins", "minute", "minutes")),
    ("hours", 3600.0, ("h", "hour", "hours")),
    ("days", 86400.0, ("d", "day", "days")),
)


class Unit(NamedTuple):
    name: str
    seconds: float


MILLISECONDS = Unit("milliseconds", 1e-3)


def other_separator(names: Sequence[str]) -> str | None:
    """What a CSV's cells are separated by where it is no comma, as by a spreadsheet's export; None where they are, or
    nothing says so."""
    if len(names) != 1:
        return None
    return next((said for sign, said in _SEPARATORS.items() if sign in names[0]), None)


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def unit_in(name: str) -> Unit | None:
    """The unit other than seconds that a column of times is in by its name's last word, such as `Time (ms)`."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    found = (Unit(unit, seconds) for unit, seconds, spelt in _UNITS if words[1:] and words[-1] in spelt)
    return next(found, None)


def is_known(name: str, role: str) -> bool:
    """Tells whether a known format calls a column of this role so."""
    return plain(name) in map(plain, ROLES[role])


def role_of(name: str) -> str | None:
    """Role of a column of this name, by the known name nearest to it; None where that is not clear."""
    if any(word in plain(name) for word in _NEITHER):
        return None
    ratios = sorted(
        (max(SequenceMatcher(None, plain(name), plain(known)).ratio() for known in names), role)
        for role, names in ROLES.items()
    )
    (next_best, _), (best, role) = ratios[-2:]
    return role if best >= _CUTOFF and (best == 1 or best - next_best >= _MARGIN) else None


def nearest(wanted: str, names: Sequence[str]) -> str | None:
    """The column among `names` that holds what `wanted` should, if one does; never one of another role."""
    role = next((role for role in ROLES if is_known(wanted, role)), None)
    if role is None:
        return None
    fitting = [name for name in names if role_of(name) == role]
    fitting = [name for name in fitting if is_known(name, role)] or fitting
    return max(
        fitting, key=lambda name: SequenceMatcher(None, plain(wanted), plain(name)).ratio(), default=None
    )
