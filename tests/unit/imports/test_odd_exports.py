"""Exports that something has mangled: each is read, or refused in a line that says where; none ends the command."""

import contextlib
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.imports.prompts import prompts_of
from cascadia.imports.quality import quality_of
from cascadia.imports.records import Records, read_records
from cascadia.imports.tokens import counter_of
from cascadia.imports.trace import trace_of
from cascadia.planner.problem.quality_file import read_quality
from cascadia.profile.quality.prompt_rows import prompt_rows
from cascadia_traces import errors as trace_errors
from cascadia_traces.formats.reading import read_trace
from tests.unit.imports.test_formats import ASKED, FILES, lines, litellm

FORMS: dict[str, Any] = {
    **{
        name: [json.loads(line) for line in text.splitlines()] if file.endswith("l") else json.loads(text)
        for name, (file, text) in FILES.items()
        if file.endswith((".json", ".jsonl"))
    },
    "aiperf-inputs": {"data": [{"session_id": "s", "payloads": [{"messages": ASKED}]}]},
    "sharegpt": [
        {"id": "a", "conversations": [{"from": "human", "value": "1?"}, {"from": "gpt", "value": "2"}]}
    ],
    "table": [
        {"id": "q", "prompt": "1?", "model": m, "score": 50, "correct": True, "answer": "2"} for m in "ab"
    ],
}
ODD: list[Any] = [
    *(
        None,
        True,
        -1,
        1e400,
        float("nan"),
        10**400,
        1e30,
        2**63,
        -1e18,
        1e-320,
        "",
        "x",
        "{",
        "[1",
        "true",
        "9" * 400,
        "\ud800",
    ),
    *(
        [],
        {},
        [None],
        [[]],
        [1, "a"],
        {"a": None},
        {"content": None},
        "2026-11-23T10:00:00+99:00",
        "0001-01-01",
    ),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [at, *(place for key in keys for place in places(value[key], (*at, key)))]


def mangled(form: Any, draw: random.Random) -> Any:
    """`form` with one or two of its values gone or replaced by something odd."""
    form = json.loads(json.dumps(form))
    for _ in range(draw.randint(1, 2)):
        *way, last = draw.choice([place for place in places(form) if place] or [(None,)])
        if last is None:
            return form
        inner = form
        for key in way:
            inner = inner[key]
        if draw.random() < 0.25:
            del inner[last]
        else:
            inner[last] = draw.choice(ODD)
    return form


def read_all_ways(file: Path) -> None:
    def prompts(found: Records) -> None:
        for row in prompts_of(found):
            json.dumps(row, ensure_ascii=False, default=str).encode()

    for read in (
        lambda found: trace_of(found, counter_of(None)),
        prompts,
        lambda found: quality_of(found, counter_of(None)),
    ):
        with contextlib.suppress(BadInput, trace_errors.BadInput):
            read(read_records([file], {}))


@pytest.mark.parametrize("name", FORMS)
def test_a_mangled_export_is_read_or_refused(name: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    for number in range(40):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(mangled(FORMS[name], draw)), encoding="utf-8")
        read_all_ways(file)


@pytest.mark.parametrize("name", ["vllm-log", "table"])
def test_a_mangled_text_is_read_or_refused(name: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    file, text = FILES[name]
    for number in range(40):
        signs = list(text)
        for _ in range(3):
            signs[draw.randrange(len(signs))] = draw.choice(
                ["", "\n", "'", '"', ",", "\\", "\0", "[", "99999999999"]
            )
        path = tmp_path / f"{number}-{file}"
        path.write_text("".join(signs), encoding="utf-8")
        read_all_ways(path)


ROWS = [litellm("a", "2026-11-23 10:00:00", 10, 3), litellm("b", "2026-11-23T11:00:02+01:00", 20, 5)]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(ROWS).encode(),
        lines(*ROWS).encode("utf-8-sig"),
        lines(*ROWS).replace("\n", "\r\n").encode(),
        gzip.compress(lines(*ROWS).encode()),
        lines(*({**row, "startTime": 1_795_428_000 + 2 * at} for at, row in enumerate(ROWS))).encode(),
        lines(
            *({**row, "startTime": (1_795_428_000 + 2 * at) * 10**9} for at, row in enumerate(ROWS))
        ).encode(),
        lines(*({**row, "prompt_tokens": str(row["prompt_tokens"])} for row in ROWS)).encode(),
    ],
    ids=["array", "mark", "crlf", "gzip", "seconds", "nanoseconds", "text"],
)
def test_a_log_reads_the_same_however_it_was_exported(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(data)
    trace = trace_of(read_records([tmp_path / "log.jsonl"], {}), counter_of(None))
    assert trace.input_tokens.tolist() == [10, 20]
    assert trace.duration_s == pytest.approx(2, abs=1)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "t.csv",
            "arrival_s,input_tokens,input_tokens,output_tokens\n0,1,2,3\n",
            "two columns are called input_tokens",
        ),
        (
            "t.csv",
            "arrival_s,input_tokens,output_tokens\n0,1,2\n1700000000,1,2\n",
            "row 1: its time 0 counts from a",
        ),
        (
            "b.json",
            '{"benchmarks": [{"requests": {"successful": [1]}}]}',
            "its requests.successful is no list of obj",
        ),
        ("i.json", '{"data": [{"payloads": 3}]}', "its payloads is no list of objects"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=said):
        trace_of(read_records([tmp_path / name], {}), counter_of(None))


