"""Names that users give to stages, groups, pools and GPUs of their own: one rule, wherever one is read; and of exits of
models that answer in one pass, such as `small@layer-2`, which no user can give.

A name travels in a header, in a metric's labels, in a URL, in arguments of the form `name=value` and in YAML.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

NAME = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
LAYER_EXIT = r"@layer-([1-9][0-9]{0,3})(?:/(0\.[0-9]{0,5}[1-9]))?"
"""Behind the name of a stage that answers in one pass: its pass ends there."""
LONGEST_NAME = 100
STAGE = f"{NAME[:-2]}{{0,{LONGEST_NAME - 1}}}({LAYER_EXIT})?$"
LONGEST_STAGE = LONGEST_NAME + len("@layer-9999/0.999999")
NAME_RULE = f"write letters, digits, '.', '_', '-' and '/', a letter or digit first, at most {LONGEST_NAME}"
CASCADE, JUDGE, FORESIGHT = "cascadia", "judge", "foresight"
"""Names of the router's own."""
ROUTERS_OWN = (CASCADE, JUDGE, FORESIGHT)
_FITS = re.compile(NAME).fullmatch
_EXIT = re.compile(f"(.+){LAYER_EXIT}")


def is_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and _FITS(name) is not None


def name_fault(name: str) -> str | None:
    """A reason why no stage can be called so, as `what; what instead`."""
    if not is_name(name):
        return f"{name[:LONGEST_NAME]!r} is no name; {NAME_RULE}"
    if name in ROUTERS_OWN:
        return f"{name!r} is a name of the router's own; rename it"
    return None


@dataclass(frozen=True, slots=True)
class LayerExit:
    """Inputs leave behind `layer`, counted from 1: those whose likeliest answer has a chance above `sure` (0-1) there,
    and the others go on to the end of the same pass; None: all leave.
    """

    layer: int
    sure: float | None = None

    def __post_init__(self) -> None:
        if self.layer < 1 or not (self.sure is None or 1e-6 <= self.sure <= 1 - 1e-6):
            raise ValueError(f"no exit: layer {self.layer}, sure {self.sure}")

    def __str__(self) -> str:
        return f"@layer-{self.layer}" + ("" if self.sure is None else f"/{self.sure:.6f}".rstrip("0"))

    @property
    def doubt(self) -> float:
        """Doubt below which an input leaves."""
        return 2.0 if self.sure is None else 1.0 - self.sure


class Point(NamedTuple):
    """A stage's model, at an exit where `at` says so."""

    stage: str
    at: LayerExit | None


def point_of(name: str) -> Point:
    """Stage and exit of `name`, a stage's own where it ends in none."""
    found = _EXIT.fullmatch(name)
    if found is None:
        return Point(name, None)
    return Point(found[1], LayerExit(int(found[2]), float(found[3]) if found[3] else None))
