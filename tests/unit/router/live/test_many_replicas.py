"""Hundreds of replicas: what the event loop does for each look and each swap grows no faster than they do."""

import pytest

from cascadia.router.live import active_plan
from cascadia.router.live.swap import succeed
from cascadia.router.server.app import Router
from cascadia.router.settings.model import ReplicaSettings, RouterSettings, StageSettings
from tests.calls import calls


def of(ports: range) -> RouterSettings:
    replicas = tuple(ReplicaSettings(f"http://h:{port}") for port in ports)
    return RouterSettings((StageSettings("small", "m", replicas),), None)


@pytest.mark.parametrize("turned", [True, False])
def test_replicas_are_taken_over_without_a_look_at_all_for_each(turned: bool) -> None:
    def swap(count: int) -> int:
        router = Router(of(range(1, count + 1)))
        ports = range(count, 0, -1) if turned else range(count + 1, 2 * count + 1)
        new = router._activated(of(ports), router.active_plan, {})
        return calls(lambda: succeed(new, router.active_plan))

    assert swap(400) < 12 * swap(40)


def test_of_two_that_are_alike_each_is_taken_over_once() -> None:
    twice = RouterSettings((StageSettings("small", "m", (ReplicaSettings("http://h:1"),) * 2),), None)
    router = Router(twice)
    before = list(router.stages[0].replicas)
    new = router._activated(twice, router.active_plan, {})
    assert succeed(new, router.active_plan) == []
    assert new.stages[0].replicas == before
    one = router._activated(of(range(1, 2)), router.active_plan, {})
    assert succeed(one, router.active_plan) == before[1:]


def test_a_plans_digest_is_made_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def digest_of(settings: RouterSettings) -> str:
        nonlocal made
        made += 1
        return str(len(settings.stages[0].replicas))

    monkeypatch.setattr(active_plan, "digest_of", digest_of)
    router = Router(of(range(1, 5)))
    assert [router.digest, router.digest, made] == ["4", "4", 1]
