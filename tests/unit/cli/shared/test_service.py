"""Services compute with as many threads as they are told: more wait for each other at full speed on busy cores."""

import os
import subprocess
import sys

import pytest

from cascadia.cli.shared.service import THREADS_VARIABLES

ASKED = """
from importlib import import_module
from cascadia.cli.shared.service import bound_threads
import_module({module!r})
bound_threads(1)
import numpy
from threadpoolctl import threadpool_info
print({{each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}})
"""


@pytest.mark.parametrize("module", ["cascadia.cli.judge.serve", "cascadia.cli.engine.serve"])
def test_a_service_bounds_its_threads_before_anything_has_loaded_linear_algebra(module: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in THREADS_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", ASKED.format(module=module)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == "{1}"
