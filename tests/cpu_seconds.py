"""CPU seconds of the tests of each package, and of the slowest tests.

    python -m pytest -p tests.cpu_seconds [tests/unit/PACKAGE...]

A test's seconds are user and system time of its process and of the children it waited for, from its set-up to its end;
a package's include the import of its test modules. Time on the wall says nothing where a machine is shared.
"""

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

ASKED_S = 10.0
"""Of a package's tests that are not marked slow."""
SLOWEST = 20


def cpu_s() -> float:
    return sum(os.times()[:4])


class CpuSeconds:
    def __init__(self) -> None:
        self.modules: dict[str, float] = defaultdict(float)
        self.tests: dict[str, float] = {}
        self.slow: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        start = cpu_s()
        report = yield
        if isinstance(collector, pytest.Module):
            self.modules[collector.nodeid] += cpu_s() - start
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start = cpu_s()
        done = yield
        kept = self.slow if item.get_closest_marker("slow") else self.tests
        kept[item.nodeid] = cpu_s() - start
        return done

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        packages: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for column, seconds in enumerate((self.modules, self.tests, self.slow)):
            for node, spent_s in seconds.items():
                packages[package(node)][column] += spent_s
        write = terminalreporter.write_line
        write(f"\n{'CPU seconds':24}{'imports':>9}{'tests':>9}{'slow':>9}")
        for name, (imports_s, tests_s, slow_s) in sorted(packages.items()):
            over = "" if imports_s + tests_s <= ASKED_S else f"  over {ASKED_S:.0f}"
            write(f"{name:24}{imports_s:9.1f}{tests_s:9.1f}{slow_s:9.1f}{over}")
        write("")
        every = self.tests | self.slow
        for node in sorted(every, key=lambda n: -every[n])[:SLOWEST]:
            write(f"{every[node]:6.1f}  {node}")


def package(node: str) -> str:
    """`tests/unit/router` of a test of the router."""
    parts = node.partition("::")[0].split("/")
    return "/".join(parts[:3]) if len(parts) > 3 else "tests/unit/*.py"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuSeconds())
