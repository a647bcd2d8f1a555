"""Cores that this process may keep busy, which are often fewer than the machine has."""

import os
from contextlib import suppress
from math import ceil
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores that the process is bound to, or as many as a container's quota allows where that is less; at least 1.

    Each thread that simulates holds a trace's arrays: one for every core of a large node would not fit into a small
    container's memory.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(bound, _quota(cgroup) or bound))


def _quota(cgroup: Path) -> int | None:
    """Cores that the control group allows, rounded up; None where it sets no limit."""
    # Version 2 has both numbers in one file, "max" for none; version 1 a file for each, -1 for none.
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (cgroup / "cpu.max").read_text().split()
        return ceil(int(quota) / int(period))
    with suppress(OSError, ValueError, ZeroDivisionError):
        given = (cgroup / "cpu" / f"cpu.cfs_{name}_us" for name in ("quota", "period"))
        quota_us, period_us = (int(path.read_text()) for path in given)
        return ceil(quota_us / period_us) if quota_us > 0 else None
    return None
