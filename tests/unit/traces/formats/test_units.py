"""Times in other units than seconds are never taken for seconds, where their name or they themselves tell it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_traces.checks import day_number
from cascadia_traces.formats.names import unit_in
from cascadia_traces.formats.reading import read_trace
from cascadia_traces.trace import BadInput
from tests.unit.cli.commands import run

SECONDS = np.cumsum(np.random.default_rng(1).integers(1, 40, 60))
DAYS = [f"{45987.5 + s / 86400:.8f}" for s in SECONDS]
ROUNDED = [f"{45987.5 + s / 86400:.5f}" for s in SECONDS]
"""As a spreadsheet shows them, and saves what it shows."""


def csv_of(folder: Path, header: str, times: list[str]) -> Path:
    path = folder / "log.csv"
    path.write_text("\n".join([header, *(f"{time},100,50" for time in times)]) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("arrival_ms", 1e-3),
        ("Time (ms)", 1e-3),
        ("timestampMillis", 1e-3),
        ("start.time_ns", 1e-9),
        ("arrival minutes", 60.0),
        ("arrival_s", None),
        ("ms", None),
        ("items", None),
        ("timestamps", None),
        ("created_at", None),
    ],
)
def test_a_unit_is_the_last_word_of_a_name(name: str, unit: float | None) -> None:
    found = unit_in(name)
    assert (None if found is None else found.seconds) == unit


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (
            "arrival_ms,input_tokens,output_tokens",
            "'arrival_ms' is in milliseconds: write its times in seconds",
        ),
        ("timestamp_ms,prompt_tokens,completion_tokens", "'timestamp_ms' is in milliseconds"),
        ("Time (ms),prompt_tokens,completion_tokens", "'Time (ms)' is in milliseconds"),
    ],
)
def test_no_hint_makes_seconds_of_milliseconds(tmp_path: Path, header: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_trace(csv_of(tmp_path, header, ["0", "1500", "4000"]))
    assert told in refused.value.instead
    assert "rename" not in refused.value.instead


def test_what_is_mapped_by_a_name_with_a_unit_is_read_in_it(tmp_path: Path) -> None:
    log = csv_of(tmp_path, "offset_ms,prompt_tokens,completion_tokens", ["0", "1500", "9000000000"])
    found = run("import", "trace", str(log), "--map", "arrival_s=offset_ms", "--out", str(tmp_path / "t.csv"))
    assert found.exit_code == 0, found.output
    assert read_trace(tmp_path / "t.csv").arrival_s.tolist() == [0.0, 1.5, 9e6]


@pytest.mark.parametrize(
    "header", ["arrival_s,input_tokens,output_tokens", "timestamp,prompt_tokens,completion_tokens"]
)
@pytest.mark.parametrize("command", [["trace", "inspect"], ["import", "trace"]])
@pytest.mark.parametrize("times", [DAYS, ROUNDED], ids=["exact", "as shown"])
def test_days_of_a_spreadsheet_are_told(
    tmp_path: Path, header: str, command: list[str], times: list[str]
) -> None:
    more = ["--out", str(tmp_path / "t.csv")] if command[0] == "import" else []
    found = run(*command, str(csv_of(tmp_path, header, times)), *more)
    assert found.exit_code == 2
    assert "its times are a spreadsheet's days (45987.50" in found.stderr
    assert "is 2025-11-26 12:00:" in found.stderr
    assert not (tmp_path / "t.csv").exists()


@given(
    st.lists(st.integers(36_526, 73_000), min_size=1, max_size=200),
    st.sampled_from([1, 2, 4, 10, 100, 1000, 3000, 1_000_000]),
    st.integers(0, 2**32 - 1),
)
def test_seconds_of_a_day_are_no_days(whole: list[int], parts: int, seed: int) -> None:
    times = np.sort(np.array(whole) + np.random.default_rng(seed).integers(0, parts, len(whole)) / parts)
    assert day_number(times) is None
