"""Models, GPUs and shapes as people call them. Names come from outside: control characters are taken out."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import ReplicaGroup

_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?)([bm])(?![a-z0-9])", re.IGNORECASE)


def printable(name: str) -> str:
    """The name without what would steer a terminal or turn the direction of writing."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)


def model_label(model: str) -> str:
    """ "meta-llama/Llama-3.1-8B-Instruct" -> "Llama-3.1-8B-Instruct"; a config.json goes by its folder."""
    parts = [part for part in re.split(r"[/\\]", printable(model)) if part]
    if len(parts) > 1 and parts[-1].endswith(".json"):
        parts.pop()
    return parts[-1] if parts else printable(model)


def model_short(model: str) -> str:
    """Short name of a model: its size where the name tells it ("8B", "8x7B"), else its label."""
    label = model_label(model)
    found = _SIZE.search(label)
    return f"{found[1].lower()}{found[2].upper()}" if found else label


def gpu_label(gpu: str, names: Mapping[str, str]) -> str:
    """ "h100-sxm" -> "H100", "a100-80gb-pcie" -> "A100 80GB PCIe"."""
    if gpu in names:
        return names[gpu]
    words = [word for word in printable(gpu).split("-") if not re.fullmatch(r"sxm\d?", word, re.IGNORECASE)]
    return " ".join("PCIe" if word.lower() == "pcie" else word.upper() for word in words)


def device(pools: Iterable[Pool]) -> str:
    """Name of a place in these pools: "core" where all are of servers, else "GPU"."""
    return "core" if all(pool.gpu == "cpu" for pool in pools) else "GPU"


def devices(pools: Iterable[Pool]) -> str:
    """Heading over a number of them: "GPUs" or "Cores"."""
    return "Cores" if device(pools) == "core" else "GPUs"


def shape(group: ReplicaGroup) -> str:
    """ "TP4 PP3"."""
    return f"TP{group.tp}" + (f" PP{group.pp}" if group.pp > 1 else "")


def replicas(groups: Sequence[ReplicaGroup], cluster: Cluster, separator: str = " + ") -> str:
    """ "4 × TP2 + 1 × TP4 PP3", with the pool where the cluster has several; "–" for none."""
    several = len(cluster.pools) > 1
    listed = [
        f"{group.count} × {shape(group)}" + (f" on {printable(group.pool)}" if several else "")
        for group in groups
        if group.count > 0
    ]
    return separator.join(listed) or "–"


def gpus_in_words(groups: Iterable[ReplicaGroup], cluster: Cluster, names: Mapping[str, str]) -> str:
    """ "24 H100 GPUs", "16 H100 and 8 L40S GPUs"; where all are CPUs, "2 CPU cores"."""
    counts: Counter[str] = Counter()
    for group in groups:
        counts[gpu_label(cluster.pool(group.pool).gpu, names)] += group.gpus
    total = sum(counts.values())
    listed = listing([f"{count:,} {gpu}" for gpu, count in counts.items() if count])
    if set(counts) == {"CPU"}:
        return f"{listed} {'core' if total == 1 else 'cores'}"
    return f"{listed or 'no'} {'GPU' if total == 1 else 'GPUs'}"


def listing(items: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else list(items))
