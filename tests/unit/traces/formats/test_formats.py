"""What each format's reader makes of a file."""

import gzip
import json
from pathlib import Path

import pytest

from cascadia_traces.errors import BadInput
from cascadia_traces.formats.reading import detect_format, iter_trace, read_trace, rechunked
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import join
from tests.unit.traces.samples import (
    AZURE,
    BURSTGPT,
    MOONCAKE,
    QWEN,
    SPLITWISE,
    VIDUR,
    file_of,
    same,
    trace_of,
)

OWN_CSV = "arrival_s,input_tokens,output_tokens\n0.5,3,4\n"
OWN_JSONL = '{"arrival_s": 0.5, "input_tokens": 3, "output_tokens": 4}\n'
OPENAI = '{"created": 1700000000, "usage": {"prompt_tokens": 12, "completion_tokens": 7}}\n'


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (AZURE, "azure"),
        (BURSTGPT, "burstgpt"),
        (MOONCAKE, "mooncake"),
        (QWEN, "qwen"),
        (SPLITWISE, "splitwise"),
        (VIDUR, "vidur"),
        (OPENAI, "openai"),
        (OWN_CSV, "csv"),
        (OWN_JSONL, "jsonl"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_format_is_told_from_the_content_alone(
    tmp_path: Path, content: str, name: str, packed: bool
) -> None:
    raw = content.encode()
    assert detect_format(file_of(tmp_path, gzip.compress(raw) if packed else raw, "trace.txt")) == name


def test_parquet_is_told_from_the_content(tmp_path: Path) -> None:
    write_trace(trace_of([0, 1]), tmp_path / "trace.parquet")
    assert detect_format((tmp_path / "trace.parquet").rename(tmp_path / "trace.csv")) == "parquet"


def test_azure_dates_become_seconds_from_the_first(tmp_path: Path) -> None:
    trace = read_trace(file_of(tmp_path, AZURE))
    assert trace.arrival_s.tolist() == pytest.approx([0, 4.314579], abs=1e-12)
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == ([374, 396], [44, 109])


@pytest.mark.parametrize("without", ['"usage": null', '"id": 7'])
def test_a_request_without_usage_is_left_out_and_counted(tmp_path: Path, without: str) -> None:
    usage = '"usage": {"prompt_tokens": 3, "completion_tokens": 2}'
    log = "".join(f'{{"created": {at}, {usage if at != 2 else without}}}\n' for at in (1, 2, 3))
    notes: list[str] = []
    trace = read_trace(file_of(tmp_path, log), spread=False, note=notes.append)
    assert trace.arrival_s.tolist() == [0, 2]
    assert notes == ["left out 1 of 3 requests: they failed, or have no count of tokens"]


def test_azure_dates_of_2024_carry_their_zone(tmp_path: Path) -> None:
    rows = "2024-05-10 00:00:00.009930+00:00,10,2\n2024-05-10 00:00:01.009930+00:00,10,2\n"
    trace = read_trace(file_of(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows))
    assert trace.arrival_s.tolist() == [0, 1]


def test_burstgpt_goes_by_name_and_leaves_out_and_counts_failures(tmp_path: Path) -> None:
    notes: list[str] = []
    trace = read_trace(file_of(tmp_path, BURSTGPT), note=notes.append)
    assert trace.arrival_s.tolist() == [0, 113.25]
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == ([472, 417], [18, 276])
    assert trace.session_id == ("", "s-1")
    assert notes == ["left out 1 of 3 requests: they failed, or have no count of tokens"]


def test_burstgpt_without_sessions_is_the_first_release(tmp_path: Path) -> None:
    text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,x\n"
    assert read_trace(file_of(tmp_path, text)).session_id is None


def test_mooncake_prefixes_are_the_leading_blocks_seen_before(tmp_path: Path) -> None:
    trace = read_trace(file_of(tmp_path, MOONCAKE), spread=False)
    assert trace.arrival_s.tolist() == pytest.approx([0, 3, 3.5, 9.001])
    assert trace.prefix_tokens is not None
    # None yet; two blocks; two blocks, less the last token; block 1 was seen, but not in front.
    assert trace.prefix_tokens.tolist() == [0, 1024, 1023, 0]
    assert trace.hash_ids == ("0 1 2", "0 1 3", "0 1", "9 1")


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_the_blocks_of_prompts_outlive_a_change_of_format(tmp_path: Path, end: str) -> None:
    trace = read_trace(file_of(tmp_path, MOONCAKE), spread=False)
    write_trace(trace, tmp_path / f"ours.{end}")
    assert same(read_trace(tmp_path / f"ours.{end}"), trace)


@pytest.mark.parametrize("content", [SPLITWISE, VIDUR])
def test_inputs_of_other_simulators_are_read(content: str, tmp_path: Path) -> None:
    trace = read_trace(file_of(tmp_path, content))
    assert trace.arrival_s.tolist() == pytest.approx([0, 0.5])
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == ([374, 396], [44, 109])


def test_qwen_counts_in_seconds_and_in_blocks_of_sixteen_tokens(tmp_path: Path) -> None:
    """Read as Mooncake's, in milliseconds and blocks of 512, it was a thousand times as fast."""
    shared, others = [*range(64)], [*range(100, 100 + 30)]
    prompts = [[*shared, 99], [*shared, *others], [*others, *shared], [*shared, *others, 7]]
    lines = [
        {"chat_id": at, "parent_chat_id": -1, "timestamp": 5 + 0.25 * at, "input_length": 16 * len(ids),
         "output_length": 3, "hash_ids": ids}
        for at, ids in enumerate(prompts)
    ]  # fmt: skip
    trace = read_trace(file_of(tmp_path, "".join(json.dumps(line) + "\n" for line in lines)))
    assert trace.arrival_s.tolist() == pytest.approx([0, 0.25, 0.5, 0.75])
    assert trace.prefix_tokens is not None
    assert trace.prefix_tokens.tolist() == [0, 1024, 0, 1024]
    assert trace.hash_ids is not None
    named = [ids.split() for ids in trace.hash_ids]
    assert [len(ids) for ids in named] == [3, 3, 3, 3]
    assert named[0][:2] == named[1][:2] == named[3][:2]
    # What stands at another place, after other tokens, is another block.
    assert not set(named[2]) & set(named[0])


def test_blocks_of_another_size_are_refused(tmp_path: Path) -> None:
    line = {"timestamp": 0, "input_length": 521, "output_length": 9, "hash_ids": [*range(33)]}
    with pytest.raises(BadInput, match=r"line 1: hash_ids names 33 blocks of 521 tokens; mooncake's .* 512"):
        read_trace(file_of(tmp_path, json.dumps(line) + "\n"))


def test_mooncake_prefixes_see_across_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of(tmp_path, MOONCAKE)
    whole = read_trace(path, spread=False)
    monkeypatch.setattr("cascadia_traces.formats.json_lines.BATCH_BYTES", 1)
    assert same(read_trace(path, spread=False), whole)


OPENAI_SHAPES = """\
{"id": "a", "object": "chat.completion", "created": 1700000000, "usage": {"prompt_tokens": 12, \
"completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 8}}}
{"object": "response", "created_at": 1700000001, "usage": {"input_tokens": 13, "output_tokens": 6, \
"input_tokens_details": {"cached_tokens": 13}}, "session_id": "s"}
{"timestamp": "2023-11-14T22:13:22.500Z", "request": {}, "response": {"created": 1, "usage": \
{"prompt_tokens": 14, "completion_tokens": 5}}}
{"custom_id": "c", "error": {"message": "timeout"}}
{"timestamp": 1700000003250, "response": {"status_code": 200, "body": {"usage": {"prompt_tokens": 15, \
"completion_tokens": 4}}}, "prompt_id": 17}
{"timestamp": 1700000004, "prompt_tokens": 16, "completion_tokens": 3}
{"timestamp": 1700000005, "status": 500}
{"created": 1700000006, "object": "list", "usage": {"prompt_tokens": 9, "total_tokens": 9}}
"""


def test_every_documented_shape_of_an_openai_log_is_read(tmp_path: Path) -> None:
    notes: list[str] = []
    trace = read_trace(file_of(tmp_path, OPENAI_SHAPES), note=notes.append)
    assert trace.arrival_s.tolist() == [0, 1, 2.5, 3.25, 4]
    assert trace.input_tokens.tolist() == [12, 13, 14, 15, 16]
    assert trace.output_tokens.tolist() == [7, 6, 5, 4, 3]
    assert trace.prefix_tokens is not None
    assert trace.prefix_tokens.tolist() == [8, 12, 0, 0, 0]
    assert trace.session_id == ("", "s", "", "", "")
    assert trace.prompt_id == ("", "", "", "17", "")
    assert notes == ["left out 3 of 8 requests: they failed, or have no count of tokens"]


def test_a_first_request_longer_than_the_head_is_still_told_apart(tmp_path: Path) -> None:
    content = '{"request": "%s", ' % ("x" * 100_000) + OPENAI[1:]
    assert detect_format(file_of(tmp_path, content)) == "openai"


def test_our_own_times_are_kept_as_written(tmp_path: Path) -> None:
    assert read_trace(file_of(tmp_path, OWN_CSV)).arrival_s.tolist() == [0.5]
    assert read_trace(file_of(tmp_path, OWN_JSONL)).arrival_s.tolist() == [0.5]


def test_columns_may_stand_in_any_order_among_others(tmp_path: Path) -> None:
    text = '\ufeffmodel, Output_Tokens ,input_tokens,arrival_s\r\n"a,b",4,3,0.5\r\n\r\n"c\nd",6,5,0.75\r\n'
    trace = read_trace(file_of(tmp_path, text))
    assert trace.arrival_s.tolist() == [0.5, 0.75]
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == ([3, 5], [4, 6])


def test_sorting_accepts_rows_in_any_order(tmp_path: Path) -> None:
    rows = '{"arrival_s": %s, "input_tokens": %s, "output_tokens": 1, "prompt_id": "%s"}\n'
    trace = read_trace(
        file_of(tmp_path, rows % (2, 1, "a") + rows % (1, 2, "b") + rows % (2, 3, "c")), sort=True
    )
    assert (trace.input_tokens.tolist(), trace.prompt_id) == ([2, 1, 3], ("b", "a", "c"))


def test_parts_are_of_the_size_asked_for_and_join_to_the_whole(tmp_path: Path) -> None:
    whole = trace_of([i / 8 for i in range(1000)])
    write_trace(whole, tmp_path / "trace.csv")
    parts = list(iter_trace(tmp_path / "trace.csv", rows=300))
    assert [len(part) for part in parts] == [300, 300, 300, 100]
    assert same(join(parts), whole)
    assert [len(part) for part in rechunked(iter(parts), 400)] == [400, 400, 200]


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    heard: list[int] = []
    for name in ("trace.csv", "trace.parquet"):
        write_trace(trace_of([i / 8 for i in range(1000)]), tmp_path / name)
        read_trace(tmp_path / name, on_progress=heard.append)
        assert heard[-1] == (tmp_path / name).stat().st_size
