"""Public traces through every command that takes one."""

from pathlib import Path

import pytest

from tests.data import data_path
from tests.e2e.commands import Cascadia

REQUESTS = {
    "traces/azure_2023_conv.csv": 19_366,
    "traces/azure_2023_code.csv": 8_819,
    "traces/mooncake_conversation.jsonl": 12_031,
}
"""Lines of each file, a header left out."""


@pytest.fixture(params=REQUESTS)
def trace(request: pytest.FixtureRequest) -> Path:
    return data_path(request.param)


def requests(trace: Path) -> int:
    return next(count for name, count in REQUESTS.items() if Path(name).stem in trace.name)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl.gz"])
def test_converted_it_is_the_same_trace(cascadia: Cascadia, trace: Path, ending: str) -> None:
    before = cascadia("trace", "inspect", trace, "--json").document
    cascadia("trace", "convert", trace, f"own.{ending}")
    after = cascadia("trace", "inspect", f"own.{ending}", "--json").document
    assert before["requests"] == after["requests"] == requests(trace)
    for part in ("input_tokens", "output_tokens"):
        assert after[part] == before[part]
    assert after["rate_rps"] == pytest.approx(before["rate_rps"], rel=1e-6)


def test_scaled_it_has_the_rate_asked_for(cascadia: Cascadia, trace: Path) -> None:
    cascadia("trace", "scale", trace, "scaled.parquet", "--rate", "10")
    inspected = cascadia("trace", "inspect", "scaled.parquet", "--json").document
    assert inspected["rate_rps"] == pytest.approx(10, rel=0.01)
    assert inspected["requests"] == requests(trace)


def test_lengths_of_a_generated_trace_are_drawn_from_it(cascadia: Cascadia, trace: Path) -> None:
    made = ("--requests", "5000", "--rate", "5", "--lengths-from", trace, "--seed", "1")
    cascadia("trace", "generate", "made.parquet", *made)
    drawn = cascadia("trace", "inspect", "made.parquet", "--json").document
    source = cascadia("trace", "inspect", trace, "--json").document
    for part in ("input_tokens", "output_tokens"):
        assert drawn[part]["mean"] == pytest.approx(source[part]["mean"], rel=0.1)


def test_cut_in_its_middle_it_is_refused_and_nothing_is_written(cascadia: Cascadia, trace: Path) -> None:
    cascadia("trace", "convert", trace, "whole.parquet")
    whole = (cascadia.folder / "whole.parquet").read_bytes()
    (cascadia.folder / "half.parquet").write_bytes(whole[: len(whole) // 2])
    done = cascadia.attempt("trace", "convert", "half.parquet", "out.csv")
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "half.parquet" in done.stderr
    assert not (cascadia.folder / "out.csv").exists()
