"""A picture of nodes and GPUs, coloured by stage, each tensor-parallel group one block.

A plan says how many replicas of which shape a pool holds, not on which node each stands: what is drawn is one
placement that fits, largest groups first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import groupby

from cascadia.domain.cluster import Pool
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.report.charts.svg import Colour, chart, colour_class, group, rect, text, text_width
from cascadia.report.names import device, gpu_label, printable, shape
from cascadia.report.numbers import plural

WIDTH = 900.0
MOST_NODES = 12
"""Above so many nodes in a pool, neighbours that hold the same are drawn once."""


@dataclass(frozen=True, slots=True)
class Block:
    """A tensor-parallel group, or the part of one that lies on this node: `gpus` of replica `replica`."""

    owner: str
    colour: Colour
    replica: int
    _: KW_ONLY
    gpus: int
    shape: str
    rank: int
    ranks: int

    @property
    def kind(self) -> tuple[str, int, str]:
        return self.owner, self.gpus, self.shape


Node = tuple[Block, ...]


def gpu_map(plan: Plan, names: Mapping[str, str]) -> str:
    parts: list[str] = []
    y = 0.0
    for pool in plan.cluster.pools:
        nodes = place(pool, list(_blocks(plan, pool)))
        used = sum(block.gpus for node in nodes for block in node)
        total = f"{plural(pool.nodes, 'node')} × {pool.gpus_per_node} {gpu_label(pool.gpu, names)}"
        parts.append(text(0, y + 12, f"{printable(pool.name)}: {total}, {used:,} of {pool.gpus:,} in use"))
        y = _draw_pool(parts, pool, nodes, y + 24)
    y = _legend(parts, plan, y + 4)
    what = "; ".join(
        f"{s.name}: {plural(s.gpus, device(plan.cluster.pools))}" for s in plan.stages if s.deployed
    )
    return chart(WIDTH, y, f"GPUs by stage. {what}", parts)


def place(pool: Pool, blocks: Sequence[Block]) -> list[Node]:
    """First fit, largest first; a block that fits nowhere whole is split over what is free."""
    free = [pool.gpus_per_node] * pool.nodes
    nodes: list[list[Block]] = [[] for _ in range(pool.nodes)]
    for block in sorted(blocks, key=lambda b: -b.gpus):
        left = block.gpus
        whole = next((i for i, room in enumerate(free) if room >= left), None)
        for i in [whole] if whole is not None else range(pool.nodes):
            part = min(left, free[i])
            if part:
                nodes[i].append(
                    Block(
                        block.owner,
                        block.colour,
                        block.replica,
                        gpus=part,
                        shape=block.shape,
                        rank=block.rank,
                        ranks=block.ranks,
                    )
                )
                free[i] -= part
                left -= part
    return [tuple(node) for node in nodes]


def _blocks(plan: Plan, pool: Pool) -> Iterable[Block]:
    owners: list[tuple[str, Colour, Sequence[ReplicaGroup]]] = [
        (stage.name, i, stage.replicas) for i, stage in enumerate(plan.stages)
    ]
    owners.append(("judge", "grey", plan.judge.replicas))
    for name, colour, groups in owners:
        replica = 0
        for held in groups:
            for _ in range(held.count):
                replica += 1
                if held.pool == pool.name:
                    for rank in range(held.pp):
                        yield Block(
                            name,
                            colour,
                            replica,
                            gpus=held.tp,
                            shape=shape(held),
                            rank=rank + 1,
                            ranks=held.pp,
                        )


def _draw_pool(parts: list[str], pool: Pool, nodes: Sequence[Node], y: float) -> float:
    one = device([pool])
    runs = [(nodes[i], i, 1) for i in range(len(nodes))]
    if len(nodes) > MOST_NODES:
        runs = []
        for _, same in groupby(range(len(nodes)), key=lambda i: tuple(b.kind for b in nodes[i])):
            members = list(same)
            runs.append((nodes[members[0]], members[0], len(members)))
    cell = max(9.0, min(25.0, (WIDTH - 20) / pool.gpus_per_node))
    wide = cell * pool.gpus_per_node + 10
    columns = max(1, int((WIDTH + 14) // (wide + 14)))
    for i, (node, first, count) in enumerate(runs):
        x, top = (i % columns) * (wide + 14), y + (i // columns) * (cell + 34)
        name = f"node {first + 1}" if count == 1 else f"nodes {first + 1}–{first + count}, all alike"
        parts.append(text(x, top + 10, name, "small"))
        parts.append(rect(x, top + 15, wide, cell + 10, "case", rx=6))
        at = x + 5
        for block in node:
            parts.append(_draw_block(block, at, top + 20, cell, one=one, alike=count > 1))
            at += block.gpus * cell
        for _ in range(pool.gpus_per_node - sum(block.gpus for block in node)):
            parts.append(rect(at + 1.5, top + 21.5, cell - 3, cell - 3, "idle", f"a free {one}", rx=3))
            at += cell
    return y + -(-len(runs) // columns) * (cell + 34) + 8


def _draw_block(block: Block, x: float, y: float, cell: float, *, one: str, alike: bool) -> str:
    """Numbered by replica; where it stands for its like on other nodes, named by its shape instead."""
    wide = block.gpus * cell - 2
    rank = f", pipeline rank {block.rank} of {block.ranks}" if block.ranks > 1 else ""
    tip = f"{block.owner}, replica {block.replica} ({block.shape}){rank}: {plural(block.gpus, one)} here"
    label = f"{block.replica}.{block.rank}" if block.ranks > 1 else str(block.replica)
    label = block.shape if alike else label
    taken = text_width(label, bold=True)
    words = ""
    if taken <= cell - 4:
        words, taken = text(x + cell / 2, y + cell / 2 + 4, label, "on", "middle"), 0.0
    elif taken + 10 <= wide:
        words = text(x + 7, y + cell / 2 + 4, label, "on")
    seams = [
        rect(x + k * cell - 0.5, y + 5, 1, cell - 10, "seam")
        for k in range(1, block.gpus)
        if cell >= 12 and k * cell > taken + 9
    ]
    return group(colour_class(block.colour), rect(x + 1, y, wide, cell, "fill", rx=4), *seams, words, tip=tip)


def _legend(parts: list[str], plan: Plan, y: float) -> float:
    x = 0.0
    entries: list[tuple[str, Colour, int]] = [
        (stage.name, i, stage.gpus) for i, stage in enumerate(plan.stages) if stage.deployed
    ]
    if plan.judge.gpus:
        entries.append(("judge", "grey", plan.judge.gpus))
    for name, colour, gpus in entries:
        words = f"{printable(name)}, {plural(gpus, device(plan.cluster.pools))}"
        if x and x + text_width(words) + 40 > WIDTH:
            x, y = 0.0, y + 18
        parts.append(
            group(colour_class(colour), rect(x, y + 1, 11, 11, "fill", rx=3), text(x + 17, y + 11, words))
        )
        x += text_width(words) + 40
    return y + 20
