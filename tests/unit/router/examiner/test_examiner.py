"""What clients write is examined outside the event loop, within a budget, and a process that hangs is replaced."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cascadia.router.examiner.examinations import NODES_MAX
from cascadia.router.examiner.examiner import PROCESSES, Examiner, Unexamined
from cascadia.router.settings.model import Limits
from cascadia.testing.routers import run, until
from cascadia_judge.scores.verifiers import Verifier

Failures = Counter[tuple[str, str]]


def examining(main: Callable[[Examiner, Failures], Coroutine[Any, Any, None]], cpu_s: float = 0.25) -> None:
    async def whole() -> None:
        failures: Failures = Counter()
        examiner = Examiner(Limits(examination_s=cpu_s), lambda what, why: failures.update([(what, why)]))
        # On a crowded machine a process may wait for its core for longer than a router does.
        examiner.wall_s = 60.0
        try:
            await asyncio.wait_for(main(examiner, failures), 120.0)
        finally:
            await examiner.stop()

    run(whole)


def schema(**members: Any) -> bytes:
    return json.dumps(members).encode()


def doubling(depth: int) -> bytes:
    """Applied as it is written, it takes 2 ** depth steps."""
    twice = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(depth)}
    return json.dumps({"$ref": "#/$defs/d0", "$defs": {**twice, f"d{depth}": {"type": "object"}}}).encode()


LOOKS_AROUND = r"^(?=(a+)+$)(a+)+$"
"""No linear engine takes it, and Python's needs 2 ** n steps."""


@pytest.mark.long(in_ci=6)
@pytest.mark.parametrize(
    ("written", "document", "meets"),
    [
        (schema(type="object", required=["a"]), '{"a": 1}', True),
        (schema(type="object", required=["a"]), "{}", False),
        (schema(properties={"a": {"pattern": "^[0-9]+$"}}), '{"a": "366"}', True),
        (schema(properties={"a": {"pattern": "^[0-9]+$"}}), '{"a": "x"}', False),
        (schema(properties={"a": {"pattern": "^(?!x)"}}), '{"a": "x"}', False),
        (schema(patternProperties={"^s_": {"type": "string"}}), '{"s_a": 1}', False),
        (schema(patternProperties={"^s_": {"type": "string"}}), '{"s_a": "1", "b": 2}', True),
        (schema(type="shoe"), "{}", None),
        (b'{"$ref": "https://example.com/schema"}', "{}", None),
        (schema(pattern="(", type="string"), '"x"', None),
        (doubling(3), "{}", True),
        (doubling(3), "[]", False),
    ],
)
def test_a_document_meets_a_schema_or_not_or_that_cannot_be_said(
    written: bytes, document: str, meets: bool | None
) -> None:
    async def main(examiner: Examiner, _: Failures) -> None:
        assert await examiner.meets(written, document) is meets

    examining(main)


def test_a_pattern_that_backtracks_for_ever_takes_no_time_where_it_can_be_linear() -> None:
    async def main(examiner: Examiner, failures: Failures) -> None:
        evil = schema(type="string", pattern="^(a+)+$")
        assert await examiner.meets(evil, json.dumps("a" * 5000 + "!")) is False
        assert await examiner.meets(evil, json.dumps("a" * 5000)) is True
        assert not failures

    examining(main)


@pytest.mark.parametrize(
    ("written", "document"),
    [
        (doubling(22), "{}"),
        (schema(type="string", pattern=LOOKS_AROUND), json.dumps("a" * 40 + "!")),
        (schema(allOf=[{"properties": {"a": {"$ref": "#"}}}] * 2), '{"a":' * 40 + "{}" + "}" * 40),
    ],
)
def test_what_takes_too_long_is_given_up_and_its_like_is_not_tried_again(
    written: bytes, document: str
) -> None:
    async def main(examiner: Examiner, failures: Failures) -> None:
        assert await examiner.meets(written, document) is None
        assert failures == {("schema", "budget"): 1}
        began = time.process_time()
        for _ in range(50):
            assert await examiner.meets(written, document) is None
        assert time.process_time() - began < 1.0
        assert await examiner.meets(schema(type="object"), "{}") is True
        assert failures == {("schema", "budget"): 51}

    examining(main)


