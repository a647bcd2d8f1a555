"""Whatever the names and the order of a CSV's columns, input is never taken for output, nor the reverse."""

import re
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from cascadia_traces.formats.names import ROLES, role_of
from cascadia_traces.formats.reading import detect_format, read_trace
from cascadia_traces.trace import BadInput, Trace
from tests.unit.traces.samples import file_of

INPUTS, OUTPUTS = [100, 200, 300], [7, 8, 9]
NUMBERS = ["0", "1.5", "4"]
DATES = ["2024-05-10 00:00:00+00:00", "2024-05-10 00:00:01.5+00:00", "2024-05-10 00:00:04+00:00"]
TIMES = ("arrival_s", "TIMESTAMP", "created", "created_at", "start_time")
IN = ("input_tokens", "prompt_tokens", "ContextTokens", "Request tokens", "input_length")
OUT = ("output_tokens", "completion_tokens", "GeneratedTokens", "Response tokens", "output_length")
ADVICE = re.compile(
    r"(?:rename|and|,) '([^']+)' to '([^']+)'|the nearest is '([^']+)': rename it to '([^']+)'"
)
Columns = dict[str, list[str]]


def csv_of(columns: Columns) -> str:
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n"


def texts(numbers: list[int]) -> list[str]:
    return [str(number) for number in numbers]


def followed(columns: Columns, advice: str) -> Columns:
    """The columns as the error says that they should be called; unchanged where it says nothing of it."""
    renames = {a or c: b or d for a, b, c, d in ADVICE.findall(advice)}
    return {renames.get(name, name): values for name, values in columns.items()}


def right(trace: Trace) -> bool:
    counts = (trace.input_tokens.tolist(), trace.output_tokens.tolist())
    return counts == (INPUTS, OUTPUTS) and np.allclose(trace.arrival_s, [0, 1.5, 4])


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("times", [NUMBERS, DATES], ids=["numbers", "dates"])
def test_no_mixture_of_names_swaps_input_and_output_even_where_advice_is_followed(
    tmp_path: Path, order: tuple[int, ...], times: list[str]
) -> None:
    for time, given, written in product(TIMES, IN, OUT):
        named = [(time, times), (given, texts(INPUTS)), (written, texts(OUTPUTS))]
        told = []
        columns = dict(named[i] for i in order)
        while (error := refusal(tmp_path, columns)) is not None:
            told.append(str(error))
            renamed = followed(columns, error.instead)
            assert len(renamed) == 3, told
            assert len(told) < 4, told
            if renamed == columns:
                # Nothing to rename: the times are no numbers, or no dates, where it has such, or of another unit.
                assert "is not a" in error.what or "milliseconds" in error.what, told
                break
            columns = renamed


def refusal(folder: Path, columns: Columns) -> BadInput | None:
    try:
        trace = read_trace(file_of(folder, csv_of(columns)), spread=False)
    except BadInput as error:
        return error
    assert right(trace), list(columns)
    return None


PAIRS = (
    ("prompt_tokens", "completion_tokens"),
    ("usage.prompt_tokens", "usage.completion_tokens"),
    ("input_tokens", "output_tokens"),
)


@pytest.mark.parametrize(("given", "written"), PAIRS)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_openais_names_are_known_as_columns(
    tmp_path: Path, given: str, written: str, order: tuple[int, ...]
) -> None:
    for time, times in (("timestamp", DATES), ("created", ["1700000000", "1700000001.5", "1700000004"]),
                        ("created_at", ["1700000000000", "1700000001500", "1700000004000"])):  # fmt: skip
        named = [(time, times), (given, texts(INPUTS)), (written, texts(OUTPUTS))]
        path = file_of(tmp_path, csv_of(dict(named[i] for i in order)))
        assert detect_format(path) == "openai"
        assert right(read_trace(path))
        assert right(read_trace(path, "openai"))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_azures_dates_carry_their_zone_in_any_column(tmp_path: Path, order: tuple[int, ...]) -> None:
    named = [("TIMESTAMP", DATES), ("ContextTokens", texts(INPUTS)), ("GeneratedTokens", texts(OUTPUTS))]
    assert right(read_trace(file_of(tmp_path, csv_of(dict(named[i] for i in order)))))


def test_two_pairs_of_counts_are_refused(tmp_path: Path) -> None:
    text = "timestamp,prompt_tokens,completion_tokens,ContextTokens,GeneratedTokens\n1,2,3,4,5\n"
    with pytest.raises(BadInput, match=r"count tokens twice: .*; keep one pair"):
        read_trace(file_of(tmp_path, text))


def test_an_output_is_never_offered_as_an_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        read_trace(file_of(tmp_path, "timestamp,completion_tokens\n0,1\n"))
    assert "rename" not in refused.value.instead
    with pytest.raises(BadInput, match="the nearest is 'inptu_tokens': rename it to 'input_tokens'"):
        read_trace(file_of(tmp_path, "arrival_s,output_tokens,inptu_tokens\n0,1,2\n"))


def test_every_known_name_has_its_own_role_and_a_total_none() -> None:
    assert all(role_of(name) == role for role, names in ROLES.items() for name in names)
    assert [role_of(name) for name in ("Total tokens", "tokens", "cached_tokens", "model")] == [None] * 4


def test_flat_json_lines_of_responses_are_openais(tmp_path: Path) -> None:
    lines = '{"timestamp": 5, "input_tokens": 3, "output_tokens": 4}\n'
    assert detect_format(file_of(tmp_path, lines)) == "openai"
    assert read_trace(file_of(tmp_path, lines)).input_tokens.tolist() == [3]
