"""The workload log: what a row says, that files are whole and bounded, and that their readers take them."""

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from cascadia.cli.samples import samples
from cascadia.domain.errors import BadInput
from cascadia.planner.problem.quality_file import read_quality
from cascadia.planner.problem.samples_folder import read_samples
from cascadia.router.observers.samples_rows import ARRIVALS, QUALITY, REQUESTS
from cascadia.router.observers.samples_writer import MOST_WAITING, Writer
from cascadia.router.openai.bounded import LONG_BYTES
from cascadia.router.settings.model import JudgeSettings, RouterSettings, SampleSettings, ShadowSettings
from cascadia.testing.engines import FakeEngine, completion, send, started, stream
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until
from cascadia_traces.formats.reading import read_trace

SCORED = JudgeSettings("certainty")


def sampled(folder: Path, *engines: FakeEngine, shadow: float = 0.0, **more: Any) -> RouterSettings:
    return RouterSettings(
        stages(*engines, thresholds=(50.0,)),
        SCORED,
        health=QUICK,
        samples=SampleSettings(folder, **more),
        shadow=ShadowSettings(shadow),
    )


def rows(folder: Path, kind: str = REQUESTS) -> list[dict[str, Any]]:
    files = sorted(folder.glob(f"{kind}-*.parquet"))
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


def everything(folder: Path) -> str:
    """All that is in the files, as text."""
    return json.dumps(rows(folder)) + json.dumps(rows(folder, QUALITY))


