"""Section `groups` of router.yaml: one-pass models on the same workers, and when which of them takes a batch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cascadia.domain.errors import BadInput
from cascadia.domain.names import LONGEST_NAME, NAME
from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.files.homes import named_path
from cascadia.files.policies_file import policies_of, read_policies
from cascadia.router.settings.model import GroupSettings, RouterSettings, StageSettings

Length = Annotated[int, Field(ge=1, le=1024)]


class MinQueueSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    up_to_rps: float = Field(gt=0, description="Arrivals a second, up to which these lengths hold.")
    lengths: dict[str, Length] = Field(
        description="Least number that waits before a batch goes, by stage; else 1."
    )


class GroupSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME)
    policies: Path | dict[str, Any] | None = Field(
        None, description="Which model takes a waiting batch: a file of policies.json, or its content."
    )
    slo_ms: float = Field(
        200.0, gt=0, description="Milliseconds from arrival to deadline, where a request has none."
    )
    max_batch: Length = Field(32, description="Inputs of a batch to a named stage.")
    min_queue: list[MinQueueSection] = Field(
        default_factory=list,
        max_length=64,
        description="Numbers that must wait for a stage before a batch goes to it, by rising load.",
    )
    max_wait_ms: float = Field(
        20.0, ge=0, description="Milliseconds after which a batch goes, however short."
    )


def groups_of(
    sections: Sequence[GroupSection], stages: Sequence[StageSettings], folder: Path, where: str
) -> tuple[GroupSettings, ...]:
    """Reads the files that are named. Raises `BadInput`."""
    found = []
    for at, section in enumerate(sections):
        members = [stage for stage in stages if stage.group == section.name]
        place = f"{where}: groups[{at}]"
        policies = None
        if section.policies is not None:
            told = section.policies
            at_key = f"{place}.policies"
            policies = (
                policies_of(told, at_key)
                if isinstance(told, dict)
                else read_policies(named_path(folder, told))
            )
            _check_models(policies, members, at_key)
            _check_batches(policies, members, at_key)
        workers = len(members[0].replicas) if members else 0
        _check_lengths(section, members, place)
        if any(one_by_one(stage) for stage in members):
            section = section.model_copy(update={"max_batch": 1, "min_queue": []})
        own = {stage.name: minimum_queue(stage.name, section, workers) for stage in members}
        found.append(GroupSettings(section.name, own, policies))
    return tuple(found)


def minimum_queue(stage: str, section: GroupSection, workers: int) -> Policies:
    """A batch goes to `stage` when so many wait as the load asks for, or the first has waited for as long as it may
    (CascadeServe, section 4.5)."""
    slo_s = section.slo_ms / 1e3
    sendable_s = max(0.0, slo_s - section.max_wait_ms / 1e3)
    lengths = [(each.up_to_rps, each.lengths.get(stage, 1)) for each in section.min_queue] or [(1.0, 1)]
    levels = []
    for up_to, least in lengths:
        rows = [_waits(stage, queued, sendable_s) for queued in range(1, min(least, section.max_batch))]
        rows += [
            PolicyRow((0.0,), (stage,), (queued,)) for queued in range(len(rows) + 1, section.max_batch + 1)
        ]
        levels.append(Policy(up_to, tuple(rows)))
    return Policies(
        stage,
        (stage,),
        slo_s=slo_s,
        workers=max(1, workers),
        queue="central",
        index="rate",
        levels=tuple(levels),
        kind="minimum-queue",
    )


def _waits(stage: str, queued: int, sendable_s: float) -> PolicyRow:
    if sendable_s <= 0:
        return PolicyRow((0.0,), (stage,), (queued,))
    return PolicyRow((0.0, sendable_s), (stage, stage), (queued, 0))


def _check_models(policies: Policies, members: Sequence[StageSettings], at: str) -> None:
    names = [stage.name for stage in members]
    if unknown := [name for name in policies.models if name not in names]:
        raise BadInput(at, f"are for {unknown[0]!r}, no stage of this group", f"it has {', '.join(names)}")


def one_by_one(stage: StageSettings) -> bool:
    """Tells whether no two requests to it go together: a ranking is of one query."""
    return stage.task == "rerank"


def _check_batches(policies: Policies, members: Sequence[StageSettings], at: str) -> None:
    largest = max(max(row.batch) for level in policies.levels for row in level.rows)
    if largest > 1 and any(map(one_by_one, members)):
        raise BadInput(
            at, f"take {largest} rankings at once, and each is a batch of its own", "plan with task: rerank"
        )


def _check_lengths(section: GroupSection, members: Sequence[StageSettings], place: str) -> None:
    names = [stage.name for stage in members]
    if section.min_queue and section.max_wait_ms >= section.slo_ms:
        raise BadInput(
            f"{place}.max_wait_ms",
            f"is {section.max_wait_ms:g}, and slo_ms {section.slo_ms:g}",
            "let nobody wait for others until the deadline: write less",
        )
    if section.min_queue and any(map(one_by_one, members)):
        raise BadInput(f"{place}.min_queue", "waits for what no batch joins: rankings", "leave it out")
    last = 0.0
    for at, each in enumerate(section.min_queue):
        if unknown := [name for name in each.lengths if name not in names]:
            raise BadInput(
                f"{place}.min_queue[{at}].lengths",
                f"{unknown[0]!r} is no stage of it",
                f"it has {', '.join(names)}",
            )
        if each.up_to_rps <= last:
            raise BadInput(f"{place}.min_queue[{at}].up_to_rps", "does not rise", "list them by rising load")
        last = each.up_to_rps


def check_groups(settings: RouterSettings, where: str) -> None:
    """Raises `BadInput` where a group has no stage, or its stages other workers."""
    groups: Mapping[str, int] = {group.name: at for at, group in enumerate(settings.groups)}
    names = [stage.name for stage in settings.stages]
    for group, at in groups.items():
        members = [stage for stage in settings.stages if stage.group == group]
        place = f"{where}: groups[{at}]"
        if group in names or group == settings.cascade:
            raise BadInput(f"{place}.name", f"{group!r} is taken", "give the group a name of its own")
        if not members:
            raise BadInput(place, "has no stage", f"write group: {group} into its stages")
        if settings.task == "generate":
            raise BadInput(
                place, "has task generate", "only models that answer in one pass are served in batches"
            )
        first = [replica.url for replica in members[0].replicas]
        for stage in members[1:]:
            if [replica.url for replica in stage.replicas] != first:
                raise BadInput(
                    place,
                    f"{stage.name} has other workers than {members[0].name}",
                    "name the same replicas for all stages of a group: each worker has all its models",
                )
        if any(replica.resolve for replica in members[0].replicas):
            raise BadInput(place, "has replicas behind a name that is resolved", "name each worker's address")
    for i, stage in enumerate(settings.stages):
        if stage.group is not None and stage.group not in groups:
            known = f"there are {', '.join(groups)}" if groups else f"add groups: [{{name: {stage.group}}}]"
            raise BadInput(f"{where}: stages[{i}].group", f"{stage.group!r} is no group", known)
