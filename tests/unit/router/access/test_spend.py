"""Budgets of keys in dollars: charged by stage, held over processes and restarts, forgotten with the month."""

import asyncio
import json
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.access.keys import KeyLimits, Keyring
from cascadia.router.access.keys_file import add_key, read_keys
from cascadia.router.access.redis_store import RedisStore
from cascadia.router.access.setup import check_budgets
from cascadia.router.access.spend import Book, PartlyRead, Spending, month_of
from cascadia.router.access.spend_books import FileBook, RedisBook, added, read_sums
from cascadia.router.settings.groups import GroupSection
from cascadia.router.settings.model import AdminSettings, KeySettings, RouterSettings
from cascadia.router.telemetry.outages import Outage
from cascadia.testing.engines import FakeEngine, begin_stream, delta, event, started
from cascadia.testing.one_pass import classifier
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until
from tests.unit.router.access.test_keys import NOW, made
from tests.unit.router.redis_servers import fake_redis, nobody
from tests.unit.router.replicas.test_batcher import greedy
from tests.unit.router.replicas.test_batcher import settings as batched

QUIET = Outage("spend", lambda _: None)
NOVEMBER = 1_795_300_000.0
"""Unix time in November 2026."""
DECEMBER = month_of(NOVEMBER)[1]


def priced(*engines: FakeEngine, keys: KeySettings, thresholds: tuple[float, ...] = ()) -> RouterSettings:
    """Stages of $1,000 a million tokens read and $2,000 a million written: a tenth of a cent and two."""
    of = tuple(replace(stage, price=(1000.0, 2000.0)) for stage in stages(*engines, thresholds=thresholds))
    return RouterSettings(of, None, health=QUICK, keys=keys)


def test_a_month_is_a_calendar_month_of_utc() -> None:
    assert month_of(NOVEMBER)[0] == "2026-11"
    assert month_of(DECEMBER - 0.001)[0] == "2026-11"
    assert month_of(DECEMBER) == ("2026-12", month_of(DECEMBER + 1.0)[1])
    assert month_of(month_of(DECEMBER)[1])[0] == "2027-01"


def test_what_was_spent_is_forgotten_with_the_month() -> None:
    now = [NOVEMBER]
    spending = Spending(wall=lambda: now[0])
    spending.charge("a", "small", 1.5)
    spending.charge("a", "large", 2.0)
    assert spending.of("a") == {"small": 1.5, "large": 2.0}
    assert spending.total_usd("b") == 0.0
    now[0] = DECEMBER
    assert spending.month == "2026-12"
    assert spending.total_usd("a") == 0.0


async def shared(one: Book, other: Book, month: str = "2026-11") -> None:
    """Two processes: each learns what the other has charged, however often it is told."""
    assert await one.exchange(month, {"k": {"small": 1.0}}) == {}
    assert await one.exchange(month, {"k": {"small": 1.25}}) == {}
    for _ in range(2):
        assert await other.exchange(month, {"k": {"large": 4.0}}) == {"k": {"small": 1.25}}
    assert await one.exchange(month, {"k": {"small": 1.5}}) == {"k": {"large": 4.0}}


