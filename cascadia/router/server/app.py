"""The router's parts, put together: an active plan that serves requests, and what outlives it when plans change.

POSTs of the OpenAI API go to `service`, everything else to `routes`: FastAPI applications, whose routing and
validation cost more than the whole of a request's way through `service`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.access.access import Access
from cascadia.router.access.keys import Keyring
from cascadia.router.access.setup import access_of, check_budgets, keep_up
from cascadia.router.admin.broadcast import Operator
from cascadia.router.cascade.cascade import Cascade
from cascadia.router.cascade.sessions import Conversations
from cascadia.router.examiner.examiner import Examiner, examines
from cascadia.router.gates.base import Gate
from cascadia.router.handlers.service import Service
from cascadia.router.http.asgi import Application
from cascadia.router.live.active_plan import ActivePlan
from cascadia.router.live.dns_watch import Resolver
from cascadia.router.live.exit_states import ExitStates
from cascadia.router.live.fleet_load import FleetLoad
from cascadia.router.live.gears import Gears, GearWatch
from cascadia.router.live.metrics_state import RouterState
from cascadia.router.live.other_routers import OtherRouters
from cascadia.router.live.reload_metrics import PlanMetrics
from cascadia.router.live.session_news import ConversationNews
from cascadia.router.live.succession import Succession
from cascadia.router.observers.observers import Observers
from cascadia.router.replicas.dns_names import Addresses
from cascadia.router.replicas.draining import Departing
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.server.peers import Peers
from cascadia.router.server.workers import shared
from cascadia.router.settings.model import Limits, RouterSettings
from cascadia.router.telemetry.figures import figures
from cascadia.router.telemetry.kept_figures import KeptFigures
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.request_log import Journal

if TYPE_CHECKING:
    from cascadia.router.admin.server import AdminServer
    from cascadia.router.live.reload import Reloader


class Router:
    """`start` and `stop` within a running event loop. `gate` replaces the one that the settings ask for.

    `keyring`: the keys of `settings.keys`; without it none is asked for. `write_event` gets the lines that are of no
    request: reloads, and calls of the admin API. `peers`: the other processes that serve beside this one.
    `earlier`: names of stages that clients know of a process whose place this one takes.
    """

    def __init__(
        self,
        settings: RouterSettings,
        write_line: Callable[[bytes], object] | None = None,
        gate: Gate | None = None,
        keyring: Keyring | None = None,
        write_event: Callable[[bytes], object] | None = None,
        peers: Peers | None = None,
        earlier: tuple[str, ...] = (),
    ) -> None:
        self.metrics = Metrics()
        self.plan_metrics = PlanMetrics(self)
        self.journal = Journal(write_line, self.metrics.log_failures.inc)
        self.events = Journal(write_event or write_line, self.metrics.log_failures.inc)
        self.access: Access | None = access_of(settings.keys, keyring, self.metrics)
        self._gate = gate
        self.peers = peers or Peers()
        own = self._own(settings)
        folder = self.peers.folder if self.peers.count > 1 else None
        self.figures = KeptFigures(folder, partial(figures, self.metrics.registry))
        self.peers.answers["metrics"] = self.figures.told
        self.operator = Operator(self)
        self.observers = Observers(own, self.metrics, self)
        self.examiner = Examiner(own.limits, self.metrics.not_examined)
        self.held = HeldBytes(own.limits.max_held_bytes)
        self.load = FleetLoad(self)
        self.plans = Succession(self._activated(settings, earlier=earlier), self.events.line)
        self.others = OtherRouters(self, self.observers.page)
        self.news = ConversationNews(self)
        self.news.follow()
        self.metrics.registry.register(RouterState(self))
        self.resolver = Resolver(self)
        self.gear_watch = GearWatch(self, self.load)
        self.exit_states = ExitStates(self)
        self.draining = False
        self.reloader: Reloader | None = None
        self.admin: AdminServer | None = None
        self._routes: Application | None = None

    @property
    def active_plan(self) -> ActivePlan:
        return self.plans.now

    @property
    def settings(self) -> RouterSettings:
        return self.active_plan.settings

    @property
    def limits(self) -> Limits:
        """This process's part of those in force."""
        return self.service.limits

    @property
    def stages(self) -> list[Stage]:
        return self.active_plan.stages

    @property
    def all_stages(self) -> list[Stage]:
        """The judge's own among them, last."""
        return self.active_plan.all_stages

    @property
    def aliases(self) -> Mapping[str, str]:
        return self.service.aliases

    @property
    def replicas(self) -> Iterator[tuple[Stage, Replica]]:
        return self.active_plan.replicas

    @property
    def judge(self) -> Stage | None:
        return self.active_plan.judge

    @property
    def cascade(self) -> Cascade:
        return self.active_plan.cascade

    @property
    def gears(self) -> Gears | None:
        return self.active_plan.gears

    @property
    def conversations(self) -> Conversations:
        return self.active_plan.conversations

    @property
    def service(self) -> Service:
        return self.active_plan.service

    @property
    def departing(self) -> Departing:
        return self.plans.departing

    @property
    def older(self) -> int:
        """Requests under way that began under plans before this one."""
        return self.plans.older

    @property
    def digest(self) -> str:
        """Digest of the plan in force; equal on routers that serve the same."""
        return self.active_plan.digest

    @property
    def names(self) -> tuple[str, ...]:
        """Names that clients may know of stages in force and of those before."""
        return self.active_plan.names

    @property
    def ready(self) -> bool:
        """Tells whether a request to the cascade could be answered now."""
        return not self.draining and any(stage.ready for stage in self.stages)

    @property
    def routes(self) -> Application:
        """Application that serves what is not of the OpenAI API's POSTs, to who may see it."""
        if self._routes is None:
            raise RuntimeError("a router serves after `start`")
        return self._routes

    def swap(self, settings: RouterSettings) -> None:
        """Puts `settings` in force: requests begin under them from now on; those under way end under what they
        began with.

        All that can fail is done before anything changes.
        """
        new = self._activated(settings, self.active_plan, self.resolver.known)
        self.plans.swap(new, self.news.follow)

    def hang_up(self) -> None:
        """Reads the files again, which is what SIGHUP means."""
        if self.reloader is not None:
            self.reloader.hang_up()

    async def start(self) -> None:
        # FastAPI takes a while to load, which who only plans need not wait for.
        from cascadia.router.server.routes import Routes

        self._routes = Routes(self, admin_here=self.settings.admin is not None and self.admin is None)
        if examines(self.settings):
            await self.examiner.begin()
        self.observers.start()
        self.plans.watch()
        self.resolver.start()
        check_budgets(self.settings, self.access.keyring if self.access is not None else None)
        await keep_up(self.access, self.settings.keys, self.metrics, self.events)
        self.news.start()
        self.others.start()
        self.gear_watch.start()
        await self.exit_states.start()
        if self.admin is not None:
            await self.admin.start()
        if self.reloader is not None:
            self.reloader.start()
        await self.figures.start()
        await self.peers.start()
        await self.operator.catch_up()

    async def stop(self) -> None:
        if self.reloader is not None:
            await self.reloader.stop()
        await self.resolver.stop()
        await self.gear_watch.stop()
        await self.exit_states.stop()
        await self.peers.stop()
        await self.news.stop()
        await self.others.stop()
        if self.admin is not None:
            await self.admin.stop()
        await self.plans.stop()
        if self.access is not None:
            await self.access.spending.stop()
            if self.access.shared is not None:
                await self.access.shared.close()
        self.journal.flush()
        self.events.flush()
        await self.observers.stop()
        await self.examiner.stop()
        await self.figures.stop()

    def _own(self, settings: RouterSettings) -> RouterSettings:
        return shared(settings, self.peers.count, self.peers.number)

    def _activated(
        self,
        settings: RouterSettings,
        before: ActivePlan | None = None,
        known: Addresses = MappingProxyType({}),
        earlier: tuple[str, ...] = (),
    ) -> ActivePlan:
        return ActivePlan(
            settings,
            self.metrics,
            self.journal,
            own=self._own(settings),
            access=self.access,
            examiner=self.examiner,
            held=self.held,
            given_gate=self._gate,
            before=before,
            observers=self.observers,
            known=known,
            load=self.load,
            earlier=earlier,
        )
