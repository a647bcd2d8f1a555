"""Pages of other origins ask models where the settings name them, and nothing else, ever."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.access.keys import Key, Keyring, make_key
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import AdminSettings, CorsSettings, KeySettings, RouterSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, Running, run, running, stages
from tests.unit.router.settings.test_settings import GOOD

PAGE = "https://chat.example"
KEY = make_key()
KEYS = Keyring([Key(KEY.id, "k", KEY.digest, scopes=frozenset({"inference", "metrics", "admin"}))])
BEARER = {"authorization": f"Bearer {KEY.text}"}


def settings(engine: FakeEngine, cors: CorsSettings | None) -> RouterSettings:
    return RouterSettings(
        stages(engine),
        None,
        health=QUICK,
        cors=cors,
        keys=KeySettings(Path("keys.json")),
        admin=AdminSettings(),
    )


async def preflight(
    router: Running, path: str = "/v1/chat/completions", origin: str = PAGE, **more: str
) -> httpx.Response:
    headers = {"origin": origin, "access-control-request-method": "POST"} | {
        name.replace("_", "-"): value for name, value in more.items()
    }
    return await router.client.request("OPTIONS", path, headers=headers)


def allowed(answer: httpx.Response) -> dict[str, str]:
    return {
        name.removeprefix("access-control-"): value
        for name, value in answer.headers.items()
        if name.startswith("access-control-")
    }


def test_nothing_is_said_to_pages_by_default() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(settings(engine, None), keyring=KEYS) as router:
            answer = await router.chat("small", headers={"origin": PAGE, **BEARER})
            assert (answer.status_code, allowed(answer)) == (200, {})
            refused = await preflight(router)
            assert (refused.status_code, allowed(refused)) == (401, {})

    run(main)


def test_a_preflight_needs_no_key_and_tells_what_was_asked_for_and_is_allowed() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(settings(engine, CorsSettings((PAGE,))), keyring=KEYS) as router:
            asked = "authorization, Content-Type,x-stainless-os , x-evil"
            answer = await preflight(router, access_control_request_headers=asked)
            assert answer.status_code == 204
            assert allowed(answer) == {
                "allow-origin": PAGE,
                "expose-headers": allowed(answer)["expose-headers"],
                "allow-methods": "GET, POST",
                "allow-headers": "authorization, content-type, x-stainless-os",
                "max-age": "600",
            }
            assert answer.headers["vary"] == "origin"
            other = await preflight(router, origin="https://evil.example")
            assert (other.status_code, allowed(other), other.headers["vary"]) == (204, {}, "origin")
            assert engine.requests == []

    run(main)


def test_every_answer_under_v1_says_so_refusals_and_streams_too() -> None:
    async def main() -> None:
        engine = FakeEngine()
        cors = CorsSettings((PAGE,), allow_credentials=True)
        async with started(engine), running(settings(engine, cors), keyring=KEYS) as router:
            page = {"origin": PAGE}
            answers = [
                await router.chat("small", headers=page | BEARER),
                await router.chat("small", headers=page | BEARER, stream=True),
                await router.chat("small", headers=page),
                await router.chat("nobody", headers=page | BEARER),
                await router.client.get("/v1/models", headers=page | BEARER),
                await router.client.post("/v1/chat/completions", content=b"x" * 100_000, headers=page),
            ]
            assert [answer.status_code for answer in answers] == [200, 200, 401, 404, 200, 401]
            for answer in answers:
                assert allowed(answer)["allow-origin"] == PAGE
                assert allowed(answer)["allow-credentials"] == "true"
            other = await router.chat("small", headers={"origin": "https://evil.example", **BEARER})
            assert (other.status_code, allowed(other)) == (200, {})

    run(main)


def test_any_page_is_told_any_and_never_with_credentials(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(settings(engine, CorsSettings(("*",))), keyring=KEYS) as router:
            answer = await router.chat("small", headers={"origin": PAGE, **BEARER})
            assert allowed(answer)["allow-origin"] == "*"
            assert "allow-credentials" not in allowed(answer)

    run(main)
    path = tmp_path / "router.yaml"
    path.write_text(GOOD + "cors: {allow_origins: ['*'], allow_credentials: true}\n")
    with pytest.raises(BadInput, match="any page"):
        read_settings(path, {"KEY": "secret"})
    path.write_text(GOOD + "cors: {allow_origins: ['*', 'https://a.example']}\n")
    with pytest.raises(BadInput, match="beside"):
        read_settings(path, {"KEY": "secret"})
    path.write_text(GOOD + f"cors: {{allow_origins: ['{PAGE}']}}\n")
    assert read_settings(path, {"KEY": "secret"}).cors == CorsSettings((PAGE,))


@pytest.mark.parametrize("path", ["/metrics", "/ui/state", "/admin/state", "/health", "/samples"])
def test_no_page_is_let_at_anything_but_models(path: str) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(settings(engine, CorsSettings(("*",))), keyring=KEYS) as router:
            asked = await preflight(router, path)
            assert asked.status_code in (401, 405)
            assert allowed(asked) == {}
            answer = await router.client.get(path, headers={"origin": PAGE, **BEARER})
            assert allowed(answer) == {}

    run(main)


def test_an_origin_cannot_write_a_header_of_its_own() -> None:
    async def main() -> None:
        engine = FakeEngine()
        cors = replace(CorsSettings((PAGE,)), allow_headers=("*",))
        async with started(engine), running(settings(engine, cors), keyring=KEYS) as router:
            answer = await preflight(router, access_control_request_headers="a, b\tc")
            assert answer.status_code == 204

    run(main)
