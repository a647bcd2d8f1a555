"""Commands that run engines need Linux; planning and simulating do not."""

import platform

from cascadia.domain.errors import BadInput


def needs_linux(command: str) -> None:
    """Refuses `command` elsewhere: processes are guarded by what only Linux has (/proc, prctl, CPU affinity)."""
    system = platform.system()
    if system != "Linux":
        raise BadInput(
            command, f"needs Linux, and this is {system}", "plan and simulate here; run it on Linux or in WSL"
        )
