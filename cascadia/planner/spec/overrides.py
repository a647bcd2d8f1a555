"""A spec with some of its values replaced, e.g. by flags of the command line. The result is checked anew."""

from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Literal

from pydantic import ValidationError

from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Level
from cascadia.files.field_errors import bad_input
from cascadia.planner.spec.model import PoolSpec, Spec
from cascadia.planner.spec.policy import PolicySpec

Where = Literal["command line", "arguments"]
_SECTIONS = {
    "rate_rps": "workload",
    "quality_min": "objective",
    "latency_max_s": "objective",
    "quantile": "objective",
    "within": "objective",
    "confidence": "quality",
    "budget_usd_per_hour": "cluster",
    "pools": "cluster",
}
_FLAGS = {"levels": "goodput", "budget_usd_per_hour": "budget"}
"""Flags that are called otherwise than what they set."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values in place of a spec's; None leaves the spec's own value. `gpus` are (pool or None for the only one,
    number of GPUs). `levels` stand in for all of the spec's. `where` they were given, for who has to mend one.
    """

    gpus: tuple[tuple[str | None, int], ...] = ()
    rate_rps: float | None = None
    quality_min: float | None = None
    _: KW_ONLY
    latency_max_s: float | None = None
    quantile: float | None = None
    confidence: float | None = None
    seed: int | None = None
    within: float | None = None
    gears: int | None = None
    levels: tuple[Level, ...] = ()
    budget_usd_per_hour: float | None = None
    pools: Literal["any"] | None = None
    where: Where = "command line"

    def of_one_pass(self, spec: PolicySpec) -> PolicySpec:
        """The spec of one-pass models with those of the values that it has. Raises `BadInput` for others."""
        document = spec.model_dump(exclude_unset=True)
        taken = ("rate_rps", "quality_min", "latency_max_s", "seed")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "where":
                continue
            if value is not None and value != () and each.name not in taken:
                told = "says nothing to models that answer in one pass"
                raise BadInput(_named(self.where, each.name), told, "leave it out")
            if value is not None and each.name == "seed":
                document["seed"] = value
            elif value is not None and value != ():
                document[_SECTIONS[each.name]][each.name] = value
        try:
            return PolicySpec.model_validate(document)
        except ValidationError as error:
            raise bad_input(error, PolicySpec, self.where) from None

    def __call__(self, spec: Spec) -> Spec:
        if self.pools is not None and self.gpus:
            # Which pools there are to be sized is known once they are written out.
            return replace(self, pools=None)(replace(self, gpus=())(spec))
        document = spec.model_dump(exclude_unset=True)
        for name, section in _SECTIONS.items():
            if (value := getattr(self, name)) is not None:
                document[section][name] = value
        if self.levels:
            document["objective"]["levels"] = [_told(level) for level in self.levels]
        if self.gears is not None:
            document["gears"] = {**(document.get("gears") or {}), "count": self.gears}
        if self.seed is not None:
            document["seed"] = self.seed
        for pool, gpus in self.gpus:
            index = _pool_index(spec.cluster.pools, pool, self.where)
            document["cluster"]["pools"][index].update(_sized(spec.cluster.pools[index], gpus, self.where))
        try:
            return Spec.model_validate(document)
        except ValidationError as error:
            raise bad_input(error, Spec, self.where) from None


def _told(level: Level) -> dict[str, Any]:
    return {"metric": level.metric, "quantile": level.quantile, "max_s": level.max_s}


def _named(where: Where, name: str) -> str:
    """What a user wrote to set `name`."""
    if where == "arguments":
        return f"{where}: {name}"
    return f"{where}: --{_FLAGS.get(name, name.replace('_', '-'))}"


def _pool_index(pools: tuple[PoolSpec, ...], name: str | None, where: Where) -> int:
    names = [pool.called for pool in pools]
    if name is None:
        if len(pools) == 1:
            return 0
        example = f"--gpus {names[0]}=N" if where == "command line" else f"gpus={{{names[0]!r}: N}}"
        raise BadInput(_named(where, "gpus"), "the spec has several pools", f"say which: {example}")
    # A GPU may have several names, of which the spec writes one and plans another.
    found = [index for index, own in enumerate(names) if own == name]
    found = found or [index for index, pool in enumerate(pools) if pool.gpu == name]
    if len(found) != 1:
        what = f"{'no pool' if not found else 'more than one pool'} is called {name!r}"
        raise BadInput(_named(where, "gpus"), what, f"pools: {', '.join(names)}")
    return found[0]


def _sized(pool: PoolSpec, gpus: int, where: Where) -> dict[str, Any]:
    """Size as whole nodes, or as a part of one."""
    if gpus < 1:
        raise BadInput(_named(where, "gpus"), f"must be at least 1, is {gpus}")
    if gpus <= pool.gpus_per_node:
        return {"nodes": 1, "gpus_per_node": gpus}
    if gpus % pool.gpus_per_node:
        what = f"{gpus} GPUs do not make whole nodes of {pool.gpus_per_node}"
        raise BadInput(_named(where, "gpus"), what, f"write a multiple of {pool.gpus_per_node}")
    return {"nodes": gpus // pool.gpus_per_node}
