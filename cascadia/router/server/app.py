"""The router's parts, put together: a lineup that serves requests, and what outlives it when plans change.

POSTs to the OpenAI API go to `service`, everything else to `face`, a FastAPI application, whose routing and validation
cost more than the whole of a request's way through `service`.
"""

import asyncio
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING

from prometheus_client import generate_latest

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.access.access import Access
from cascadia.router.access.cors import answer_preflight, is_preflight
from cascadia.router.access.guard import refusal, refuse
from cascadia.router.access.keys import Keyring
from cascadia.router.access.setup import access_of, keep_up
from cascadia.router.admin.broadcast import Operator
from cascadia.router.cascade.cascade import Cascade
from cascadia.router.cascade.sessions import Conversations
from cascadia.router.examiner.examiner import Examiner, examines
from cascadia.router.gates.base import Gate
from cascadia.router.handlers.service import Service
from cascadia.router.http.asgi import Application, Receive, Scope, Send
from cascadia.router.live.active_plan import Lineup, digest_of
from cascadia.router.live.dns_watch import Resolver
from cascadia.router.live.metrics_state import RouterState
from cascadia.router.live.reload_metrics import PlanMetrics
from cascadia.router.live.session_news import ConversationNews
from cascadia.router.live.swap import succeed
from cascadia.router.observers.observers import Watchers
from cascadia.router.replicas.dns_names import Addresses
from cascadia.router.replicas.draining import Departing
from cascadia.router.replicas.health import watch
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.server.peers import Siblings
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.request_log import Journal

if TYPE_CHECKING:
    from cascadia.router.admin.server import AdminServer
    from cascadia.router.live.reload import Reloader


