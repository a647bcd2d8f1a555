"""Who may come in: keys, their scopes and models, the file that holds them, and the commands that write it."""

import asyncio
import json
import stat
from base64 import b64encode
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from prometheus_client import generate_latest

from cascadia.cli.spend.keys import keys as keys_command
from cascadia.domain.errors import BadInput
from cascadia.router.access.access import Access
from cascadia.router.access.key_metrics import KeyMetrics
from cascadia.router.access.keys import KEY_CHARS, Key, KeyLimits, Keyring, Scope, make_key
from cascadia.router.access.keys_file import add_key, read_keys, revoke_key
from cascadia.router.openai.errors import ApiError
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages

NO_LIMITS = KeyLimits()
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def made(
    name: str = "team-a",
    scopes: tuple[Scope, ...] = ("inference",),
    models: tuple[str, ...] | None = None,
    limits: KeyLimits = NO_LIMITS,
    expires_s: float | None = None,
) -> tuple[Key, dict[str, str]]:
    """A key, and the header that its owner sends."""
    new = make_key()
    allowed = None if models is None else frozenset(models)
    key = Key(
        new.id, name, new.digest, scopes=frozenset(scopes), models=allowed, limits=limits, expires_s=expires_s
    )
    return key, {"authorization": f"Bearer {new.text}"}


def guarded(*engines: FakeEngine, open_: tuple[str, ...] = ()) -> RouterSettings:
    return RouterSettings(stages(*engines), None, health=QUICK, keys=KeySettings(Path("keys.json"), open_))


def test_a_key_is_found_by_its_text_and_by_nothing_near_it() -> None:
    new = make_key()
    keyring = Keyring([Key(new.id, "a", new.digest)])
    text = new.text.encode()
    assert len(text) == KEY_CHARS
    assert keyring.find(text) is not None
    for i in range(len(text)):
        other = b"A" if text[i : i + 1] != b"A" else b"B"
        assert keyring.find(text[:i] + other + text[i + 1 :]) is None
    for near in (b"", text[:-1], text + b"A", text.upper(), new.id.encode(), new.digest):
        assert keyring.find(near) is None


def test_a_key_ends_when_it_expires() -> None:
    key, header = made(expires_s=100.0)
    now_s = 99.9
    access = Access(Keyring([key]), KeyMetrics(Metrics()), wall=lambda: now_s)
    assert access.caller(header["authorization"].encode(), "inference").key == key
    now_s = 100.0
    with pytest.raises(ApiError) as raised:
        access.caller(header["authorization"].encode(), "inference")
    assert raised.value.status == 401


def test_a_password_that_is_no_base64_is_no_key() -> None:
    key, header = made()
    access = Access(Keyring([key]), KeyMetrics(Metrics()))
    text = b64encode(b"anybody:" + header["authorization"].removeprefix("Bearer ").encode())
    assert access.reader(b"Basic " + text, "inference").key == key
    with pytest.raises(ApiError) as raised:
        access.reader(b"Basic " + text[:9] + b"!" + text[9:], "inference")
    assert raised.value.status == 401


