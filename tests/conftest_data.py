"""Tests that need public data where it is not there: they skip, and the run says at its end how many did and why."""

from collections.abc import Generator

import pytest

from tests.data import ABSENT, absent, data_dir, is_public


def _or_skip() -> Generator[None, object, object]:
    """What opens a file of the data directory by itself, and does not find it, skips as `data_path` does."""
    try:
        return (yield)
    except FileNotFoundError as error:
        if not is_public(error.filename):
            raise
        pytest.skip(absent(str(error.filename)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _or_skip())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _or_skip())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """`-rs` lists them one by one."""
    skipped = [report.longrepr for report in terminalreporter.getreports("skipped")]
    count = sum(isinstance(why, tuple) and ABSENT in why[2] for why in skipped)
    if count:
        there = "lacks files that they need" if data_dir().is_dir() else "is not there"
        terminalreporter.write_line(
            f"{count} tests skipped: {ABSENT} ({data_dir()} {there}; CASCADIA_DATA names its folder)"
        )
