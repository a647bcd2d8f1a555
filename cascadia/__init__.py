"""Cascadia: plan, deploy and serve cascades of large language models.

In Python: `read_trace`, `read_quality` and `simulate` give DataFrames (`pip install 'cascadia[pandas]'`).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascadia.frames.inputs import read_quality, read_trace
    from cascadia.frames.results import simulate

__version__ = "0.1.0"
__all__ = ["__version__", "read_quality", "read_trace", "simulate"]


def __getattr__(name: str) -> Any:
    """A frame's function when it is first asked for: pandas takes its time to load."""
    if name not in ("read_quality", "read_trace", "simulate"):
        raise AttributeError(f"module 'cascadia' has no attribute {name!r}")
    try:
        from cascadia.frames import inputs, results
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise ImportError(f"cascadia.{name} gives a DataFrame: pip install 'cascadia[pandas]'") from None
    return getattr(results if name == "simulate" else inputs, name)
