"""What all tests share.

Where CASCADIA_CI is set, hypothesis draws the same examples each time, and fewer, so that a change is judged by what it
changed; elsewhere they are new in each run, and find what nobody thought of. No example has a deadline: machines may be
busy.

A shell ignores SIGINT for what it starts in the background, and children inherit that: here it is as in the foreground.
"""

import gc
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import everything, examples

pytest_plugins = ["tests.conftest_data"]

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", settings.get_profile("here"), derandomize=True, max_examples=examples(settings.default.max_examples)
)
settings.load_profile("ci" if os.environ.get("CASCADIA_CI") else "here")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


gc.set_threshold(7_000)  # 700 was a tenth of the router's tests


SEARCHED = (
    ("cascadia.planner.plan", "PlanResult"),
    ("cascadia.planner.search.bilevel", "BilevelResult"),
    ("cascadia.planner.search.context", "Search"),
)
"""Classes that hold all that a search looked at."""


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Iterator[int]:
    """One more than the cores that this process may use: tests wait for others a quarter of their time.

    Each process looks through all tests before it begins.
    """
    cores: int = yield
    return cores + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests are collected without collections of garbage, which were a sixth of the time that it takes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked long is left out in CI, but for the first `in_ci` cases of it."""
    if everything():
        return
    taken: Counter[str] = Counter()
    left, kept = [], []
    for item in items:
        long = item.get_closest_marker("long")
        name = item.nodeid.partition("[")[0]
        taken[name] += 1
        (left if long and taken[name] > long.kwargs.get("in_ci", 0) else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_collection_finish() -> None:
    """Modules and tests, two million objects, are here to stay: no collection of garbage looks through them again.

    A claim that fails writes out each value in it before it is cut: of a search that is 40 MB, a minute and more.
    """
    for module, name in SEARCHED:
        if module in sys.modules:
            getattr(sys.modules[module], name).__repr__ = object.__repr__
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def certificates_are_read_once() -> Iterator[None]:
    """Each client of httpx reads all that the world trusts, 15 ms of CPU, though most only ask this machine by http."""
    from httpx._transports import default

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", cache(default.create_ssl_context))
        yield


@pytest.fixture(scope="session")
def among_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests, the same for all processes of xdist."""
    mine = tmp_path_factory.getbasetemp()
    return mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine


@pytest.fixture(autouse=True, scope="session")
def own_cache(among_workers: Path) -> Iterator[None]:
    """Tests keep their tables to themselves: none is read from, or left in, the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASCADIA_CACHE_DIR", str(among_workers / "cache"))
        yield


@pytest.fixture(autouse=True, scope="session")
def reruns_are_told_at_once(pytestconfig: pytest.Config) -> None:
    """Each test of a worker asks the first process over a socket how often it was run: a small packet that is held back
    until the one before it is acknowledged makes that 40 ms, a fifth of the time of the whole suite."""
    asks = getattr(getattr(pytestconfig, "failures_db", None), "sock", None)
    if asks is not None:
        asks.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
