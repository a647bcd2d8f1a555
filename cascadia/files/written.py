"""Numbers as files and flags write them out, and as they are written for them."""

from math import nan


def written_number(text: str) -> float:
    """The number; NaN for what is none to anybody but Python, too, such as `0_1`, which would be 1, and other scripts'
    digits."""
    try:
        return float(text) if text.isascii() and "_" not in text else nan
    except ValueError:
        return nan


def as_written(value: float) -> str:
    """Fewest digits that are read as the same number again."""
    return repr(float(value)).removesuffix(".0")
