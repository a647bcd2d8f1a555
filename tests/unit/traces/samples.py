"""Small traces and files for the tests beside it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from cascadia_traces.trace import Trace

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
BURSTGPT = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,,1.2,ChatGPT,472,18,490,API log
45.5,s-1,1.0,GPT-4,417,0,417,Conversation log
118.25,s-1,2.0,GPT-4,417,276,693,Conversation log
"""
MOONCAKE = """\
{"timestamp": 27000, "input_length": 1100, "output_length": 52, "hash_ids": [0, 1, 2]}
{"timestamp": 30000, "input_length": 1400, "output_length": 26, "hash_ids": [0, 1, 3]}
{"timestamp": 30500, "input_length": 1024, "output_length": 9, "hash_ids": [0, 1]}
{"timestamp": 36001, "input_length": 700, "output_length": 9, "hash_ids": [9, 1]}
"""

QWEN = """\
{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 521, "output_length": 132, "type": "text", \
"turn": 1, "hash_ids": [1, 2, 3]}
{"chat_id": 160, "parent_chat_id": 159, "timestamp": 61.6, "input_length": 700, "output_length": 9, "type": "text", \
"turn": 2, "hash_ids": [1, 2, 4]}
"""
SPLITWISE = """\
request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size
0,0,0,2.0,1,374,44
1,0,0,2.5,1,396,109
"""
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n2.0,374,44\n2.5,396,109\n"


def trace_of(arrival_s: Sequence[float], inputs: Sequence[int] | None = None, **columns: object) -> Trace:
    """Outputs are 5 tokens each; inputs are 10 unless given."""
    n = len(arrival_s)
    tokens = np.array([10] * n if inputs is None else inputs, dtype=np.int64)
    five = np.full(n, 5, dtype=np.int64)
    return Trace(np.array(arrival_s, dtype=np.float64), tokens, five, **columns)  # type: ignore[arg-type]


def file_of(folder: Path, content: str | bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def same(one: Trace, other: Trace) -> bool:
    """Bit for bit, optional columns included."""
    return (
        np.array_equal(one.arrival_s, other.arrival_s)
        and np.array_equal(one.input_tokens, other.input_tokens)
        and np.array_equal(one.output_tokens, other.output_tokens)
        and one.prompt_id == other.prompt_id
        and one.session_id == other.session_id
        and one.hash_ids == other.hash_ids
        and (one.prefix_tokens is None) == (other.prefix_tokens is None)
        and (one.prefix_tokens is None or np.array_equal(one.prefix_tokens, other.prefix_tokens))
    )


@st.composite
def traces(draw: st.DrawFn, largest: int = 30) -> Trace:
    """Any valid trace, with or without its optional columns."""
    n = draw(st.integers(1, largest))

    def several(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    arrival_s = np.sort(np.array(several(st.floats(0, 1e9, allow_subnormal=True)), dtype=np.float64))
    inputs = np.array(several(st.integers(1, 10**9)), dtype=np.int64)
    outputs = np.array(several(st.integers(1, 10**9)), dtype=np.int64)
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    return Trace(
        arrival_s,
        inputs,
        outputs,
        prompt_id=tuple(map(str, several(texts))) if draw(st.booleans()) else None,
        session_id=tuple(map(str, several(texts))) if draw(st.booleans()) else None,
        prefix_tokens=(inputs - 1) // 2 if draw(st.booleans()) else None,
    )
