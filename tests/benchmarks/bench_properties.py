"""Property tests with new examples, again and again: `python -m tests.benchmarks.bench_properties [--minutes N]`.

CI draws the same examples each time; this draws others, from a seed that is told, until the time is over or one fails.
A counterexample then becomes an `@example` of its test, so that it is looked at in every run from there on.
"""

import argparse
import os
import subprocess
import sys
import time
from secrets import randbelow

from tests.data import ROOT

PARTS = ("controller", "router", "dispatch", "planner", "sim", "judge")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("parts", nargs="*", default=PARTS, help="Folders under tests/unit.")
    told = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if name != "CASCADIA_CI"}
    # More examples of what is dear, of which CI draws a few.
    environment["CASCADIA_LONG"] = "1"
    until_s, rounds = time.monotonic() + 60 * told.minutes, 0
    folders = [f"tests/unit/{part}" for part in told.parts]
    while rounds == 0 or time.monotonic() < until_s:
        seed = randbelow(2**31)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "hypothesis",
            f"--hypothesis-seed={seed}",
            *folders,
        ]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=3600).returncode:
            print(f"round {rounds + 1}: a test failed; its examples come again with --hypothesis-seed={seed}")
            return 1
        rounds += 1
    print(f"{rounds} rounds of all property tests in {', '.join(told.parts)}: none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
