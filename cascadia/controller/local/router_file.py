"""The router's file on this machine: a plan's router.yaml, with the replicas that there are."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cascadia.clients.processes.ports import Reserved
from cascadia.controller.local.members import Member, Members
from cascadia.controller.move.state import Routing


@dataclass(slots=True)
class LastSettings:
    """Settings that the router was given last."""

    routing: Routing | None = None
    document: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Named:
    """The replicas of a stage in the router's file, and the ports that wait there for the stage to come back."""

    entries: list[dict[str, Any]]
    held: list[Reserved] = field(default_factory=list)


class RouterFile:
    """`told`: what the router was given last."""

    def __init__(self, members: Members) -> None:
        self.told = LastSettings()
        self._members = members
        self._named: dict[str, _Named] = {}
        self._told: dict[str, list[dict[str, Any]]] = {}
        """Replicas by stage that the last document names anew."""

    def document(self, port: int | None) -> dict[str, Any]:
        """Router.yaml anew; `taken` says that it is in force. `port`: where the router listens already; None: where the
        plan says.
        """
        self._told = {}
        document = dict(self.told.document)
        if port is not None:
            document["port"] = port
        routed = () if self.told.routing is None else self.told.routing.stages
        return with_replicas(document, routed, self._replicas)

    def taken(self) -> None:
        """The router serves by the last document."""
        for stage, entries in self._told.items():
            for port in self._named.get(stage, _Named([])).held:
                port.release()
            self._named[stage] = _Named(entries)

    def routes_to(self, stage: str) -> bool:
        return self.told.routing is not None and stage in self.told.routing.stages

    def serving(self, stage: str) -> list[Member]:
        """Members behind the router's stage of that name."""
        told = {str(each["name"]): replicas_of(each) for each in self.told.document.get("stages", ())}
        return self._members.serving(told.get(stage, stage))

    def gone(self, member: Member) -> None:
        """Gives the member's port back, once the file no longer names it."""
        named = self._named.get(member.stage)
        if named is not None and any(entry["url"] == member.process.url for entry in named.entries):
            named.held.append(member.port)
        else:
            member.port.release()

    def _replicas(self, stage: str) -> list[dict[str, Any]]:
        """Replicas of a stage for the router's file. Where none is left those that were: the router refuses a
        file in which a stage has none, and must hear what else has changed. It finds them dead, and nobody else
        gets their ports.
        """
        found = [_entry(m) for m in self._members.serving(stage)]
        if not found:
            return self._named.get(stage, _Named([])).entries
        self._told[stage] = found
        return found


def with_replicas(
    document: Mapping[str, Any], routed: Iterable[str], replicas: Callable[[str], list[dict[str, Any]]]
) -> dict[str, Any]:
    """A plan's router.yaml with the replicas of each stage, or of its group's workers; of those routed to, the one that
    is none is the judge."""
    stages = [{"replicas": replicas(replicas_of(stage)), **stage} for stage in document["stages"]]
    found = {**document, "stages": stages}
    names = {replicas_of(stage) for stage in stages}
    for judge in (stage for stage in routed if stage not in names):
        found["judge"] = {**document["judge"], "replicas": replicas(judge)}
    return found


def is_elsewhere(server: Mapping[str, Any]) -> bool:
    """Tells whether a stage or a judge of a plan's router.yaml is somebody else's: at an address the plan knows."""
    return "replicas" in server


def all_elsewhere(router: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Stages, judges and foresight of a plan's router.yaml that are somebody else's, each with its name in messages."""
    judge = router.get("judge", {})
    named = [(f"stage {stage['name']}", stage) for stage in router.get("stages", ())]
    named += [("judge", judge)]
    named += [(f"judge.members[{at}]", member) for at, member in enumerate(judge.get("members", ()))]
    named += [("foresight", router.get("foresight", {}))]
    yield from ((name, told) for name, told in named if is_elsewhere(told))


def secrets_of(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Variables that hold secrets of the router: those that its file names, each in a key that ends in `_env`."""

    def within(found: object) -> Iterator[str]:
        if isinstance(found, Mapping):
            for name, value in found.items():
                if str(name).endswith("_env") and isinstance(value, str):
                    yield value
                yield from within(value)
        elif isinstance(found, Sequence) and not isinstance(found, str):
            for each in found:
                yield from within(each)

    return tuple(sorted(set(within(document))))


def replicas_of(stage: Mapping[str, Any]) -> str:
    """Name under which the fleet has the replicas of a stage of router.yaml."""
    return str(stage.get("group") or stage["name"])


def _entry(member: Member) -> dict[str, Any]:
    launch = member.launch
    entry: dict[str, Any] = {
        "url": member.process.url,
        "share": launch.capacity_rps,
        "health_path": launch.health_path,
        **launch.learns,
    }
    return entry if launch.max_concurrency is None else {**entry, "max_concurrency": launch.max_concurrency}
