"""Several processes of a router have the same in force, whichever of them hears of a change, and whoever dies when."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from cascadia.router.live.last_good import InForce, LastGood, signature
from cascadia.router.live.reload import Reloader
from cascadia.router.server.app import Router
from cascadia.router.server.peers import Peers
from cascadia.router.settings.model import JudgeSettings, ReplicaSettings, RouterSettings, StageSettings
from cascadia.testing.routers import run, until


class Scene:
    """A file with the threshold of a stage, and processes that serve by it, as far as they are begun."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first = "small"
        self.file = folder / "threshold"
        self.file.write_text("50")
        settings = self.load()
        self.kept = LastGood(InForce(settings, None, signature(settings.files)))

    def load(self) -> RouterSettings:
        replicas = tuple(ReplicaSettings(f"http://127.0.0.1:{port}", health_path=None) for port in (1, 2))
        small = StageSettings(self.first, "m", replicas, float(self.file.read_text()))
        stages = small, replace(small, name="large", threshold=0.0)
        return RouterSettings(stages, JudgeSettings("certainty"), page=False, watch_s=0.0, files=(self.file,))

    def made(self, number: int, count: int, watch_s: float = 0.0) -> Router:
        def load() -> RouterSettings:
            return replace(self.load(), watch_s=watch_s)

        now = self.kept.get()
        settings = replace(now.settings, watch_s=watch_s)
        router = Router(settings, peers=Peers(self.folder, number, count), earlier=now.names)
        router.reloader = Reloader(router, load, self.kept)
        return router


@asynccontextmanager
async def serving(*routers: Router) -> AsyncIterator[None]:
    for router in routers:
        await router.start()
    try:
        yield
    finally:
        for router in routers:
            await router.stop()


def thresholds(*routers: Router) -> set[float]:
    return {router.stages[0].settings.threshold for router in routers}


def test_one_that_takes_a_dead_ones_place_asks_nobody_who_does_not_know_yet_either(tmp_path: Path) -> None:
    async def main() -> None:
        scene = Scene(tmp_path)
        stays = scene.made(2, 3)
        async with serving(stays):
            await stays.operator.thresholds(b'{"small": 70}')
            starting, comes = scene.made(0, 3), scene.made(1, 3)
            await starting.peers.start()
            async with serving(comes):
                found = thresholds(comes, stays)
            await starting.peers.stop()
            assert found == {70.0}

    run(main)


def test_what_was_put_outlives_that_all_processes_die_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        scene = Scene(tmp_path)
        async with serving(first := scene.made(0, 2), scene.made(1, 2)):
            await first.operator.thresholds(b'{"small": 70}')
            await first.operator.drain("small-1", wait_s=0.0, force=False)
        later = scene.made(0, 2), scene.made(1, 2)
        async with serving(*later):
            assert thresholds(*later) == {70.0}
            assert {router.stages[0].replicas[1].state for router in later} == {"draining"}
            await later[1].operator.undrain("small-1")
            await later[1].operator.reload()
        async with serving(last := scene.made(0, 2)):
            assert thresholds(last) == {50.0}
            assert last.stages[0].replicas[1].state == "ready"

    run(main)


def test_a_file_is_taken_up_by_all_before_anything_else_is_put(tmp_path: Path) -> None:
    """One whose look at the files comes later would undo what was put meanwhile, and be alone in that."""

    async def main() -> None:
        scene = Scene(tmp_path)
        looks, later = scene.made(0, 2, watch_s=0.01), scene.made(1, 2)
        async with serving(looks, later):
            scene.file.write_text("60")
            await until(lambda: thresholds(looks) == {60.0})
            await looks.operator.thresholds(b'{"small": 70}')
            assert thresholds(looks, later) == {70.0}
            assert later.reloader is not None
            assert (await later.reloader.reload("file")).outcome == "unchanged"
            assert thresholds(looks, later) == {70.0}

    run(main)


def test_a_signal_to_one_process_undoes_what_was_put_in_all(tmp_path: Path) -> None:
    async def main() -> None:
        scene = Scene(tmp_path)
        both = scene.made(0, 2), scene.made(1, 2)
        async with serving(*both):
            for hears in both:
                await both[0].operator.thresholds(b'{"small": 70}')
                assert thresholds(*both) == {70.0}
                hears.hang_up()
                await until(lambda: thresholds(*both) == {50.0})

    run(main)


def test_a_name_that_was_served_is_known_to_a_process_that_comes_after_it_was_renamed(tmp_path: Path) -> None:
    async def main() -> None:
        scene = Scene(tmp_path)
        async with serving(stays := scene.made(1, 2)):
            scene.first = "tiny"
            await stays.operator.reload()
            async with serving(comes := scene.made(0, 2)):
                assert dict(comes.aliases) == dict(stays.aliases) == {"small": "large"}
                await stays.operator.thresholds(b'{"tiny": 70}')
                assert dict(comes.aliases) == dict(stays.aliases) == {"small": "large"}

    run(main)
