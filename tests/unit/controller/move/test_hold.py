"""A plan in force that the machines cannot hold: nothing is begun, and it is said, once, for what there is no room."""

import asyncio
from dataclasses import replace
from pathlib import Path

from cascadia.controller.memory.state import FileState
from cascadia.controller.move.carry_out import Journal, Timed
from cascadia.controller.move.hold import Holder
from tests.unit.controller.move.test_loop import OLD, Machine


def test_a_pool_that_the_cluster_has_not_is_told_though_nobody_asks_anything(tmp_path: Path) -> None:
    machine = Machine()
    machine.now = replace(machine.now, replicas=(), routing=None, gpus={"cpu": 8})
    journal = Journal(FileState(tmp_path), lambda _: None, lambda: 0.0)

    async def began() -> None: ...

    holder = Holder(Timed(machine, journal), journal, 1, began)

    async def look() -> list[str]:
        for _ in range(3):
            assert await holder.hold(OLD, machine.now, "old")
        return [entry.what for entry in journal.state.entries()]

    none = "old is not made so: it takes 3 GPUs of gpu, and there are 0"
    assert asyncio.run(look()) == [none]
    machine.now = replace(machine.now, gpus={"gpu": 2})
    two = none.replace("are 0", "are 2")
    assert asyncio.run(look()) == [none, two]
    assert machine.steps == []
    # Once there are enough it is made so, and another lack is told again.
    machine.now = replace(machine.now, gpus={"gpu": 3})
    assert "old is in force" in asyncio.run(look())
    machine.now = replace(machine.now, gpus={"gpu": 2})
    assert asyncio.run(look())[-1] == two
