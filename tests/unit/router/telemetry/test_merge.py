"""Sums over processes: they never go back, in whatever order and however often processes are taken together."""

import asyncio
import os
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cascadia.router.telemetry.kept_figures import KeptFigures
from cascadia.router.telemetry.merge import counted, merged

AMOUNTS = st.sampled_from([st.floats(0, 1e9), st.integers(0, 2**50).map(float)]).flatmap(
    lambda each: st.lists(each, min_size=3, max_size=5)
)
"""Seconds and dollars, or whole tokens."""


def figures(value: float) -> bytes:
    text = f"# HELP x_total Dollars.\n# TYPE x_total counter\nx_total {value!r}\n"
    return (text + "# HELP g Now.\n# TYPE g gauge\ng 1.0\n").encode()


def total(text: bytes) -> float:
    found = {s.name: s.value for f in text_string_to_metric_families(text.decode()) for s in f.samples}
    return found["x_total"]


@given(AMOUNTS)
def test_a_sum_is_the_same_in_any_order_and_of_any_parts(found: list[float]) -> None:
    *amounts, more = found
    texts = [figures(amount) for amount in amounts]
    sums = {total(merged(dict(enumerate(each)))) for each in permutations(texts)}
    sums |= {total(merged({0: texts[0]}, [counted(texts[1:])]))}
    sums |= {total(merged({0: texts[0]}, [counted([counted(texts[1:2]), *texts[2:]])]))}
    assert len(sums) == 1
    assert sums.pop() == pytest.approx(sum(amounts), abs=1e-5)
    assert total(merged(dict(enumerate([*texts, figures(more)])))) >= total(merged(dict(enumerate(texts))))


def test_of_a_process_that_ended_counts_stay_and_no_gauge(tmp_path: Path) -> None:
    def process(value: float) -> KeptFigures:
        async def collect() -> bytes:
            return figures(value)

        return KeptFigures(tmp_path, collect)

    async def main() -> None:
        first, second = process(0.1), process(0.2)
        for one in (first, second):
            await one.start()
            await one.now()
        kept, stale = second.others({second.name})
        assert (list(map(total, kept)), stale) == ([0.1], 1)
        await first.stop()
        kept, stale = second.others({second.name})
        assert (total(merged({}, kept)), stale) == (pytest.approx(0.1, abs=1e-5), 0)
        before = total(merged({0: await second.now()}, second.others({second.name}).texts))
        # Who comes later takes the dead together, each of them once, though it is ended in the middle of that.
        for _ in range(3):
            later = process(0.0)
            left = {path: path.read_bytes() for path in tmp_path.iterdir() if path.stem == first.name}
            await later.start()
            for path, content in left.items():
                path.write_bytes(content)
            found = merged({0: await later.now()}, later.others({later.name}).texts)
            assert total(found) == before
            assert b'g{worker="0"} 1.0' in found
            assert found.count(b"\ng{") == 1
            await later.stop()
        assert len(os.listdir(tmp_path)) < 10

    asyncio.run(main())


def test_figures_that_cannot_be_kept_are_told_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def collect() -> bytes:
        return figures(1.0)

    async def main() -> None:
        one = KeptFigures(tmp_path / "nowhere", collect)
        await one.start()
        assert await one.now() == figures(1.0)
        assert one.others({one.name}).stale == 0
        await one.stop()

    asyncio.run(main())
    assert "not kept" in caplog.text
