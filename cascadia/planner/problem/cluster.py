"""The pools that a spec lists, with names and prices filled in from the GPU catalogue."""

from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from cascadia.domain.cluster import Cluster, Pool, Spot
from cascadia.domain.errors import BadInput
from cascadia.planner.problem.models import told_at
from cascadia.planner.spec.gpu import GpuSpec
from cascadia.planner.spec.gpu_file import gpu_path, own_gpu, read_gpu
from cascadia.planner.spec.model import ClusterSpec, PoolSpec
from cascadia_sim.evidence.unmeasured import why_unmeasured
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.own import OwnGpu


class ClusterRead(NamedTuple):
    """`files` are those that the spec's GPUs stand in; `notes` say what of the cluster was never measured."""

    cluster: Cluster
    files: tuple[Path, ...]
    notes: tuple[str, ...]


def build_cluster(spec: ClusterSpec, folder: Path, file: str) -> ClusterRead:
    """A pool without a name takes its GPU's, numbered where that is taken. Relative paths start at `folder`."""
    if spec.budget_usd_per_hour is None and any(pool.rent == "gpu" for pool in spec.pools):
        raise BadInput(
            f"{file}: cluster.budget_usd_per_hour",
            "is missing, and GPUs are to be rented one by one",
            "say what they may cost together: budget_usd_per_hour: 24, or --budget 24",
        )
    taken = _given(spec)
    pools: list[Pool] = []
    for index, pool in enumerate(spec.pools):
        pools.append(_pool(pool, taken, folder, f"{file}: cluster.pools[{index}]"))
        taken.add(pools[-1].name)
    files = tuple(path for pool in spec.pools if (path := _path(pool, folder)) is not None)
    notes = dict.fromkeys(why for pool in pools if (why := why_unmeasured(pool.hardware)) is not None)
    return ClusterRead(Cluster(tuple(pools), spec.budget_usd_per_hour), files, tuple(notes))


def with_names(spec: ClusterSpec, folder: Path) -> ClusterSpec:
    """`spec` with each pool under the name that plans have it under, for who changes one by its name. A pool whose GPU
    is none stays as it is: `build_cluster` says so."""
    taken, pools = _given(spec), list(spec.pools)
    for index, pool in enumerate(pools):
        with suppress(BadInput):
            pools[index] = pool.model_copy(update={"name": _pool(pool, taken, folder, "").name})
            taken.add(pools[index].called)
    return spec.model_copy(update={"pools": tuple(pools)})


def _given(spec: ClusterSpec) -> set[str]:
    return {pool.name for pool in spec.pools if pool.name is not None}


def _path(pool: PoolSpec, folder: Path) -> Path | None:
    return gpu_path(pool.gpu, folder) if isinstance(pool.gpu, str) else None


def _pool(spec: PoolSpec, taken: set[str], folder: Path, where: str) -> Pool:
    own = _own(spec, folder, f"{where}.gpu")
    if own is not None:
        if spec.usd_per_gpu_hour is None:
            raise BadInput(
                f"{where}.usd_per_gpu_hour",
                "is missing",
                f"add what an hour of {own.name} costs: no catalogue does",
            )
        name = spec.name or _free(own.name, taken)
        return _made(spec, name, own.name, spec.usd_per_gpu_hour, own)
    with told_at(f"{where}.gpu"):
        found = gpu(str(spec.gpu))
    price = found.usd_per_hour if spec.usd_per_gpu_hour is None else spec.usd_per_gpu_hour
    return _made(spec, spec.name or _free(found.name, taken), found.name, price)


def _made(spec: PoolSpec, name: str, gpu_name: str, usd: float, own: OwnGpu | None = None) -> Pool:
    spot = Spot(spec.spot.usd_per_gpu_hour, spec.spot.interruptions_per_day) if spec.spot else None
    return Pool(name, gpu_name, spec.nodes, spec.gpus_per_node, usd, own, spot=spot, rent=spec.rent)


def _own(spec: PoolSpec, folder: Path, where: str) -> OwnGpu | None:
    """The GPU that the pool describes, itself or in a file; `where` it stands in the spec."""
    if isinstance(spec.gpu, GpuSpec):
        return own_gpu(spec.gpu, where)
    path = _path(spec, folder)
    return None if path is None else read_gpu(path, where)


def _free(name: str, taken: set[str]) -> str:
    numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(candidate for candidate in numbered if candidate not in taken)
