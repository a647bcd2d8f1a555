"""A long plan, read in a process of its own before the router reads it.

What is wrong at a hundred thousand places takes ten seconds to find, and no thread beside it has a turn meanwhile.
What is right takes a few milliseconds.
"""

import json
import resource
import subprocess
import sys

from cascadia.domain.errors import BadInput
from cascadia.router.examiner.confined import confine, environment

FEW_VALUES = 512
"""A plan of four stages has as many; so few are read within a turn of the event loop, whatever is wrong in them."""
CPU_S, WALL_S = 3, 60.0


def check(text: str) -> None:
    """Raises `BadInput` where `text` is no plan; waits for the process."""
    command = [sys.executable, "-P", "-m", __name__]
    try:
        found = subprocess.run(
            command, input=text.encode(), capture_output=True, env=environment(), timeout=WALL_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        instead = "send a plan.json that `cascadia plan` wrote"
        raise BadInput("plan", f"could not be read within {CPU_S} s", instead) from None
    if found:
        raise BadInput(*json.loads(found))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    confine()
    from cascadia.files.plan_file import parse_plan

    try:
        parse_plan(sys.stdin.buffer.read().decode(), "plan")
    except BadInput as error:
        sys.stdout.write(json.dumps([error.where, error.what, error.instead]))


if __name__ == "__main__":
    main()