def test_a_request_to_the_cascade_is_a_row_that_tells_every_stage_and_no_word(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak secret"), FakeEngine("strong secret")
        async with started(small, large):
            gate = ScriptedGate({"weak secret": 20.0})
            async with running(sampled(tmp_path, small, large), gate) as router:
                await router.chat(headers={"x-request-id": "my-id"})
                await router.chat("large", stream=True, stream_options={"include_usage": True})
                await router.chat("nobody")
        first, second = rows(tmp_path)
        assert (first["model"], first["stage"], first["attempts"], first["status"]) == (
            *("cascadia", "large", 2, 200),
        )
        assert [(step["stage"], step["outcome"], step["score"]) for step in first["steps"]] == [
            ("small", "score", 20.0),
            ("large", "accepted", None),
        ]
        assert (first["input_tokens"], first["output_tokens"], first["counted"]) == (10, 3, True)
        assert 0 <= first["ttft_s"] <= first["e2e_s"]
        assert (second["model"], second["stage"], second["counted"]) == ("large", "large", True)
        assert first["session_id"] == second["session_id"]
        assert first["request"] != second["request"]
        assert "secret" not in everything(tmp_path)
        assert "2+2" not in everything(tmp_path)
        assert "my-id" not in everything(tmp_path)

    run(main)


def test_the_files_are_a_trace_as_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("fine"), FakeEngine("better")
        gate = ScriptedGate({"fine": 90.0})
        async with started(small, large), running(sampled(tmp_path, small, large), gate) as router:
            await asyncio.gather(*[router.chat() for _ in range(20)])
        (file,) = tmp_path.glob("requests-*.parquet")
        trace = read_trace(file)
        assert len(trace) == 20
        assert set(trace.input_tokens) == {10}
        assert trace.prompt_id is None
        assert trace.session_id is not None

    run(main)


def test_who_was_turned_away_is_part_of_the_workload_with_lengths_that_are_estimates(tmp_path: Path) -> None:
    async def broken(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("max_tokens") == 1:
            send(writer, 500, b"{}")
        else:
            send(writer, 200, completion("hello"))

    async def main() -> None:
        small = FakeEngine(answer=broken)
        async with started(small), running(sampled(tmp_path, small)) as router:
            for _ in range(3):
                await router.chat()
            await router.chat(max_tokens=1)
        *_, last = rows(tmp_path)
        assert (last["status"], last["error"], last["counted"]) == (502, "stage_failed", False)
        assert last["input_tokens"] > 10
        assert last["output_tokens"] >= 1
        (file,) = tmp_path.glob("requests-*.parquet")
        assert len(read_trace(file)) == 4

    run(main)


def test_that_a_request_came_is_a_row_whatever_becomes_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        small = FakeEngine(answer=lambda engine, body, writer: refuse(writer))
        async with started(small), running(sampled(tmp_path, small)) as router:
            await router.chat()
            await router.chat("nobody")
        (came,) = rows(tmp_path, ARRIVALS)
        (done,) = rows(tmp_path)
        assert done["status"] == 502
        assert came["arrival_s"] == pytest.approx(done["arrival_s"], abs=0.5)

    async def refuse(writer: asyncio.StreamWriter) -> None:
        send(writer, 500, b"{}")

    run(main)


@pytest.mark.parametrize(
    ("asked", "fails"),
    [
        ({"model": "cascadia"}, False),
        ({"model": "small"}, False),
        ({"model": "small"}, True),
        ({"model": "small", "stream": True}, False),
    ],
)
def test_whichever_way_a_request_is_served_it_came_once(
    asked: dict[str, Any], fails: bool, tmp_path: Path
) -> None:
    """A whole answer of one stage is served without a task, unless its first try fails."""

    async def whole(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if fails and len(engine.requests) % 2:
            send(writer, 500, b"{}")
        elif body.get("stream"):
            stream(writer, "fine", body)
        else:
            send(writer, 200, completion("fine"))

    async def main() -> None:
        small, large = FakeEngine(answer=whole), FakeEngine("4")
        gate = ScriptedGate({"fine": 90.0})
        async with started(small, large), running(sampled(tmp_path, small, large), gate) as router:
            for _ in range(3):
                await router.chat(**asked)
        assert len(rows(tmp_path, ARRIVALS)) == len(rows(tmp_path)) == 3

    run(main)


def test_text_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        small = FakeEngine("hello")
        async with started(small), running(sampled(tmp_path, small, text=True)) as router:
            await router.chat("small")
        assert rows(tmp_path)[0]["question"] == "What is 2+2?"

    run(main)


def test_a_long_requests_text_is_written_whole(tmp_path: Path) -> None:
    long = [{"role": "user", "content": "é" * LONG_BYTES}]

    async def main() -> None:
        engine = FakeEngine("fine")
        async with started(engine), running(sampled(tmp_path, engine, text=True)) as router:
            await router.chat("small", messages=long)
        (row,) = rows(tmp_path)
        assert row["question"] == long[0]["content"]

    run(main)


def test_none_is_written_at_a_ratio_of_zero(tmp_path: Path) -> None:
    async def main() -> None:
        small = FakeEngine("hello")
        async with started(small), running(sampled(tmp_path, small, ratio=0.0)) as router:
            await router.chat("small")
        assert rows(tmp_path) == []

    run(main)


def test_hashes_are_the_same_for_two_routers_of_a_folder_and_others_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        small = FakeEngine("hello")
        async with started(small):
            for name in ("one", "one", "other"):
                async with running(sampled(tmp_path / name, small)) as router:
                    await router.chat("small")
        first, second = rows(tmp_path / "one")
        (other,) = rows(tmp_path / "other")
        assert first["prompt"] == second["prompt"] != other["prompt"]
        assert (tmp_path / "one/.hash-key").stat().st_mode & 0o077 == 0

    run(main)


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(BadInput, match=r"samples\.folder"):
        sampled_router(tmp_path / "taken/here")


def sampled_router(folder: Path) -> None:
    from cascadia.router.server.app import Router

    Router(RouterSettings(stages(FakeEngine()), None, samples=SampleSettings(folder)))


class Told:
    """Counts, and says when something came."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int]] = []
        self.lost: list[tuple[str, int]] = []
        self.came = threading.Event()

    def write(self, kind: str, count: int) -> None:
        self.written.append((kind, count))
        self.came.set()

    def lose(self, reason: str, count: int) -> None:
        self.lost.append((reason, count))
        self.came.set()


def quality_row(number: int) -> dict[str, Any]:
    return {
        "prompt_id": f"p{number}",
        "stage": "small",
        "score": 50.0,
        "input_tokens": 10,
        "output_tokens": 5,
        "at_s": float(-number),
        "seconds": 0.1,
        "gear": None,
    }


def test_a_file_is_ended_by_its_rows_and_sorted(tmp_path: Path) -> None:
    told = Told()
    writer = Writer(QUALITY, SampleSettings(tmp_path, rows=4), told.write, told.lose)
    writer.take([quality_row(number) for number in range(4)])
    assert told.came.wait(60)
    assert told.written == [(QUALITY, 4)]
    assert [row["prompt_id"] for row in rows(tmp_path, QUALITY)] == ["p3", "p2", "p1", "p0"]
    asyncio.run(writer.stop())


def test_a_file_is_ended_by_its_age(tmp_path: Path) -> None:
    told = Told()
    writer = Writer(QUALITY, SampleSettings(tmp_path, seconds=0.05), told.write, told.lose)
    writer.take([quality_row(1)])
    assert told.came.wait(60)
    assert told.written == [(QUALITY, 1)]
    asyncio.run(writer.stop())


def test_the_oldest_files_make_room_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_bytes(b"x" * 10_000)
    told = Told()
    settings = SampleSettings(tmp_path, rows=1, max_bytes=5_000)

    async def main() -> None:
        for number in range(12):
            writer = Writer(QUALITY, settings, told.write, told.lose)
            writer.take([quality_row(number)])
            await writer.stop()

    asyncio.run(main())
    kept = list(tmp_path.glob("quality-*.parquet"))
    assert 1 <= len(kept) < 12
    assert sum(file.stat().st_size for file in kept) <= 5_000
    assert any(row["prompt_id"] == "p11" for row in rows(tmp_path, QUALITY))
    assert (tmp_path / "mine.parquet").exists()


def test_a_disk_that_takes_nothing_loses_rows_that_are_counted(tmp_path: Path) -> None:
    told = Told()
    gone = tmp_path / "gone"
    writer = Writer(QUALITY, SampleSettings(gone, rows=1), told.write, told.lose)
    writer.take([quality_row(1)])
    assert told.came.wait(60)
    assert told.lost == [("disk", 1)]
    asyncio.run(writer.stop())


def test_a_writer_that_is_behind_loses_rows_and_nobody_waits(tmp_path: Path) -> None:
    told = Told()
    writer = Writer(QUALITY, SampleSettings(tmp_path), told.write, told.lose)
    # As if its thread hung on the disk.
    writer._thread = threading.Thread()
    for number in range(MOST_WAITING + 2):
        writer.take([quality_row(number)])
    assert told.lost == [("queue", 1), ("queue", 1)]


def test_a_folder_becomes_the_inputs_of_a_plan(tmp_path: Path) -> None:
    """Two routers wrote there; their files overlap, and one question was looked at under older stages."""

    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        gate = ScriptedGate({"weak": 70.0, "strong": 95.0})
        async with started(small, large):
            settings = sampled(tmp_path / "log", small, large, shadow=1.0)
            async with running(settings, gate) as one, running(settings, gate) as other:
                for router in (one, other, one):
                    looks = router.router.metrics.shadows.labels("done")
                    before = looks.value
                    await router.chat()
                    await until(lambda looks=looks, before=before: looks.value > before)
                old = {
                    "prompt_id": "old",
                    "stage": "gone",
                    "score": 1.0,
                    "at_s": 0.0,
                    "seconds": 0.1,
                    "gear": None,
                }
                assert one.router.observers.samples is not None
                one.router.observers.samples.quality([old | {"input_tokens": 1, "output_tokens": 1}])

    run(main)
    out = tmp_path / "out"
    done = CliRunner().invoke(samples, [str(tmp_path / "log"), "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["requests"], said["questions"], said["stages"]) == (3, 3, ["small", "large"])
    assert said["left_out"] == 1
    assert len(read_trace(out / "trace.parquet")) == 3
    assert read_quality(out / "quality.parquet", ("small", "large")).score.shape == (2, 3)


def test_a_folder_without_a_log_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"holds no requests-\*\.parquet"):
        read_samples(tmp_path)
    (tmp_path / "requests-1.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BadInput, match="Parquet"):
        read_samples(tmp_path)


def test_settings_refuse_a_shadow_that_could_not_write_or_score(tmp_path: Path) -> None:
    from cascadia.router.settings.file import check_settings

    settings = sampled(tmp_path, FakeEngine(), shadow=0.1)
    check_settings(settings, "here")
    with pytest.raises(BadInput, match="nowhere to write"):
        check_settings(replace(settings, samples=None), "here")
    with pytest.raises(BadInput, match="has no judge"):
        check_settings(replace(settings, judge=None), "here")
