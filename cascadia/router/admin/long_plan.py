"""A long plan, read in a process of its own before the router reads it.

What is wrong at a hundred thousand places takes ten seconds to find, and no thread beside it has a turn meanwhile.
What is right takes a few milliseconds.
"""

import json
import os
import resource
import subprocess
import sys

from cascadia.domain.errors import BadInput

FEW_VALUES = 512
"""A plan of four stages has as many; so few are read within a turn of the event loop, whatever is wrong in them."""
CPU_S, WALL_S = 3, 60.0
MEMORY_BYTES = 2 * 2**30
_KNOWS = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def check(text: str) -> None:
    """Raises `BadInput` where `text` is no plan; waits for the process."""
    command = [sys.executable, "-P", "-m", __name__]
    environment = {name: os.environ[name] for name in _KNOWS if name in os.environ}
    try:
        found = subprocess.run(
            command, input=text.encode(), capture_output=True, env=environment, timeout=WALL_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        instead = "send a plan.json that `cascadia plan` wrote"
        raise BadInput("plan", f"could not be read within {CPU_S} s", instead) from None
    if found:
        raise BadInput(*json.loads(found))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from cascadia.files.plan_file import parse_plan

    try:
        parse_plan(sys.stdin.buffer.read().decode(), "plan")
    except BadInput as error:
        sys.stdout.write(json.dumps([error.where, error.what, error.instead]))


if __name__ == "__main__":
    main()