def test_a_schema_of_too_many_parts_is_not_applied() -> None:
    async def main(examiner: Examiner, failures: Failures) -> None:
        large = schema(enum=list(range(NODES_MAX)))
        assert await examiner.meets(large, "1") is None
        assert failures == {("schema", "large"): 1}

    examining(main)


def test_the_event_loop_has_its_turns_all_the_while() -> None:
    async def main(examiner: Examiner, _: Failures) -> None:
        loop = asyncio.get_running_loop()
        worst = 0.0

        async def ticking() -> None:
            nonlocal worst
            while True:
                before = loop.time(), time.thread_time()
                await asyncio.sleep(0.001)
                worst = max(worst, time.thread_time() - before[1])

        assert await examiner.meets(schema(type="object"), "{}") is True
        ticker = asyncio.create_task(ticking())
        tasks = [examiner.meets(doubling(20 + i), "{}") for i in range(6)]
        assert set(await asyncio.gather(*tasks)) == {None}
        ticker.cancel()
        # CPU time of this thread between two turns, not of the clock: others use this machine too.
        assert worst < 0.02

    examining(main, cpu_s=0.1)


def test_a_process_that_is_killed_is_replaced_and_its_task_alone_is_lost() -> None:
    async def main(examiner: Examiner, failures: Failures) -> None:
        hopeless = asyncio.create_task(examiner.meets(doubling(30), "{}"))
        await until(lambda: len(examiner._busy) == 1)
        (process,) = examiner._busy
        os.kill(process._program.pid, signal.SIGKILL)
        assert await hopeless is None
        assert failures == {("schema", "gone"): 1}
        assert await examiner.meets(schema(type="object"), "{}") is True

    examining(main, cpu_s=30.0)


def test_one_that_stops_answering_is_given_up_after_its_time() -> None:
    async def main(examiner: Examiner, failures: Failures) -> None:
        assert await examiner.meets(schema(type="object"), "{}") is True
        (process,) = examiner._idle
        os.kill(process._program.pid, signal.SIGSTOP)
        examiner.wall_s = 0.2
        assert await examiner.meets(schema(type="object"), "[]") is None
        assert failures == {("schema", "gone"): 1}
        examiner.wall_s = 10.0
        assert await examiner.meets(schema(type="array"), "[]") is True

    examining(main)


def test_who_stops_waiting_costs_no_process() -> None:
    async def main(examiner: Examiner, _: Failures) -> None:
        assert await examiner.meets(schema(type="object"), "{}") is True
        pids = {process._program.pid for process in examiner._idle}
        for i in range(5):
            asked = asyncio.create_task(examiner.meets(doubling(20 + i), "{}"))
            await asyncio.sleep(0.01)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert await examiner.meets(schema(type="array"), "[]") is True
        assert pids <= {process._program.pid for process in (*examiner._idle, *examiner._busy)}
        assert len(examiner._idle) + len(examiner._busy) <= PROCESSES

    examining(main, cpu_s=0.05)


def test_verifiers_and_extracts_come_back_as_they_do_in_process() -> None:
    async def main(examiner: Examiner, failures: Failures) -> None:
        number = Verifier("regex", r"\d+")
        assert await examiner.passes(number, ["366", "7"]) is True
        assert await examiner.passes(number, ["366", "none"]) is False
        assert await examiner.passes(Verifier("regex", r"\d+", absent=True), ["none"]) is True
        assert await examiner.passes(Verifier("python-syntax"), ["x = 1"]) is True
        assert await examiner.passes(Verifier("json-schema", {"type": "object"}), ["[]"]) is False
        assert await examiner.said([" 42. ", "x"], None) == ["42", "x"]
        assert not failures
        assert await examiner.passes(Verifier("regex", LOOKS_AROUND), ["a" * 60 + "!"]) is False
        with pytest.raises(Unexamined, match="budget"):
            await examiner.said(["abcdefgh" * 6 + "!"], r"^(\w+)+$")
        assert failures == {("verifier", "budget"): 1, ("extract", "budget"): 1}

    examining(main)


def test_nothing_is_examined_after_the_end() -> None:
    async def main(examiner: Examiner, _: Failures) -> None:
        assert await examiner.meets(schema(type="object"), "{}") is True
        (process,) = examiner._idle
        await examiner.stop()
        assert await examiner.meets(schema(type="object"), "{}") is None
        assert process._program.poll() is not None

    examining(main)
