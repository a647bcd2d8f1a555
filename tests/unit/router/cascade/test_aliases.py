"""The name of a stage that was served once goes on to be served."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.handlers.service import aliases
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import RouterSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, run, running, stages


@pytest.mark.parametrize(
    ("deployed", "names", "found"),
    [
        (("small", "large"), ("small", "medium", "large"), {"medium": "large"}),
        (("medium", "large"), ("small", "medium", "large"), {"small": "medium"}),
        (("small",), ("small", "medium", "large"), {"medium": "small", "large": "small"}),
        (("small", "large"), ("small", "large"), {}),
    ],
)
def test_a_stage_without_engines_is_served_by_the_next_larger_one(
    deployed: tuple[str, ...], names: tuple[str, ...], found: dict[str, str]
) -> None:
    engine = FakeEngine(port=1)
    given = tuple(replace(stages(engine)[0], name=name) for name in deployed)
    assert aliases(RouterSettings(given, None, names=names)) == found


def test_a_name_stays_when_a_plan_leaves_its_stage_out_and_the_answer_says_whose_it_is() -> None:
    async def main() -> None:
        small, medium, large = FakeEngine("s"), FakeEngine("m"), FakeEngine("l")
        async with started(small, medium, large):
            every = RouterSettings(stages(small, medium, large), None, health=QUICK)
            async with running(every) as up:
                fewer = replace(up.router.settings, stages=(every.stages[0], every.stages[2]))
                up.router.swap(fewer)
                again = await up.chat("medium")
                up.router.swap(replace(fewer, stages=fewer.stages[:1]))
                last = [await up.chat(name) for name in ("medium", "large", "small")]
                one = (await up.client.get("/v1/models/medium")).json()
                listed = (await up.client.get("/v1/models")).json()["data"]
                up.router.swap(every)
                own = (await up.client.get("/v1/models/medium")).json()
                back = await up.chat("medium")
                unknown = await up.chat("huge")
        assert (again.status_code, again.headers["x-cascadia-alias"]) == (200, "large")
        assert again.json()["choices"][0]["message"]["content"] == "l"
        assert large.requests[0]["model"] == "large-model"
        assert [answer.headers.get("x-cascadia-alias") for answer in last] == ["small", "small", None]
        assert (one["id"], one["root"]) == ("medium", "small")
        assert "medium" not in {model["id"] for model in listed}
        assert (own["id"], own.get("root")) == ("medium", None)
        assert "x-cascadia-alias" not in back.headers
        assert back.json()["choices"][0]["message"]["content"] == "m"
        assert unknown.status_code == 404

    run(main)


def test_names_in_a_file_are_those_of_its_stages_and_others(tmp_path: Path) -> None:
    def read(names: str) -> RouterSettings:
        replicas = 'replicas: [{url: "http://h:1"}]'
        path = tmp_path / "router.yaml"
        path.write_text(f"names: {names}\nstages: [{{name: a, {replicas}}}, {{name: c, {replicas}}}]\n")
        return read_settings(path, {})

    assert read("[a, b, c]").names == ("a", "b", "c")
    assert read("[]").names == ("a", "c")
    for wrong in ("[a, b]", "[c, b, a]"):
        with pytest.raises(BadInput, match="lack a stage, or have another order; name a, c in this order"):
            read(wrong)
