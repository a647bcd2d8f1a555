"""Workload logs are fetched from real routers: all of them, once, and only by who has the token."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.clients.cluster.evaluations_asked import FILE
from cascadia.clients.cluster.router_samples import RouterSamples, SamplesMissing, Source
from cascadia.controller.detect.samples_file import SampleFiles
from cascadia.controller.detect.shadow_scores import ShadowFiles
from cascadia.router.settings.model import RouterSettings, SampleSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, Running, run, running, stages

TOKEN = "0123456789abcdef"


def sampled(folder: Path, engine: FakeEngine) -> RouterSettings:
    samples = SampleSettings(folder, rows=1, token=TOKEN)
    return RouterSettings(stages(engine), None, health=QUICK, samples=samples)


def source(of: Running, serves: bool = True) -> Source:
    return Source(f"router-{of.port}", f"http://127.0.0.1:{of.port}", serves)


async def asked(of: Running, times: int) -> None:
    """So many requests, whose rows are in files."""
    for _ in range(times):
        assert (await of.chat()).status_code == 200
    samples = of.router.observers.samples
    assert samples is not None
    await samples.stop()


def fetcher(folder: Path, *sources: Source, token: str = TOKEN) -> RouterSamples:
    async def found() -> list[Source]:
        return list(sources)

    return RouterSamples(found, folder, token)


def test_what_two_routers_wrote_is_fetched_once_also_by_who_starts_anew(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine("yes")
        one, two, here = tmp_path / "one", tmp_path / "two", tmp_path / "here"
        async with (
            started(engine),
            running(sampled(one, engine)) as first,
            running(sampled(two, engine)) as second,
        ):
            await asked(first, 2)
            await asked(second, 1)
            told = source(first), source(second)
            await fetcher(here, *told).fetch()
            read = SampleFiles(here)
            assert len(read.read()) == 3
            before = {path.name: path.stat().st_mtime_ns for path in here.iterdir()}
            await asked(second, 1)
            await fetcher(here, *told).fetch()
            after = {path.name: path.stat().st_mtime_ns for path in here.iterdir()}
            assert before.items() < after.items()
            assert len(read.read()) == len(SampleFiles(here).read()) == 4
            written = {path.name for folder in (one, two) for path in folder.glob("*.parquet")}
            assert set(after) == written

    run(main)


def test_a_router_that_has_gone_is_no_error_and_one_that_serves_in_silence_is(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine("yes")
        async with started(engine), running(sampled(tmp_path / "one", engine)) as up:
            await asked(up, 1)
            gone = Source("gone", "http://127.0.0.1:9", serves=False)
            await fetcher(tmp_path / "here", gone, source(up)).fetch()
            assert len(SampleFiles(tmp_path / "here").read()) == 1
            with pytest.raises(SamplesMissing, match=r"no samples of gone \(ConnectError\)"):
                await fetcher(tmp_path / "other", gone._replace(serves=True), source(up)).fetch()
            # What the others have is there all the same.
            assert len(SampleFiles(tmp_path / "other").read()) == 1

    run(main)


def test_a_wish_for_second_looks_reaches_each_router_once(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine("yes")
        here, folders = tmp_path / "here", (tmp_path / "one", tmp_path / "two")
        async with (
            started(engine),
            running(sampled(folders[0], engine)) as first,
            running(sampled(folders[1], engine)) as second,
        ):
            fetched = fetcher(here, source(first), source(second))
            await fetched.fetch()
            assert not any((folder / FILE).exists() for folder in folders)
            ShadowFiles(here, ("small",)).ask()
            await fetched.fetch()
            for folder in folders:
                (folder / FILE).unlink()
            await fetched.fetch()
            assert not any((folder / FILE).exists() for folder in folders)

    run(main)


def test_another_token_opens_nothing_and_the_reason_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine("yes")
        async with started(engine), running(sampled(tmp_path / "one", engine)) as up:
            with pytest.raises(SamplesMissing, match="it answers 401"):
                await fetcher(tmp_path / "here", source(up), token="another").fetch()

    run(main)


def test_who_is_no_router_is_not_believed(tmp_path: Path) -> None:
    async def main() -> None:
        stranger = FakeEngine()  # which says {} to any GET
        async with started(stranger):
            found = Source("stranger", stranger.url, serves=True)
            with pytest.raises(SamplesMissing, match="it answers no list of files"):
                await fetcher(tmp_path, found).fetch()

    run(main)


@pytest.mark.parametrize("name", [".hash-key", "..%2Fkeys.json", "../keys.json", "requests-.parquet.part"])
def test_nothing_but_whole_files_of_the_log_is_handed_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "keys.json").write_text("{}")

    async def main() -> None:
        engine = FakeEngine("yes")
        async with started(engine), running(sampled(tmp_path / "one", engine)) as up:
            await asked(up, 1)
            header = {"authorization": f"Bearer {TOKEN}"}
            names: Any = (await up.client.get("/samples", headers=header)).json()
            assert sorted(names) == sorted(path.name for path in (tmp_path / "one").glob("[!.]*"))
            url = httpx.URL(f"http://127.0.0.1:{up.port}").copy_with(raw_path=f"/samples/{name}".encode())
            assert (await up.client.get(url, headers=header)).status_code == 404
            whole = await up.client.get(f"/samples/{names[0]}", headers=header)
            assert whole.content == (tmp_path / "one" / names[0]).read_bytes()

    run(main)