def test_who_revokes_a_key_that_is_none_is_told_which_there_are(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key, _ = made("only")
    add_key(path, key, NOW)
    with pytest.raises(BadInput, match=r"'other' is no key .*; it has only"):
        revoke_key(path, "other")
    assert revoke_key(path, "only").id == key.id
    with pytest.raises(BadInput, match="it has none"):
        revoke_key(path, "only")


def test_no_text_of_a_key_is_in_what_is_kept_of_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    new = make_key()
    add_key(file, Key(new.id, "a", new.digest), NOW)
    secret = new.text[-43:]
    assert secret not in file.read_text()
    assert secret not in repr(read_keys(file).find(new.text.encode()))
    assert secret not in repr(new)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_gives_back_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    limits = KeyLimits(600, 100_000, 8)
    whole, _ = made("a", ("admin", "metrics"), ("small",), limits, 1_800_000_000.0)
    all_of_it = replace(whole, priority=-3)
    little, _ = made("b")
    add_key(file, all_of_it, NOW)
    add_key(file, little, NOW)
    assert list(read_keys(file)) == [all_of_it, little]
    assert revoke_key(file, "a") == all_of_it
    assert revoke_key(file, little.id) == little
    assert len(read_keys(file)) == 0


def test_a_file_that_cannot_be_trusted_or_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key, _ = made("a")
    add_key(file, key, NOW)
    good = file.read_text()
    for old, new, said in (
        ('"version": 1', '"version": 2', "version"),
        (key.id, "nothex", "keys[0].id"),
        ('"inference"', '"everything"', "scopes"),
        ('"sha256"', '"sha"', "unknown key"),
        ('"keys": [', '"keys": [[], ', "keys[0]"),
    ):
        assert old in good
        file.write_text(good.replace(old, new))
        with pytest.raises(BadInput) as raised:
            read_keys(file)
        assert said in str(raised.value)
    document = json.loads(good)
    file.write_text(json.dumps(document | {"keys": document["keys"] * 2}))
    with pytest.raises(BadInput, match="is there twice"):
        read_keys(file)
    file.write_text(good)
    file.chmod(0o666)
    with pytest.raises(BadInput, match="written by anyone"):
        read_keys(file)


def test_the_commands_make_list_and_revoke_keys(tmp_path: Path) -> None:
    file = str(tmp_path / "keys.json")
    runner = CliRunner()
    arguments = ["add", file, "--name", "team-a", "--model", "small", "--requests-per-minute", "60", "--json"]
    added = runner.invoke(keys_command, arguments, catch_exceptions=False)
    document = json.loads(added.stdout)
    key = read_keys(Path(file)).find(document["key"].encode())
    assert key is not None
    assert (key.name, key.models, key.limits.requests_per_minute) == ("team-a", frozenset({"small"}), 60)
    with pytest.raises(BadInput, match="is taken"):
        runner.invoke(keys_command, arguments, catch_exceptions=False)
    listed = runner.invoke(keys_command, ["list", file], catch_exceptions=False).stdout
    assert "team-a" in listed
    assert document["key"][-43:] not in listed
    assert key.digest.hex() not in listed
    with pytest.raises(BadInput, match="is no key of"):
        runner.invoke(keys_command, ["revoke", file, "team-b"], catch_exceptions=False)
    runner.invoke(keys_command, ["revoke", file, "team-a"], catch_exceptions=False)
    assert len(read_keys(Path(file))) == 0


@pytest.mark.parametrize(
    "told",
    [
        ("--usd-per-month", "1e13"),
        ("--requests-per-minute", str(10**13)),
        ("--tokens-per-minute", str(10**13)),
        ("--concurrent", str(10**13)),
        ("--model", ""),
        ("--model", "x" * 101),
    ],
)
def test_no_key_is_written_with_which_the_file_cannot_be_read(tmp_path: Path, told: tuple[str, str]) -> None:
    path = tmp_path / "keys.json"
    add_key(path, made("first")[0], NOW)
    found = CliRunner().invoke(keys_command, ["add", str(path), "--name", "second", *told])
    assert isinstance(found.exception, BadInput)
    assert [key.name for key in read_keys(path)] == ["first"]


def test_who_has_no_key_gets_openais_401_and_reaches_no_engine() -> None:
    async def main() -> None:
        engine = FakeEngine()
        key, header = made()
        expired, old = made("old", expires_s=1.0)
        async with started(engine), running(guarded(engine), keyring=Keyring([key, expired])) as up:
            good = await up.chat("small", headers=header)
            assert good.status_code == 200
            assert len(engine.requests) == 1
            wrong = [{}, {"authorization": "Bearer nonsense"}, {"authorization": "Basic eDp5"}, old]
            for headers in wrong:
                answer = await up.chat("small", headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                error = answer.json()["error"]
                assert set(error) == {"message", "type", "param", "code"}
                assert error["type"] == "invalid_request_error"
            assert error["code"] == "invalid_api_key"
            twice = [("authorization", header["authorization"])] * 2
            raw = await up.client.post("/v1/chat/completions", json={"model": "small"}, headers=twice)
            assert raw.status_code == 401
        assert len(engine.requests) == 1
        assert "authorization" not in engine.heads[0].lower()
        assert up.lines[0]["key"] == "team-a"

    run(main)


def test_the_body_of_a_request_without_key_is_not_waited_for() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(guarded(engine), keyring=Keyring([])) as up:
            reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n{")
            assert (await reader.readline()).startswith(b"HTTP/1.1 401")
            writer.close()

    run(main)


def test_a_key_asks_for_its_models_only() -> None:
    async def main() -> None:
        small, large = FakeEngine(), FakeEngine()
        key, header = made(models=("cascadia", "small"))
        async with started(small, large), running(guarded(small, large), keyring=Keyring([key])) as up:
            assert (await up.chat("small", headers=header)).status_code == 200
            assert (await up.chat("cascadia", headers=header)).status_code == 200
            for name in ("large", "nothing-of-that-name"):
                refused = await up.chat(name, headers=header)
                assert refused.status_code == 403
                assert refused.json()["error"]["code"] == "model_not_allowed"
        assert large.requests == []

    run(main)


def test_each_path_asks_for_its_scope() -> None:
    async def main() -> None:
        engine = FakeEngine()
        asks, asking = made("asks")
        reads, reading = made("reads", ("metrics",))
        keyring = Keyring([asks, reads])
        async with started(engine), running(guarded(engine, open_=("/v1/models",)), keyring=keyring) as up:

            async def status(path: str, headers: dict[str, str]) -> int:
                return (await up.client.get(path, headers=headers)).status_code

            for path in ("/health", "/ready", "/version", "/openapi.json"):
                assert await status(path, {}) == 200
            assert await status("/v1/models", {}) == 200
            for path in ("/metrics", "/v1/models/small", "/nothing", "/metrics/", "//metrics"):
                assert await status(path, {}) == 401
            assert await status("/metrics", reading) == 200
            assert await status("/metrics", asking) == 403
            assert await status("/v1/models/small", asking) == 200
            assert await status("/v1/models/small", reading) == 403
            assert (await up.chat("small", headers=reading)).status_code == 403
            password = reading["authorization"].removeprefix("Bearer ")
            basic = {"authorization": "Basic " + b64encode(f"me:{password}".encode()).decode()}
            assert await status("/metrics", basic) == 200
            assert await status("/v1/models/small", basic) == 401
            assert await status("/metrics", {"authorization": "Basic ???"}) == 401

    run(main)


def test_a_browser_is_asked_for_the_key_as_a_password() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(guarded(engine), keyring=Keyring([])) as up:
            answer: httpx.Response = await up.client.get("/metrics")
            assert answer.headers["www-authenticate"] == 'Basic realm="cascadia"'

    run(main)


def test_without_keys_nothing_is_asked_for() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            assert (await up.chat("small")).status_code == 200
            assert (await up.client.get("/metrics")).status_code == 200

    run(main)


def test_what_a_key_used_is_counted_by_its_name() -> None:
    async def main() -> None:
        small, large = FakeEngine("s"), FakeEngine("l")
        key, header = made()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(started(small, large))
            both = stages(small, large, thresholds=(50,))
            settings = RouterSettings(both, None, health=QUICK, keys=KeySettings(Path("keys.json")))
            gate = ScriptedGate({"s": 10.0})
            up = await stack.enter_async_context(running(settings, gate, keyring=Keyring([key])))
            assert (await up.chat(headers=header)).status_code == 200
            await up.chat(headers={})
            metrics = generate_latest(up.router.metrics.registry).decode()
        # Both stages answered, with 13 tokens each.
        assert 'cascadia_key_tokens_total{key="team-a"} 26.0' in metrics
        assert 'cascadia_key_requests_total{key="team-a"} 1.0' in metrics
        assert 'cascadia_key_refused_total{key="",reason="missing"} 1.0' in metrics

    run(main)


def test_no_request_is_more_urgent_than_its_key_allows() -> None:
    async def main() -> None:
        engine = FakeEngine()
        plain, header = made("plain")
        urgent, other = made("urgent")
        urgent = replace(urgent, priority=-5)
        slow, third = made("slow")
        slow = replace(slow, priority=5)
        async with started(engine):
            (stage,) = stages(engine)
            told = replace(guarded(engine), stages=(replace(stage, passes_priority=True),))
            async with running(told, keyring=Keyring([plain, urgent, slow])) as up:
                for headers, asked in (
                    (header, -9),
                    (other, -9),
                    (other, -3),
                    (third, -9),
                    (header, 7),
                    (third, None),
                ):
                    assert (await up.chat("small", headers=headers, priority=asked)).status_code == 200
        assert [request.get("priority", 0) for request in engine.requests] == [0, -5, -3, 5, 7, 5]

    run(main)


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("requests_per_minute", 10**12),
        ("tokens_per_minute", 10**12),
        ("concurrent", 10**12),
        ("priority", 1000),
        ("max_gear", 63),
    ],
)
def test_a_limit_in_the_file_has_a_range(tmp_path: Path, limit: str, most: int) -> None:
    file = tmp_path / "keys.json"
    add_key(file, made("a")[0], NOW)
    document = json.loads(file.read_text())
    least = {"priority": -1000, "max_gear": 0}.get(limit, 1)
    for value in (least, most):
        document["keys"][0][limit] = value
        file.write_text(json.dumps(document))
        (key,) = read_keys(file)
        assert getattr(key, limit, None) == value or getattr(key.limits, limit, None) == value
    for value in (least - 1, most + 1):
        document["keys"][0][limit] = value
        file.write_text(json.dumps(document))
        with pytest.raises(BadInput, match=limit):
            read_keys(file)


def test_keyrings_are_the_same_where_their_keys_are() -> None:
    one, other = made("a")[0], made("b")[0]
    assert Keyring([one]) == Keyring([replace(one)])
    assert Keyring([one]) != Keyring([other])
    assert Keyring([one]) != Keyring([one, other])
    assert Keyring([one]) != [one]
