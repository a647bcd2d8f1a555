"""What is written is read back bit for bit, and any bytes at all give a trace or one line."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cascadia_traces.formats.reading import FORMATS, iter_trace, read_trace
from cascadia_traces.formats.writing import SUFFIXES, write_trace
from cascadia_traces.generate.samples import chat_trace
from cascadia_traces.trace import BadInput, Trace, join
from tests.examples import examples
from tests.unit.traces.samples import AZURE, BURSTGPT, MOONCAKE, file_of, same, traces

FEW = settings(max_examples=examples(60))
TOKENS = (b"nan", b"inf", b"-1", b"1e400", b"\n", b"\r", b'"', b",", b"{", b"}", b"[", b"null", b"true")
ODD = (
    b"\xff",
    b"\0",
    b"9" * 40,
    b"\xef\xbb\xbf",
    b"+25:00",
    b"\\ud800",
    b"NaN",
    b"1.5",
    b"\x1f\x8b",
    b"PAR1",
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(trace=traces())
@FEW
def test_a_written_trace_reads_back_the_same(suffix: str, trace: Trace) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"trace{suffix}")
        assert write_trace(trace, path) == len(trace)
        assert same(read_trace(path), trace)
        assert same(join(list(iter_trace(path, rows=7))), trace)


@given(trace=traces(), cut=st.integers(1, 9))
@FEW
def test_parts_and_whole_give_the_same_trace(trace: Trace, cut: int) -> None:
    with TemporaryDirectory() as folder:
        parts = [trace.rows(first, first + cut) for first in range(0, len(trace), cut)]
        for suffix in (".csv", ".jsonl", ".parquet"):
            write_trace(parts, Path(folder, f"parts{suffix}"))
            assert same(read_trace(Path(folder, f"parts{suffix}")), trace)


def _files() -> list[bytes]:
    with TemporaryDirectory() as folder:
        for suffix in SUFFIXES:
            write_trace(chat_trace().rows(0, 9), Path(folder, f"trace{suffix}"))
        written = [Path(folder, f"trace{suffix}").read_bytes() for suffix in SUFFIXES]
    return [*written, AZURE.encode(), BURSTGPT.encode(), MOONCAKE.encode()]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good file with a few bytes changed, put in, cut out or repeated."""
    content = bytearray(draw(st.sampled_from(_files())))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        other = draw(st.integers(0, len(content)))
        match draw(st.sampled_from(["put", "cut", "end", "repeat", "byte"])):
            case "put":
                content[at:at] = draw(st.sampled_from(TOKENS + ODD))
            case "cut":
                del content[at:other]
            case "end":
                del content[at:]
            case "repeat":
                content[at:at] = content[other : other + 30]
            case _:
                content[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
    return bytes(content)


def told(path: Path, kind: str | None, sort: bool) -> str:
    """What reading says of the file: nothing where it gives a trace. Anything but a BadInput passes through."""
    try:
        read_trace(path, kind, sort=sort)
    except BadInput as error:
        return str(error)
    return ""


@pytest.mark.long
@given(
    content=st.one_of(damaged(), st.binary(max_size=200), st.text(max_size=200).map(str.encode)),
    kind=st.one_of(st.none(), st.sampled_from(FORMATS)),
    sort=st.booleans(),
)
@example(content=b"a,b", kind=None, sort=False)
@example(content=b"PAR1", kind=None, sort=False)
@example(content=b"\x1f\x8b", kind=None, sort=False)
@settings(max_examples=examples(400))
def test_any_bytes_give_a_trace_or_one_line(content: bytes, kind: str | None, sort: bool) -> None:
    with TemporaryDirectory() as folder:
        assert "\n" not in told(file_of(Path(folder), content), kind, sort)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = (
    "arrival_s", "input_tokens", "output_tokens", "prompt_id", "session_id", "prefix_tokens", "timestamp",
    "input_length", "output_length", "hash_ids", "created", "usage", "response", "body", "error", "status",
    "prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens",
)  # fmt: skip
OBJECTS = st.dictionaries(
    st.sampled_from(KEYS), JSON | st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3), max_size=6
)


@given(rows=st.lists(OBJECTS, min_size=1, max_size=3), kind=st.sampled_from([None, *FORMATS]))
@settings(max_examples=examples(300))
def test_any_json_objects_give_a_trace_or_one_line(rows: list[dict[str, object]], kind: str | None) -> None:
    with TemporaryDirectory() as folder:
        content = "\n".join(json.dumps(row) for row in rows)
        assert "\n" not in told(file_of(Path(folder), content), kind, sort=False)
