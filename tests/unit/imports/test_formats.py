"""Each program's file gives the requests that it logged, at their times and with their lengths."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from cascadia.domain.errors import BadInput
from cascadia.imports.layouts import LAYOUTS
from cascadia.imports.prompts import prompts_of
from cascadia.imports.records import read_records
from cascadia.imports.tokens import counter_of
from cascadia.imports.trace import trace_of

ASKED = [{"role": "user", "content": "What is 2 + 2?"}]


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def litellm(name: str, time: str, inputs: int, outputs: int, **more: Any) -> dict[str, Any]:
    """As the table LiteLLM_SpendLogs has it."""
    counts = {"prompt_tokens": inputs, "completion_tokens": outputs, "total_tokens": inputs + outputs}
    row = {"request_id": name, "call_type": "acompletion", "spend": 0.01, **counts, "startTime": time}
    return {**row, "endTime": time, "model": "gpt-4o", "messages": ASKED, "status": "success", **more}


def langfuse(time: str, usage: dict[str, int], **more: Any) -> dict[str, Any]:
    """As the table observations_v2 of a blob storage export has it."""
    row = {"id": time, "trace_id": "t1", "session_id": "s1", "type": "GENERATION", "start_time": time}
    return {
        **row,
        "input": json.dumps(ASKED),
        "output": "4",
        "usage_details": usage,
        "level": "DEFAULT",
        **more,
    }


def guidellm(start: float, inputs: int, outputs: int) -> dict[str, Any]:
    body = {"body": {"messages": ASKED}}
    counts = {"prompt_tokens": inputs, "output_tokens": outputs, "output": "4"}
    return {
        "request_id": f"r{start}",
        "request_args": json.dumps(body),
        "request_start_time": start,
        **counts,
    }


def aiperf(start_ns: int, inputs: int, outputs: int) -> dict[str, Any]:
    metrics = {"input_sequence_length": inputs, "output_sequence_length": outputs}
    return {
        "metadata": {"x_request_id": str(start_ns), "conversation_id": "c1", "request_start_ns": start_ns},
        "metrics": {name: {"value": value, "unit": "tokens"} for name, value in metrics.items()},
        "error": None,
    }


def openai(created: float, inputs: int, outputs: int) -> dict[str, Any]:
    usage = {"prompt_tokens": inputs, "completion_tokens": outputs}
    choices = [{"message": {"role": "assistant", "content": "4"}}]
    return {"messages": ASKED, "response": {"created": created, "usage": usage, "choices": choices}}


FILES = {
    "mooncake": (
        "trace.jsonl",
        lines(
            {"timestamp": 2500, "input_length": 20, "output_length": 5, "hash_ids": [1]},
            {"timestamp": 0, "input_length": 10, "output_length": 3, "hash_ids": [0]},
        ),
    ),
    "qwen": (
        "trace.jsonl",
        lines(
            {"chat_id": 1, "parent_chat_id": 0, "timestamp": 4.5, "input_length": 20, "output_length": 5},
            {"chat_id": 0, "parent_chat_id": -1, "timestamp": 2.0, "input_length": 10, "output_length": 3},
        ),
    ),
    "litellm": (
        "spend.jsonl",
        lines(
            litellm("b", "2026-11-23 10:00:02.500", 20, 5),
            litellm("a", "2026-11-23T10:00:00Z", 10, 3),
            litellm("c", "2026-11-23 10:00:03", 10, 0, status="failure"),
        ),
    ),
    "langfuse": (
        "observations.jsonl",
        lines(
            langfuse("2026-11-23 10:00:00.000000", {"input": 6, "input_cached_tokens": 4, "output": 3}),
            langfuse("2026-11-23 10:00:01.000000", {}, type="SPAN"),
            langfuse("2026-11-23 10:00:02.500000", {"input": 20, "output": 3, "output_reasoning_tokens": 2}),
        ),
    ),
    "openai": ("log.jsonl", lines(openai(1700000000.0, 10, 3), openai(1700000002.5, 20, 5))),
    "guidellm": (
        "benchmarks.json",
        json.dumps(
            {"benchmarks": [{"requests": {"successful": [guidellm(100.0, 10, 3), guidellm(102.5, 20, 5)]}}]}
        ),
    ),
    "aiperf": (
        "profile_export.jsonl",
        lines(
            aiperf(1_759_813_207_000_000_000, 10, 3),
            aiperf(1_759_813_209_500_000_000, 20, 5),
            {
                "metadata": {"request_start_ns": 1_759_813_210_000_000_000},
                "metrics": {"error_isl": {"value": 5}},
                "error": {"code": 499},
            },
        ),
    ),
    "vllm-bench": (
        "result.json",
        json.dumps(
            {
                "start_times": [50.0, 52.5, 53.0],
                "input_lens": [10, 20, 7],
                "output_lens": [3, 5, 0],
                "generated_texts": ["4", "four", ""],
                "errors": ["", "", "Service Unavailable"],
            }
        ),
    ),
    "vllm-log": (
        "server.log",
        "INFO 12-31 23:59:59 [logger.py:41] Received request a: prompt: 'It\\'s 2 + 2?', params: SamplingParams(n=1), "
        f"prompt_token_ids: {list(range(10))}, lora_request: None.\n"
        "INFO 01-01 00:00:00.500 [loggers.py:127] Engine 000: Running: 1 reqs\n"
        "INFO 01-01 00:00:01.500 [logger.py:41] Received request b: params: SamplingParams(n=1), lora_request: None.\n"
        f"DEBUG 01-01 00:00:01.500 [logger.py:30] Request b details: prompt: 'Why?', "
        f"prompt_token_ids: {list(range(20))}, prompt_embeds shape: None.\n"
        "INFO 01-01 00:00:02 [logger.py:65] Generated response a: output: '4', output_token_ids: [1, 2, 3], "
        "finish_reason: stop\n"
        "INFO 01-01 00:00:02 [logger.py:65] Generated response b (streaming delta): output: 'B', "
        "output_token_ids: [1], finish_reason: None\n"
        "INFO 01-01 00:00:03 [logger.py:65] Generated response b (streaming complete): output: 'Because', "
        "output_token_ids: [1, 2, 3, 4, 5], finish_reason: stop\n",
    ),
    "table": (
        "requests.csv",
        "start_time,input_tokens,output_tokens\n2026-11-23 10:00:00,10,3\n2026-11-23 10:00:02.5,20,5\n",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_program_s_file_is_told_and_read(name: str, tmp_path: Path) -> None:
    file, content = FILES[name]
    (tmp_path / file).write_text(content)
    found = read_records([tmp_path / file], {})
    trace = trace_of(found, counter_of(None))
    assert found.format == name
    assert trace.arrival_s.tolist() == pytest.approx([0.0, 2.5], abs=1e-5)
    assert trace.input_tokens.tolist() == [10, 20]
    assert trace.output_tokens.tolist() == [3, 5]


def test_every_format_with_times_is_tried() -> None:
    assert {layout.name for layout in LAYOUTS if "arrival_s" in layout.paths} < set(FILES)


def test_what_failed_is_counted(tmp_path: Path) -> None:
    notes: list[str] = []
    (tmp_path / "spend.jsonl").write_text(FILES["litellm"][1])
    trace_of(read_records([tmp_path / "spend.jsonl"], {}), counter_of(None), note=notes.append)
    assert notes == ["left out 1 of 3 requests, which failed"]


def test_langfuse_s_cached_tokens_are_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "o.jsonl").write_text(FILES["langfuse"][1])
    trace = trace_of(read_records([tmp_path / "o.jsonl"], {}), counter_of(None))
    assert trace.prefix_tokens is not None
    assert trace.prefix_tokens.tolist() == [4, 0]
    assert trace.session_id == ("s1", "s1")


@pytest.mark.parametrize("name", ["litellm", "langfuse", "openai", "guidellm"])
def test_the_question_that_was_logged_is_a_prompt_once(name: str, tmp_path: Path) -> None:
    file, content = FILES[name]
    (tmp_path / file).write_text(content)
    rows = prompts_of(read_records([tmp_path / file], {}))
    assert [row["messages"] for row in rows] == [ASKED]


def test_a_cell_of_a_csv_may_hold_json(tmp_path: Path) -> None:
    row = litellm("a", "2026-11-23T10:00:00Z", 10, 3)
    asked = json.dumps(row["messages"]).replace('"', '""')
    (tmp_path / "spend.csv").write_text(
        f'request_id,call_type,startTime,prompt_tokens,completion_tokens,messages\na,x,2026-11-23,10,3,"{asked}"\n'
    )
    (prompt,) = prompts_of(read_records([tmp_path / "spend.csv"], {}))
    assert prompt == {"prompt_id": "a", "messages": ASKED}


def test_a_conversation_gives_a_prompt_for_each_answer(tmp_path: Path) -> None:
    said = [("human", "Hi"), ("gpt", "Hello."), ("human", "And you?"), ("gpt", "Fine, thank you.")]
    talk = {"id": "abc", "conversations": [{"from": who, "value": what} for who, what in said]}
    (tmp_path / "sharegpt.json").write_text(json.dumps([talk]))
    found = read_records([tmp_path / "sharegpt.json"], {})
    first, second = prompts_of(found)
    assert found.format == "sharegpt"
    assert first == {"prompt_id": "abc#1", "messages": [{"role": "user", "content": "Hi"}]}
    assert [one["role"] for one in second["messages"]] == ["user", "assistant", "user"]
    notes: list[str] = []
    trace = trace_of(found, counter_of(None), rate_rps=2.0, note=notes.append)
    assert trace.output_tokens.tolist() == [2, 4]
    assert any("no tokenizer" in note for note in notes)
    assert notes[-1].startswith("no times in the file")


def test_a_data_set_on_disk_is_read(tmp_path: Path) -> None:
    table = pa.table({"question": ["What is 2 + 2?", "Why?"], "answer": ["#### 4", "#### 0"]})
    (tmp_path / "train").mkdir()
    arrow = str(tmp_path / "train" / "data-00000-of-00001.arrow")
    with pa.OSFile(arrow, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
    (tmp_path / "train" / "state.json").write_text(json.dumps(state))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    rows = prompts_of(read_records([tmp_path], {}), reference=True)
    assert [(row["prompt"], row["reference"]) for row in rows] == [
        ("What is 2 + 2?", "#### 4"),
        ("Why?", "#### 0"),
    ]


def test_aiperf_s_inputs_are_prompts(tmp_path: Path) -> None:
    (tmp_path / "inputs.json").write_text(
        json.dumps({"data": [{"session_id": "s", "payloads": [{"model": "m", "messages": ASKED}]}]})
    )
    assert prompts_of(read_records([tmp_path / "inputs.json"], {})) == [
        {"prompt_id": "s#1", "messages": ASKED}
    ]


def _shards(folder: Path, *names: str) -> Path:
    """A folder of Parquet files, each with one request as many seconds from the start as its place."""
    folder.mkdir()
    for at, name in enumerate(names, 1):
        columns = {"arrival_s": [float(at)], "input_tokens": [at], "output_tokens": [1]}
        pa.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("names", "split", "read"),
    [
        (("train-00000-of-00001", "pretrain-00000-of-00001"), "train", [1]),
        (("train-00000-of-00002", "train-00001-of-00002"), None, [1, 2]),
        (("train-00000-of-00001", "test-00000-of-00001"), "test", [2]),
        (("test", "train_a"), "train", [2]),
        (("monday", "tuesday"), None, [1, 2]),
    ],
)
def test_a_split_is_read_by_its_whole_name(
    tmp_path: Path, names: tuple[str, ...], split: str | None, read: list[int]
) -> None:
    found = read_records([_shards(tmp_path / "set", *names)], {}, split=split)
    assert sorted(record.get("input_tokens") for record in found.records) == read


@pytest.mark.parametrize(
    ("names", "split", "said"),
    [
        (("train-00000-of-00001", "test-00000-of-00001"), None, "has splits test, train; choose one"),
        (("train-00000-of-00001",), "tra", "has splits train; choose one"),
        (("train-00000-of-00001",), "*", "has splits train; choose one"),
        (("monday",), "train", "has no splits by its files' names; leave --split out"),
    ],
)
def test_splits_are_neither_mixed_nor_guessed(
    tmp_path: Path, names: tuple[str, ...], split: str | None, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        read_records([_shards(tmp_path / "set", *names)], {}, split=split)


def test_a_file_has_no_splits(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n1,2,3\n")
    with pytest.raises(BadInput, match=r"t\.csv is a file, and has no splits"):
        read_records([tmp_path / "t.csv"], {}, split="train")
