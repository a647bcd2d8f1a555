"""A controller's state in a ConfigMap, so that any node can take over; what has to survive is small.

A volume would tie the controller to a node or ask for storage that nodes share, and `kubectl get configmap` would not
show what it says. Plans are kept compressed, the history's last entries of each kind as lines of JSON.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cascadia.clients.cluster.kubernetes_api import Document, KubernetesApi
from cascadia.controller.memory.history import Entry, entries_of
from cascadia.controller.memory.latest import Latest, lines_within
from cascadia.controller.memory.state import UnderWay, is_state
from cascadia.domain.errors import BadInput
from cascadia.render.kubernetes.controller import NAME
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router import NAME as ROUTER

MOST_BYTES = 900_000
"""Of all: a ConfigMap may have 1 MiB."""
HISTORY, MOVE, HELM_VALUES = "history.jsonl", "move.json", "helm-values.yaml"


class KubernetesState:
    """State kept in the cluster. What is put here is on the cluster when `save` returns; plans are laid out in
    `folder`.
    """

    def __init__(self, api: KubernetesApi, release: Release, folder: Path) -> None:
        self._api = api
        self._release = release
        self._folder = folder
        self._latest = Latest()
        self._in_force: str | None = None
        self._under_way: UnderWay | None = None
        self._saved: Document | None = None
        self.helm_values = ""
        """Of the plan in force, for who turns the controller off."""
        self.given = ""
        """The plan that the release was given last, as `keep` calls it."""

    async def load(self) -> None:
        """Raises `BadInput` for a state that a controller cannot go on with."""
        found = await self._api.get("ConfigMap", _name(self._release))
        if found is None:
            return
        data = found.get("data") or {}
        try:
            self._take_up(data.get(MOVE, "{}"), found.get("binaryData") or {})
        except (ValueError, TypeError, RecursionError, zlib.error) as error:
            where = f"{self._api.namespace}/{_name(self._release)}"
            what = f"holds no state of a controller of this version ({error})"
            raise BadInput(
                where, what, "delete that ConfigMap: the release's own plan is then moved to"
            ) from None
        for entry in _entries(data):
            self._latest.add(entry)

    def _take_up(self, told: str, packed: Mapping[str, str]) -> None:
        """Raises `ValueError`, `TypeError` or `zlib.error` where nothing can be made of it."""
        said = json.loads(told)
        if not is_state(said):
            raise ValueError(f"{MOVE} is torn")
        move = said.get("move")
        if move is not None and not is_state(move, "to", "from", "need_rps", "need_now_rps"):
            raise ValueError(f"the move in {MOVE} is torn")
        in_force = said.get("in_force")
        wanted = {in_force} - {None} | ({move["to"], move["from"]} if move else set())
        if missing := sorted(wanted - packed.keys()):
            raise ValueError(f"the plan {missing[0]} is missing")
        for key, plan in packed.items():
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.decompress(base64.b64decode(plan)))
        self._in_force, self.given = in_force, said.get("given") or ""
        if move is not None:
            plans = self._path(move["to"]), self._path(move["from"])
            self._under_way = UnderWay(*plans, move["need_rps"], move["need_now_rps"])

    async def save(self) -> None:
        """Writes the state; the cluster is asked nothing where nothing has changed."""
        document = self._document()
        if document != self._saved:
            owner = await self._api.owner("Service", self._release.named(ROUTER))
            about = {**self._release.metadata(f"{NAME}-state", NAME), "ownerReferences": [owner]}
            await self._api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, **document})
            self._saved = document

    def add(self, entry: Entry) -> None:
        self._latest.add(entry)

    def entries(self) -> list[Entry]:
        return self._latest.entries()

    @property
    def begun(self) -> bool:
        """Tells whether a plan has ever been in force."""
        return self._in_force is not None

    def in_force(self) -> Path:
        if self._in_force is None:
            raise LookupError("no plan is in force yet")
        return self._path(self._in_force)

    def keep(self, plan: Path) -> Path:
        """A copy that stays as it is, in a folder whose name tells it from all others."""
        return self._path(self._kept(plan))

    def put_in_force(self, plan: Path) -> None:
        self._in_force = self._kept(plan)

    def under_way(self) -> UnderWay | None:
        return self._under_way

    def put_under_way(self, move: UnderWay | None) -> None:
        if move is not None:
            move = UnderWay(self.keep(move.to), self.keep(move.back), move.need_rps, move.need_now_rps)
        self._under_way = move

    def _document(self) -> Document:
        move: dict[str, Any] | None = None
        keys = {self._in_force} if self._in_force is not None else set()
        if self._under_way is not None:
            to, back = self._under_way.to.parent.name, self._under_way.back.parent.name
            keys |= {to, back}
            needs = {"need_rps": self._under_way.need_rps, "need_now_rps": self._under_way.need_now_rps}
            move = {"to": to, "from": back, **needs}
        plans = {key: base64.b64encode(zlib.compress(self._path(key).read_bytes())).decode() for key in keys}
        said = {"in_force": self._in_force, "given": self.given, "move": move}
        # The history gives way: without plans a controller cannot go on.
        room = MOST_BYTES - sum(map(len, plans.values()))
        lines = lines_within(self.entries(), room)
        told = {HISTORY: "".join(lines), MOVE: json.dumps(said)}
        if self.helm_values:
            told[HELM_VALUES] = self.helm_values
        return {"data": told, "binaryData": plans}

    def _kept(self, plan: Path) -> str:
        text = plan.read_bytes()
        if plan.parent.parent == self._folder / "kept":
            return plan.parent.name
        key = f"{plan.parent.name}-{blake2b(text, digest_size=4).hexdigest()}"
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        return key

    def _path(self, key: str) -> Path:
        return self._folder / "kept" / key / "plan.json"


async def read_kubernetes_history(api: KubernetesApi, release: Release) -> list[Entry]:
    """Raises `BadInput` where no controller has kept one."""
    found = await api.get("ConfigMap", _name(release))
    if found is None:
        raise BadInput(
            f"{api.namespace}/{_name(release)}", "there is no history", "is the release's controller on?"
        )
    return list(_entries(found.get("data") or {}))


def _name(release: Release) -> str:
    return release.named(f"{NAME}-state")


def _entries(data: dict[str, str]) -> Iterable[Entry]:
    # Not `splitlines`: what is said in an entry may have other ends of lines than ours.
    return entries_of(data.get(HISTORY, "").split("\n"))
