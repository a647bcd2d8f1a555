"""A spec on the GPUs that there are just now: of a pool its whole nodes, without pools that have gone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cascadia.planner.spec.model import Spec


def on_gpus(spec: "Spec", gpus: Mapping[str, int]) -> "Spec":
    """`gpus`: by pool, those there are. A node that lacks one of its GPUs is no whole node; what is left of a pool's
    only node is. Raises `BadInput` where nothing is left at all.
    """
    from cascadia.planner.spec.overrides import Overrides

    pools = [pool for pool in spec.cluster.pools if gpus.get(pool.called, pool.gpus_per_node) > 0]
    if pools:
        spec = spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"pools": tuple(pools)})})
    sizes = []
    for pool in pools or spec.cluster.pools:
        there = gpus.get(pool.called)
        if there is not None:
            whole = there if there <= pool.gpus_per_node else there - there % pool.gpus_per_node
            sizes.append((pool.called, whole))
    return Overrides(gpus=tuple(sizes))(spec)
