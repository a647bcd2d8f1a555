"""One thing that was looked at."""

from dataclasses import dataclass
from typing import Literal

State = Literal["good", "note", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was looked at and `said` what there is. `bad` stops something from working, a `note` may; `do` is what
    to do about it, empty where all is well.
    """

    what: str
    state: State
    said: str
    do: str = ""
