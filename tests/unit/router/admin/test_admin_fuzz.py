"""Whatever an operator's tool sends to the admin API is done or refused in words: none of it is a failure of ours."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import uvloop
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cascadia.files.plan_file import plan_json
from cascadia.router.live.reload import Reloader
from cascadia.testing.engines import FakeEngine
from tests.examples import examples
from tests.unit.router.admin.test_admin import administered, two_stages

PLAN = json.loads(plan_json(two_stages()))
QUICK = settings(
    max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
)
NAMES = st.sampled_from(("small", "large", "small-0", "large-0", "", "../state")) | st.text(max_size=12)


@pytest.fixture(scope="module")
def admin() -> Iterator[httpx.Client]:
    """Of a router in a thread of its own: hypothesis does not await."""
    found: list[tuple[str, dict[str, str]]] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with administered([FakeEngine(), FakeEngine()], FakeEngine()) as up:
            router = up.up.router
            router.reloader = Reloader(router, lambda files=router.settings: files)
            found.append((up.base, up.header))
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    assert ready.wait(60)
    base, header = found[0]
    with httpx.Client(base_url=f"{base}/admin/", headers=header, trust_env=False, timeout=60) as client:
        yield client
    ended.set()
    thread.join(timeout=60)


def answered(admin: httpx.Client, method: str, path: str, content: bytes = b"", **query: Any) -> int:
    """The status, after a look at whether a refusal says why and the router still tells its state."""
    answer = admin.request(method, path, content=content, params=query or None)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.json()["error"]["message"]
    assert admin.get("state").status_code == 200
    return answer.status_code


def test_any_thresholds_are_put_or_refused(admin: httpx.Client) -> None:
    seen = set()

    @QUICK
    @given(st.dictionaries(NAMES, SCALARS) | st.dictionaries(st.just("small"), st.floats(0, 101)) | DOCUMENTS)
    def check(document: Any) -> None:
        seen.add(answered(admin, "PUT", "thresholds", json.dumps(document).encode()))

    check()
    assert seen == {200, 422}


def test_any_bytes_are_refused_as_thresholds_or_plan(admin: httpx.Client) -> None:
    @QUICK
    @given(st.sampled_from(("thresholds", "plan")), st.binary(max_size=64))
    def check(path: str, content: bytes) -> None:
        assert answered(admin, "PUT", path, content) == 422

    check()
    for nested in (b"[" * 100_000, b'{"small":' * 100_000, b'{"small":%b}' % (b"9" * 5_000)):
        assert {answered(admin, "PUT", path, nested) for path in ("thresholds", "plan")} == {422}


def places(document: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    """Of all that a document holds."""
    members = document.items() if isinstance(document, dict) else enumerate(document)
    for key, member in members:
        yield (*above, key)
        if isinstance(member, dict | list):
            yield from places(member, *above, key)


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """The plan with something else, or nothing, where it has something."""
    document = json.loads(json.dumps(PLAN))
    *way, last = draw(st.sampled_from(list(places(document))))
    at = document
    for key in way:
        at = at[key]
    if draw(st.booleans()):
        at[last] = draw(DOCUMENTS)
    else:
        del at[last]
    return document


def test_a_plan_with_anything_in_it_is_put_or_refused(admin: httpx.Client) -> None:
    @QUICK
    @given(spoilt())
    def check(document: Any) -> None:
        answered(admin, "PUT", "plan", json.dumps(document).encode())

    check()
    again = admin.put("plan", content=json.dumps(PLAN))
    assert again.status_code == 200, again.text


def test_any_replica_may_be_asked_for_in_any_way(admin: httpx.Client) -> None:
    waits = st.sampled_from(("0", "-1", "nan", "inf", "-inf", "1e309", "", "soon", "\ud7ff"))

    @QUICK
    @given(NAMES, st.sampled_from(("drain", "undrain")), waits, st.sampled_from(("true", "0", "", "perhaps")))
    def check(name: str, what: str, wait_s: str, force: str) -> None:
        answered(admin, "POST", f"replicas/{quote(name, safe='')}/{what}", wait_s=wait_s, force=force)

    check()


def test_any_path_and_method_have_an_answer(admin: httpx.Client) -> None:
    @QUICK
    @given(
        st.sampled_from(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS")),
        st.sampled_from(("state", "plan", "reload", "replicas/", "openapi.json")) | st.text(max_size=12),
    )
    def check(method: str, path: str) -> None:
        assert admin.request(method, quote(path, safe="/")).status_code < 500

    check()
