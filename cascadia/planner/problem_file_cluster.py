"""The pools that a spec lists, with names and prices filled in from the GPU catalogue."""

from itertools import count

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.problem_file_models import told_at
from cascadia.planner.spec import ClusterSpec, PoolSpec
from cascadia_sim.gpus_catalogue import gpu


def build_cluster(spec: ClusterSpec, file: str) -> Cluster:
    """A pool without a name takes its GPU's, numbered where that is taken."""
    taken = {pool.name for pool in spec.pools if pool.name is not None}
    pools: list[Pool] = []
    for index, pool in enumerate(spec.pools):
        pools.append(_pool(pool, taken, f"{file}: cluster.pools[{index}].gpu"))
        taken.add(pools[-1].name)
    return Cluster(tuple(pools))


def _pool(spec: PoolSpec, taken: set[str], where: str) -> Pool:
    with told_at(where):
        found = gpu(spec.gpu)
    price = found.usd_per_hour if spec.usd_per_gpu_hour is None else spec.usd_per_gpu_hour
    return Pool(spec.name or _free(found.name, taken), found.name, spec.nodes, spec.gpus_per_node, price)


def _free(name: str, taken: set[str]) -> str:
    numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(candidate for candidate in numbered if candidate not in taken)
