"""GPUs that nobody timed an engine or its kernels on, as far as the bundled calibrations know."""

import re

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import known_calibrations
from cascadia_sim.hardware.gpu import Gpu

_CARRIED_OVER = re.compile(r"no measurement of this GPU|\balone on (?P<other>[\w-]+)")
"""What an entry's source says where its constants come from another GPU."""


def is_measured(gpu: Gpu) -> bool:
    """Tells whether an entry of the catalogue was fitted on this very GPU."""
    return any(c.gpu == gpu.name and not carried_over(c) for c in known_calibrations())


def carried_over(calibration: Calibration) -> bool:
    """Tells whether the calibration's constants were fitted on another GPU than its own."""
    found = _CARRIED_OVER.search(calibration.source)
    return found is not None and found["other"] != calibration.gpu


def why_unmeasured(gpu: Gpu) -> str | None:
    """One sentence for whoever relies on its times; None where it was measured."""
    if is_measured(gpu) or gpu.generation == "cpu":
        return None
    return (
        f"{gpu.name} is unmeasured: its times are of a data sheet's peaks, and of the share of them that "
        f"{gpu.generation} GPUs are known or assumed to reach; measure yours with `cascadia profile latency`"
    )
