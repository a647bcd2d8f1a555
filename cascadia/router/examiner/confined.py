"""Bounds of processes that read what others wrote: no secret of the router's, a bounded memory, nothing on a disk."""

import os
import resource

KNOWS = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
"""Of the environment: no engine's key among it."""
MEMORY_BYTES = 2 * 2**30


def environment() -> dict[str, str]:
    """The environment to start such a process with."""
    return {name: os.environ[name] for name in KNOWS if name in os.environ}


def confine() -> None:
    """Bounds this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # What clients wrote must not be left on a disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