def test_processes_share_files_and_the_next_goes_on_with_them(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = FileBook(tmp_path / "spend"), FileBook(tmp_path / "spend")
        await shared(one, other)
        await one.close()
        again = FileBook(tmp_path / "spend")
        assert await again.exchange("2026-11", {}) == {"k": {"small": 1.5, "large": 4.0}}
        assert await again.exchange("2026-11", {"k": {"small": 0.5}}) == {"k": {"small": 1.5, "large": 4.0}}
        await again.close()
        assert await other.exchange("2026-11", {"k": {"large": 4.0}}) == {"k": {"small": 2.0}}
        assert await other.exchange("2026-12", {}) == {}
        await other.close()

    asyncio.run(main())


def test_routers_share_a_redis_and_what_is_gone_stays() -> None:
    async def main(url: str) -> None:
        one, other = (RedisBook(RedisStore(url, 10.0), QUIET) for _ in range(2))
        await shared(one, other)
        await one.close()
        assert await other.exchange("2026-11", {"k": {"large": 4.0}}) == {"k": {"small": 1.5}}
        assert await other.exchange("2026-12", {}) == {}
        await other.close()

    with fake_redis() as url:
        asyncio.run(main(url))


def test_a_book_that_cannot_be_had_is_counted_and_what_is_known_holds(tmp_path: Path) -> None:
    async def main(book: Book) -> list[str]:
        failures: list[str] = []
        spending = Spending(failures.append, wall=lambda: NOVEMBER)
        spending.charge("k", "small", 3.0)
        await spending.start(book)
        await spending.stop()
        assert spending.total_usd("k") == 3.0
        return failures

    with nobody() as url:
        assert set(asyncio.run(main(RedisBook(RedisStore(url, 10.0), QUIET)))) == {"connection"}
    (tmp_path / "file").write_text("in the way")
    assert set(asyncio.run(main(FileBook(tmp_path / "file" / "spend")))) == {"file"}


def test_a_file_that_is_no_book_is_not_taken_for_nothing_spent(tmp_path: Path) -> None:
    (tmp_path / "spend-0.json").write_text("{}")
    with pytest.raises(OSError, match="is no book of spend"):
        read_sums(tmp_path / "spend-0.json", "2026-11")


@pytest.mark.parametrize(
    "usd", ['{"k": {"small": NaN}}', '{"k": {"small": -5}}', '{"k": {"small": Infinity}}', '{"k": 3}', '{"k"']
)
def test_a_book_that_cannot_be_read_is_put_aside_and_never_written_over(tmp_path: Path, usd: str) -> None:
    async def main() -> list[str]:
        failures: list[str] = []
        spending = Spending(failures.append, wall=lambda: NOVEMBER)
        await spending.start(FileBook(tmp_path))
        spending.charge("k", "small", 3.0)
        await spending.stop()
        assert spending.total_usd("k") == 3.0
        return failures

    torn = f'{{"month": "2026-11", "usd": {usd}}}'
    (tmp_path / "spend-0.json").write_text(torn)
    assert asyncio.run(main()) == ["file"]
    assert (tmp_path / "spend-0.json.unreadable").read_text() == torn
    assert read_sums(tmp_path / "spend-0.json", "2026-11") == {"k": {"small": 3.0}}


@pytest.mark.parametrize("month", [None, 202611, "2026-11-28", ["2026-11"]])
def test_a_book_of_months_in_another_form_is_put_aside_beside_the_one_before(
    tmp_path: Path, month: object
) -> None:
    torn = json.dumps({"month": month, "usd": {"k": {"small": 40.0}}})
    (tmp_path / "spend-0.json").write_text(torn)
    (tmp_path / "spend-0.json.unreadable").write_text("another")

    async def main() -> None:
        book = FileBook(tmp_path)
        with pytest.raises(PartlyRead):
            await book.exchange("2026-11", {"k": {"small": 3.0}})
        await book.close()

    asyncio.run(main())
    assert (tmp_path / "spend-0.json.unreadable").read_text() == "another"
    assert (tmp_path / "spend-0.json.unreadable-2").read_text() == torn
    assert read_sums(tmp_path / "spend-0.json", "2026-11") == {"k": {"small": 3.0}}


def test_a_book_that_cannot_be_opened_now_is_not_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_descriptors(path: Path) -> str:
        raise OSError(24, "Too many open files")

    async def main() -> None:
        book = FileBook(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_text", out_of_descriptors)
            with pytest.raises(OSError, match="Too many"):
                await book.exchange("2026-11", {"k": {"small": 1.0}})
        assert await book.exchange("2026-11", {"k": {"small": 1.0}}) == {"k": {"small": 40.0}}
        await book.close()

    (tmp_path / "spend-0.json").write_text('{"month": "2026-11", "usd": {"k": {"small": 40.0}}}')
    asyncio.run(main())
    assert read_sums(tmp_path / "spend-0.json", "2026-11") == {"k": {"small": 41.0}}


def test_one_broken_book_hides_no_other(tmp_path: Path) -> None:
    async def main() -> list[str]:
        failures: list[str] = []
        spending = Spending(failures.append, wall=lambda: NOVEMBER)
        await spending.start(FileBook(tmp_path))
        assert spending.total_usd("k") == 7.0
        await spending.stop()
        return failures

    (tmp_path / "spend-1.json").write_text("half of")
    (tmp_path / "spend-2.json").write_text('{"month": "2026-11", "usd": {"k": {"small": 7.0}}}')
    assert set(asyncio.run(main())) == {"file"}


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process takes a byte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_new_files(folder: Path) -> Iterator[None]:
    """`folder` as on a disk that may only be read, to root too: the name of each lock is that of a folder."""
    places = [folder / f"spend-{number}.lock" for number in range(2)]
    for place in places:
        place.mkdir()
    try:
        yield
    finally:
        for place in places:
            place.rmdir()


@pytest.mark.parametrize("broken", ["full", "read-only"])
def test_a_budget_that_is_spent_stays_so_where_its_books_can_only_be_read(
    tmp_path: Path, broken: str
) -> None:
    async def main() -> list[str]:
        failures: list[str] = []
        spending = Spending(failures.append, wall=lambda: NOVEMBER)
        with full_disk() if broken == "full" else no_new_files(tmp_path):
            await spending.start(FileBook(tmp_path))
            assert spending.total_usd("k") == 47.0
            spending.charge("k", "small", 1.0)
            await spending.exchange()
            assert spending.total_usd("k") == 48.0
        # Once it can be written it is, though nothing more is charged; and nothing counts twice.
        await spending.exchange()
        assert spending.total_usd("k") == 48.0
        await spending.stop()
        return failures

    for number, usd in enumerate((40.0, 7.0)):
        book = {"month": "2026-11", "usd": {"k": {"small": usd}}}
        (tmp_path / f"spend-{number}.json").write_text(json.dumps(book))
    assert asyncio.run(main()) == ["file", "file"]
    assert read_sums(tmp_path / "spend-0.json", "2026-11") == {"k": {"small": 41.0}}
    assert read_sums(tmp_path / "spend-1.json", "2026-11") == {"k": {"small": 7.0}}


@pytest.mark.parametrize("broken", ["full", "another's"])
def test_what_a_full_disk_did_not_take_is_to_be_told_again_and_another_books_fault_is_none_of_ours(
    tmp_path: Path, broken: str
) -> None:
    async def main() -> PartlyRead:
        with full_disk() if broken == "full" else nullcontext(), pytest.raises(PartlyRead) as raised:
            await FileBook(tmp_path).exchange("2026-11", {"k": {"small": 1.0}})
        return raised.value

    (tmp_path / "spend-1.json").write_text('{"month": "2026-11", "usd": {"k": {"small": 7.0}}}')
    if broken != "full":
        (tmp_path / "spend-2.json").write_text("half of")
    failed = asyncio.run(main())
    assert (failed.written, failed.others) == (broken != "full", {"k": {"small": 7.0}})


def test_months_that_a_wrong_clock_told_do_not_take_the_place_of_this_one(tmp_path: Path) -> None:
    async def main() -> None:
        book = FileBook(tmp_path)
        for month in ("2099-01", "2099-02", "2099-03", "2099-04", "2026-11"):
            await book.exchange(month, {"k": {"small": 5.0}})
        await book.close()

    asyncio.run(main())
    assert read_sums(tmp_path / "spend-0.json", "2026-11") == {"k": {"small": 5.0}}


def test_a_book_keeps_two_months_before_the_latest(tmp_path: Path) -> None:
    async def main() -> None:
        book = FileBook(tmp_path)
        for month in ("2026-07", "2026-08", "2026-09", "2026-10", "2026-11"):
            await book.exchange(month, {"k": {"small": 5.0}})
        await book.close()

    asyncio.run(main())
    kept = json.loads((tmp_path / "spend-0.json").read_text())
    assert (kept["month"], set(kept["earlier"])) == ("2026-11", {"2026-09", "2026-10"})


def test_a_book_that_fails_as_nobody_thought_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        asked = 0

        async def exchange(self, month: str, mine: Any) -> dict[str, dict[str, float]]:
            self.asked += 1
            if self.asked == 2:
                raise ZeroDivisionError("as nobody thought")
            return {"k": {"small": 5.0}} if self.asked > 2 else {}

        async def close(self) -> None: ...

    async def main() -> None:
        spending = Spending(wall=lambda: NOVEMBER)
        await spending.start(Odd())
        await until(lambda: spending.total_usd("k") == 5.0)
        await spending.stop()

    monkeypatch.setattr("cascadia.router.access.spend.EVERY_S", 0.01)
    monkeypatch.setattr("cascadia.router.access.spend.QUIET_S", 0.0)
    asyncio.run(main())


def test_a_clock_that_jumps_into_another_month_and_back_forgives_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        now = [NOVEMBER]
        spending = Spending(wall=lambda: now[0])
        await spending.start(FileBook(tmp_path))
        for at_s, spent in ((NOVEMBER, 2.0), (DECEMBER, 1.0), (NOVEMBER - 9e6, 1.0), (NOVEMBER, 3.0)):
            now[0] = at_s
            spending.charge("k", "small", 1.0 if at_s != NOVEMBER else spent - spending.total_usd("k"))
            assert spending.total_usd("k") == spent
            await spending.exchange()
        await spending.stop()
        again = Spending(wall=lambda: NOVEMBER)
        await again.start(FileBook(tmp_path))
        assert again.total_usd("k") == 3.0
        await again.stop()

    asyncio.run(main())


def test_a_telling_that_was_given_up_never_comes_after_a_later_one(tmp_path: Path) -> None:
    async def main() -> None:
        book = FileBook(tmp_path)
        await book.exchange("2026-11", {})
        for usd in range(20):
            early = asyncio.create_task(book.exchange("2026-11", {"k": {"small": 0.5 + usd}}))
            await asyncio.sleep(0)
            early.cancel()
            await asyncio.gather(early, return_exceptions=True)
            await book.exchange("2026-11", {"k": {"small": 1.0 + usd}})
            assert read_sums(tmp_path / "spend-0.json", "2026-11") == {"k": {"small": 1.0 + usd}}
        await book.close()

    asyncio.run(main())


async def endless(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Writes until its client goes; a whole answer never comes."""
    if body.get("stream"):
        begin_stream(writer)
        while not engine.left.is_set():
            event(writer, delta("word "))
            await writer.drain()
            await asyncio.sleep(0.001)
    await engine.left.wait()


@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize(("streams", "dollars"), [(True, 0.1 + 0.2), (False, 0.1)])
def test_a_client_that_cuts_before_the_usage_comes_pays_for_what_was_read_and_written(
    tmp_path: Path, model: str, streams: bool, dollars: float
) -> None:
    """Prompts of 100 tokens and more at $0.001, and the 100 tokens that came at $0.002 each."""

    async def main() -> None:
        key, header = made(limits=KeyLimits(usd_per_month=dollars))
        engine = FakeEngine(answer=endless)
        keys = KeySettings(tmp_path / "keys.json")
        async with started(engine), running(priced(engine, keys=keys), keyring=Keyring([key])) as up:
            body = {"model": model, "stream": streams, "messages": [{"role": "user", "content": "x" * 400}]}
            request = up.client.build_request("POST", "/v1/chat/completions", json=body, headers=header)
            asking = asyncio.create_task(up.client.send(request, stream=True))
            await until(engine.arrived.is_set)
            if streams:
                answer, seen = await asking, 0
                async for line in answer.aiter_lines():
                    seen += line.startswith("data:")
                    if seen == 100:
                        break
                await answer.aclose()
            asking.cancel()
            await until(lambda: up.router.metrics.running == 0)
            assert up.router.access is not None
            assert up.router.access.spending.total_usd(key.id) >= dollars
            assert (await up.chat(model=model, headers=header)).status_code == 429

    run(main)


def test_a_list_that_two_models_answer_is_charged_at_both_prices(tmp_path: Path) -> None:
    """5 tokens an input: 32 go to `quick` at $0.001 a token, the last one alone to `good` at $0.003."""

    async def main() -> None:
        key, header = made(limits=KeyLimits(usd_per_month=100.0))
        engine = classifier(lambda _: [0.6, 0.4])
        async with started(engine):
            found = batched([engine], greedy(), GroupSection(name="intent"))
            prices = {"quick": (1000.0, 0.0), "good": (3000.0, 0.0)}
            found = replace(
                found,
                stages=tuple(replace(stage, price=prices[stage.name]) for stage in found.stages),
                keys=KeySettings(tmp_path / "keys.json"),
            )
            async with running(found, keyring=Keyring([key])) as up:
                body = {"model": "intent", "input": ["x"] * 33}
                assert (await up.client.post("/v1/classify", json=body, headers=header)).status_code == 200
                await until(lambda: up.router.metrics.running == 0)
                assert up.router.access is not None
                spent = up.router.access.spending.of(key.id)
        assert spent == pytest.approx({"quick": 32 * 0.005, "good": 0.015})

    run(main)


def test_sums_are_added_without_changing_either() -> None:
    one = {"a": {"small": 1.0}}
    assert added(one, {"a": {"small": 2.0}, "b": {"large": 3.0}}) == {
        "a": {"small": 3.0},
        "b": {"large": 3.0},
    }
    assert one == {"a": {"small": 1.0}}


def test_a_budget_refuses_as_openai_does_and_outlives_the_router(tmp_path: Path) -> None:
    """10 tokens read and 3 written at each of two stages: 2 × ($0.010 + $0.006) a request."""

    async def main() -> None:
        key, header = made(limits=KeyLimits(usd_per_month=0.05))
        operator, its_header = made("operator", scopes=("admin", "metrics"))
        keys = KeySettings(tmp_path / "keys.json")
        small, large = FakeEngine("poor"), FakeEngine("good")
        async with started(small, large):
            settings = replace(priced(small, large, keys=keys, thresholds=(50.0,)), admin=AdminSettings())
            gate, ring = ScriptedGate({"poor": 10.0}), Keyring([key, operator])
            async with running(settings, gate, keyring=ring) as up:
                assert [(await up.chat(headers=header)).status_code for _ in range(3)] == [
                    200,
                    200,
                    429,
                ]
                told = (await up.client.get("/admin/spend", headers=its_header)).json()["keys"][0]
                assert told["usd"] == pytest.approx(0.064)
                assert told["usd_by_stage"] == pytest.approx({"small": 0.032, "large": 0.032})
                figures = (await up.client.get("/metrics", headers=its_header)).text
                assert 'cascadia_key_usd_total{key="team-a",stage="large"} 0.032' in figures
                assert 'cascadia_key_refused_total{key="team-a",reason="budget"} 1.0' in figures
            async with running(settings, gate, keyring=ring) as up:
                asked = len(small.requests)
                answered = await up.chat(headers=header)
                assert answered.status_code == 429
                assert len(small.requests) == asked
        document = answered.json()["error"]
        assert (document["type"], document["code"]) == ("insufficient_quota", "insufficient_quota")
        assert "has spent its budget of $0.05" in document["message"]
        assert answered.headers["x-should-retry"] == "false"

    run(main)


def test_routers_with_a_redis_hold_a_budget_together() -> None:
    async def main(url: str) -> None:
        key, header = made(limits=KeyLimits(usd_per_month=0.01))
        keys = KeySettings(Path("keys.json"), redis_url=url, redis_timeout_s=10.0)
        small = FakeEngine("fine")
        async with started(small), AsyncExitStack() as stack:
            one, other = [
                await stack.enter_async_context(running(priced(small, keys=keys), keyring=Keyring([key])))
                for _ in range(2)
            ]
            assert (await one.chat(headers=header)).status_code == 200
            assert other.router.access is not None
            spending = other.router.access.spending
            await until(lambda: spending.total_usd(key.id) > 0.0)
            assert (await other.chat(headers=header)).status_code == 429

    with fake_redis() as url:
        run(lambda: main(url))


def test_the_sdk_does_not_ask_again(tmp_path: Path) -> None:
    async def main() -> None:
        key, header = made(limits=KeyLimits(usd_per_month=0.001))
        small = FakeEngine("fine")
        async with (
            started(small),
            running(priced(small, keys=KeySettings(tmp_path / "keys.json")), keyring=Keyring([key])) as up,
        ):
            text = header["authorization"].removeprefix("Bearer ")
            client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{up.port}/v1", api_key=text)
            async with client:
                message: Any = [{"role": "user", "content": "How many?"}]
                await client.chat.completions.create(model="small", messages=message)
                with pytest.raises(openai.RateLimitError) as refused:
                    await client.chat.completions.create(model="small", messages=message)
            assert refused.value.code == "insufficient_quota"
            assert up.router.access is not None
            assert up.router.access.metrics._refused.labels("team-a", "budget").value == 1.0

    run(main)


def test_a_budget_at_stages_without_a_price_is_refused_at_the_start() -> None:
    ring = Keyring([made(limits=KeyLimits(usd_per_month=5.0))[0]])
    engine = FakeEngine("fine")
    bare = RouterSettings(stages(engine), None)
    with pytest.raises(BadInput, match="the key 'team-a' has a budget, and a token of small no price"):
        check_budgets(bare, ring)
    check_budgets(priced(engine, keys=KeySettings(Path("keys.json"))), ring)
    check_budgets(bare, Keyring([made()[0]]))


def test_the_file_keeps_a_budget(tmp_path: Path) -> None:
    key, _ = made(limits=KeyLimits(usd_per_month=12.5))
    add_key(tmp_path / "keys.json", key, NOW)
    assert list(read_keys(tmp_path / "keys.json")) == [key]