def test_a_table_may_part_its_columns_as_spreadsheets_do(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        'arrival_s;input_tokens;answer\n0;1;"a\u2028b"\n1;2;c\n', encoding="utf-8"
    )
    assert len(trace_of(read_records([tmp_path / "t.csv"], {}), counter_of(None))) == 2


def test_truths_may_be_spelt_in_several_ways(tmp_path: Path) -> None:
    rows = [{"id": "q", "prompt": "1?", "model": m, "score": 50, "correct": c, "answer": "2"}
            for m, c in (("a", "TRUE"), ("b", "1"), ("c", False), ("d", "no"))]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(rows), encoding="utf-8")
    table = quality_of(read_records([tmp_path / "t.json"], {}), counter_of(None))
    assert table.quality[:, 0].tolist() == [100, 100, 0, 0]


def test_a_traces_times_are_the_same_however_it_is_read(tmp_path: Path) -> None:
    """Mooncake's times are milliseconds, which nothing but its other names says."""
    times_ms = (0, 1_500, 4_250)
    rows = [
        {"timestamp": at, "input_length": 600, "output_length": 9, "hash_ids": [0, at]} for at in times_ms
    ]
    file = tmp_path / "trace.jsonl"
    file.write_text(lines(*rows))
    converted = list(read_trace(file).arrival_s)
    imported = trace_of(read_records([file], {}), counter_of(None))
    assert list(imported.arrival_s) == converted == [0.0, 1.5, 4.25]
    dates = [row | {"timestamp": 1_760_000_000 + row["timestamp"] / 1e3} for row in rows]
    file.write_text(lines(*dates))
    assert list(trace_of(read_records([file], {}), counter_of(None)).arrival_s) == converted


@pytest.mark.parametrize(("sign", "named"), [(";", "semicolons"), ("\t", "tabs")])
def test_cells_that_a_spreadsheet_separates_otherwise_are_called_so(
    sign: str, named: str, tmp_path: Path
) -> None:
    def file(*cells: str) -> Path:
        path = tmp_path / "file.csv"
        path.write_text("\n".join(sign.join(row.split()) for row in cells), encoding="utf-8-sig")
        return path

    told = f"separated by {named}"
    with pytest.raises(trace_errors.BadInput, match=told):
        read_trace(file("arrival_s input_tokens output_tokens", "0,5 7 9"))
    with pytest.raises(BadInput, match=told):
        read_quality(file("prompt_id stage score input_tokens output_tokens", "q1 small 40,5 7 9"), None)
    with pytest.raises(BadInput, match=told):
        list(prompt_rows(file("prompt_id prompt", "q1 why")))
