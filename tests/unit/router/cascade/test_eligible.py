"""Which stages may answer a request, before any is asked."""

from types import SimpleNamespace

import pytest

from cascadia.router.cascade.eligible import route


def stage(name: str, max_model_len: int | None = None) -> SimpleNamespace:
    longest = SimpleNamespace(max_model_len=max_model_len)
    return SimpleNamespace(name=name, settings=longest, counts=SimpleNamespace(too_long=0), too_long=0)


CASCADE = [stage("small"), stage("medium"), stage("large")]


@pytest.mark.parametrize(
    ("n", "first", "last", "names"),
    [
        (None, 0, 2, ["small", "medium", "large"]),
        (4, 0, 2, ["small", "medium", "large"]),
        (5, 0, 2, ["large"]),
        (5, 0, 1, ["medium"]),
        (1, 1, 2, ["medium", "large"]),
        (1, 1, 1, ["medium"]),
    ],
)
def test_who_wants_more_choices_than_are_judged_is_answered_by_the_last_alone(
    n: int | None, first: int, last: int, names: list[str]
) -> None:
    fields = SimpleNamespace(n=n, output_limit=None)
    ask = SimpleNamespace(first=first, last=last, gear=None, fields=fields, body=b"{}")
    found = route(ask, CASCADE, 4)  # type: ignore[arg-type]
    assert [each.name for each in found.stages] == names
    assert found.beyond == []