class Router:
    """`start` and `stop` within a running event loop. `gate` replaces the one that the settings ask for.

    `keyring`: the keys of `settings.keys`; without it none is asked for. `write_event` gets the lines that are of no
    request: reloads, and calls of the admin API. `siblings`: the other processes that serve beside this one.
    """

    def __init__(
        self,
        settings: RouterSettings,
        write_line: Callable[[bytes], object] | None = None,
        gate: Gate | None = None,
        keyring: Keyring | None = None,
        write_event: Callable[[bytes], object] | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        self.metrics = Metrics()
        self.plan_metrics = PlanMetrics(self)
        self.journal = Journal(write_line, self.metrics.log_failures.inc)
        self.events = Journal(write_event or write_line, self.metrics.log_failures.inc)
        self.access: Access | None = access_of(settings.keys, keyring, self.metrics)
        self._gate = gate
        self.siblings = siblings or Siblings()
        self.siblings.answers["metrics"] = self._figures
        self.operator = Operator(self)
        self.watchers = Watchers(settings, self.metrics, self)
        self.examiner = Examiner(settings.limits, self.metrics.not_examined)
        self.held = HeldBytes(settings.limits.max_held_bytes)
        self.lineup = self._lined_up(settings)
        self.news = ConversationNews(self)
        self.news.follow()
        self.metrics.registry.register(RouterState(self))
        self.departing = Departing()
        self.resolver = Resolver(self)
        self.draining = False
        self.reloader: Reloader | None = None
        self.admin: AdminServer | None = None
        self._face: Application | None = None
        self._admin_face: Application | None = None
        self._samples_face: Application | None = None
        self._watchers: dict[Replica, asyncio.Task[None]] = {}
        self._retired: list[tuple[Lineup, list[Replica]]] = []
        """Older lineups with requests under way, oldest first, and the replicas that leave with each."""

    @property
    def settings(self) -> RouterSettings:
        return self.lineup.settings

    @property
    def stages(self) -> list[Stage]:
        return self.lineup.stages

    @property
    def all_stages(self) -> list[Stage]:
        """The judge's own among them, last."""
        return self.lineup.all_stages

    @property
    def judge(self) -> Stage | None:
        return self.lineup.judge

    @property
    def cascade(self) -> Cascade:
        return self.lineup.cascade

    @property
    def conversations(self) -> Conversations:
        return self.lineup.conversations

    @property
    def service(self) -> Service:
        return self.lineup.service

    @property
    def digest(self) -> str:
        """Digest of the plan in force; equal on routers that serve the same."""
        return digest_of(self.settings)

    @property
    def older(self) -> int:
        """Requests under way that began under plans before this one."""
        return sum(lineup.running for lineup, _ in self._retired)

    @property
    def ready(self) -> bool:
        """Tells whether a request to the cascade could be answered now."""
        return not self.draining and any(stage.ready for stage in self.stages)

    def swap(self, settings: RouterSettings) -> None:
        """Puts `settings` in force: requests begin under them from now on; those under way end under what they
        began with.

        All that can fail is done before anything changes, and nothing waits in between.
        """
        old = self.lineup
        new = self._lined_up(settings, old, self.resolver.known)
        drained = succeed(new, old)
        self.lineup = new
        self.news.follow()
        for replica in drained:
            self._unwatch(replica)
            self.departing.add(replica)
        stay = {replica for _, replica in new.replicas}
        gone = [replica for _, replica in old.replicas if replica not in stay]
        self._retired.append((old, gone))
        # Not at once: a request that is about to begin with the old lineup does so before.
        soon = asyncio.get_running_loop().call_soon
        old.service.on_idle = lambda: soon(self._retire)
        soon(self._retire)
        if old.settings.health != settings.health:
            for replica in stay:
                self._unwatch(replica)
        self._watch()

    def _lined_up(
        self, settings: RouterSettings, before: Lineup | None = None, known: Addresses = MappingProxyType({})
    ) -> Lineup:
        return Lineup(
            settings,
            self.metrics,
            self.journal,
            self.access,
            self.examiner,
            self.held,
            self._gate,
            before,
            self.watchers,
            known,
        )

    def hang_up(self) -> None:
        """Reads the files again, which is what SIGHUP means."""
        if self.reloader is not None:
            self.reloader.request("signal")

    def _retire(self) -> None:
        """Closes the stages that only older lineups had, when no request of those or older ones is left.

        Oldest first, as a stage's replicas are shared by all lineups that have it.
        """
        while self._retired and not self._retired[0][0].running:
            _, gone = self._retired.pop(0)
            for replica in gone:
                replica.drain()
                self._unwatch(replica)
                self.departing.add(replica)

    def _watch(self) -> None:
        for stage, replica in self.lineup.replicas:
            if replica.health_request and replica not in self._watchers:
                task = asyncio.create_task(watch(stage, replica, self.settings.health))
                self._watchers[replica] = task

    def _unwatch(self, replica: Replica) -> None:
        watcher = self._watchers.pop(replica, None)
        if watcher is not None:
            watcher.cancel()

    async def start(self) -> None:
        from cascadia.router.admin.public_routes import face

        self._face = face(self)
        if examines(self.settings):
            await self.examiner.begin()
        self.watchers.start()
        self._watch()
        self.resolver.start()
        keep_up(self.access, self.settings.keys, self.metrics)
        self.news.start()
        if self.settings.admin is not None:
            from cascadia.router.admin.routes import admin_face

            self._admin_face = admin_face(self)
        samples = self.settings.samples
        if samples is not None and samples.token is not None:
            from cascadia.router.admin.samples_routes import samples_face

            self._samples_face = samples_face(samples.folder, samples.token)
        if self.admin is not None:
            await self.admin.start()
        if self.reloader is not None:
            self.reloader.start()
        await self.siblings.start()
        await self.operator.catch_up()

    async def stop(self) -> None:
        if self.reloader is not None:
            await self.reloader.stop()
        await self.resolver.stop()
        await self.siblings.stop()
        await self.news.stop()
        if self.admin is not None:
            await self.admin.stop()
        watchers = list(self._watchers.values())
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        self._watchers.clear()
        await self.departing.stop()
        for replica in [
            *(r for _, r in self.lineup.replicas),
            *(r for _, gone in self._retired for r in gone),
        ]:
            replica.pool.close()
        if self.access is not None and self.access.shared is not None:
            await self.access.shared.close()
        self.journal.flush()
        self.events.flush()
        await self.watchers.stop()
        await self.examiner.stop()

    async def _figures(self, _: bytes = b"") -> bytes:
        return generate_latest(self.metrics.registry)

    async def face(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves what is not of the OpenAI API's POSTs, to who may see it."""
        if self._face is None:
            raise RuntimeError("a router serves after `start`")
        if self._admin_face is not None and self.admin is None and scope["path"].startswith("/admin/"):
            await self._admin_face(scope, receive, send)
            return
        if self._samples_face is not None and scope["path"].startswith("/samples"):
            await self._samples_face(scope, receive, send)
            return
        if self.settings.cors is not None and is_preflight(scope):
            await answer_preflight(self.settings.cors, scope, send)
            return
        refused = refusal(self.access, scope)
        if refused is None:
            await self._face(scope, receive, send)
        else:
            await refuse(refused, scope, send)
