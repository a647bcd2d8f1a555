"""Service levels on the command line, in the shape of vLLM's benchmark."""

import click
import pytest

from cascadia.cli.shared.options import goodput, number, share
from cascadia.domain.objective import Level


def test_goodput_is_in_milliseconds_and_of_p95_unless_it_says() -> None:
    assert goodput("ttft:500 tpot:50@p50,e2el:20000@p99.9") == (
        Level("ttft", 0.95, 0.5),
        Level("tpot", 0.5, 0.05),
        Level("e2e", pytest.approx(0.999), 20.0),
    )


@pytest.mark.parametrize(
    "text", ["ttft", "itl:5", "ttft:0", "ttft:5@95", "ttft:5@p100", "ttft:5@p0.95", "ttft:x"]
)
def test_other_shapes_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        goodput(text)


@pytest.mark.parametrize("text", ["0_1", "\u0660.\u0661", "nan", "1e999", ""])
def test_a_number_is_what_anybody_reads_as_one(text: str) -> None:
    for read in (number, share):
        with pytest.raises(click.BadParameter):
            read(text)
