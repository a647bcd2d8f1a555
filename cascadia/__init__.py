"""Cascadia: plan, deploy and serve cascades of large language models.

In Python, with pandas installed: `plan` and `read_plan` give a `Plan`; `read_trace`, `read_quality`
and `simulate` give DataFrames. These names, their arguments and columns are the public interface
(docs/reference/python.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascadia.domain.errors import BadInput, CascadiaError, Infeasible
    from cascadia.frames.inputs import read_quality, read_trace
    from cascadia.frames.plans import Plan, plan, read_plan
    from cascadia.frames.results import simulate

__version__ = "0.1.0"
__all__ = [
    "BadInput",
    "CascadiaError",
    "Infeasible",
    "Plan",
    "__version__",
    "plan",
    "read_plan",
    "read_quality",
    "read_trace",
    "simulate",
]

_HOMES = {
    "BadInput": "cascadia.domain.errors",
    "CascadiaError": "cascadia.domain.errors",
    "Infeasible": "cascadia.domain.errors",
    "Plan": "cascadia.frames.plans",
    "plan": "cascadia.frames.plans",
    "read_plan": "cascadia.frames.plans",
    "read_quality": "cascadia.frames.inputs",
    "read_trace": "cascadia.frames.inputs",
    "simulate": "cascadia.frames.results",
}


def __getattr__(name: str) -> Any:
    """A public name when it is first asked for: pandas and the planner take their time to load."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cascadia' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        from cascadia.files.extras import install

        raise ImportError(f"cascadia.{name} gives a DataFrame: {install('pandas')}") from None
