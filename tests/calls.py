"""How many functions something calls: growth that no busy machine changes."""

import sys
from collections.abc import Callable


def calls(action: Callable[[], object]) -> int:
    """Functions that `action` calls, C's own too, and steps of generators."""
    seen = 0

    def count(_frame: object, event: str, _what: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return seen
