"""A controller on a cluster: waits for its turn, takes up what it finds, and then watches, holds and moves."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from cascadia.clients.cluster.kubernetes_api import ApiFailed, KubernetesApi
from cascadia.clients.cluster.router_samples import SamplesMissing
from cascadia.controller.decide.agreement import check_agreement
from cascadia.controller.kubernetes.backend import patiently
from cascadia.controller.kubernetes.hand_to_helm import hand_back
from cascadia.controller.kubernetes.lease import DURATION_S, Lease
from cascadia.controller.kubernetes.plans import KubernetesPlans
from cascadia.controller.kubernetes.state import KubernetesState
from cascadia.controller.loop import Controller
from cascadia.controller.memory.state import UnderWay
from cascadia.controller.move.backend import Backend, StepFailed
from cascadia.controller.move.state import Desired, Observed
from cascadia.controller.move.steps import Step
from cascadia.controller.shipped import SCALE_S
from cascadia.domain.errors import BadInput, CascadiaError
from cascadia.files.plan_file import read_plan
from cascadia.render import render
from cascadia.render.kubernetes.controller import NAME
from cascadia.render.kubernetes.release import Release


class SavedPlans:
    """`plans`, whose backend takes no step before the state is on the cluster."""

    def __init__(self, plans: KubernetesPlans, state: KubernetesState) -> None:
        self.backend: Backend = _Saved(plans.backend, state)
        self.plans = plans

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        return self.plans.desired(plan, need_rps)


class _Saved:
    def __init__(self, backend: Backend, state: KubernetesState) -> None:
        self._backend = backend
        self._state = state

    async def observe(self) -> Observed:
        return await self._backend.observe()

    async def take(self, step: Step) -> None:
        try:
            await patiently(self._state.save)
        except ApiFailed as error:
            raise StepFailed(f"{step}: {error}") from error
        await self._backend.take(step)


def lease_of(api: KubernetesApi, release: Release, holder: str, duration_s: float = DURATION_S) -> Lease:
    """One for each release. It outlives the controllers and goes with the release's namespace or by hand."""
    about = release.metadata(NAME, NAME)
    document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about}
    return Lease(api, document, holder, duration_s)


async def run(
    controller: Controller,
    plans: KubernetesPlans,
    state: KubernetesState,
    lease: Lease,
    api: KubernetesApi,
    plan: Path,
    *,
    look_s: float,
    fetch: Callable[[], Awaitable[None]] | None = None,
    gives_back: bool = False,
    leads: Callable[[], None] = lambda: None,
    passed: Callable[[], None] = lambda: None,
    failed: Callable[[CascadiaError], None] = lambda _: None,
) -> None:
    """Runs the loop while this controller holds the lease, until it is cancelled. `plan`: the file with the
    plan that the release is given, which may change. `fetch` brings the workload log up to date. `gives_back`:
    makes engines Helm's, and nothing else. `passed` and `failed` are told how each look went.

    Raises `LeaseLost`, also in the middle of a step: another controller goes on.
    """
    await lease.acquire()
    api.fence = lease.fence
    leads()
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(lease.keep())
            if gives_back:
                await _give_back(controller, plans, state)
            await _begin(controller, plans, state, plan)
            both.create_task(_scale(controller, state, failed))
            await _lead(
                controller, plans, state, plan=plan, look_s=look_s, fetch=fetch, passed=passed, failed=failed
            )
    except* CascadiaError as group:
        raise group.exceptions[0] from None
    finally:
        await lease.release()


async def _give_back(controller: Controller, plans: KubernetesPlans, state: KubernetesState) -> None:
    """Engines are Helm's then, and this does nothing more but keep others from doing something."""
    await patiently(state.load)
    plan = state.in_force()
    given = await hand_back(plans.backend.api, plans.read(plan))
    found = read_plan(plan)
    state.helm_values = render(found, found.cluster, "helm-values")
    controller.note("handed-back", f"{given} pods of {plan.parent.name}: turn the controller off", {})
    await state.save()
    await asyncio.Event().wait()


async def _begin(controller: Controller, plans: KubernetesPlans, state: KubernetesState, plan: Path) -> None:
    await patiently(state.load)
    if not state.begun:
        state.put_in_force(plan)
        state.given = state.keep(plan).parent.name
    await patiently(state.save)
    if taken := await plans.backend.prepare(plans.read(state.in_force())):
        controller.note("adopted", f"{taken} pods of engines that Helm had made", {})
    await controller.adopt()


async def _scale(
    controller: Controller, state: KubernetesState, failed: Callable[[CascadiaError], None]
) -> None:
    """The inner loop, beside the other."""
    while True:
        try:
            await controller.scale()
            await state.save()
        except (ApiFailed, StepFailed, BadInput) as error:
            failed(error)
        await asyncio.sleep(SCALE_S)


async def _lead(
    controller: Controller,
    plans: KubernetesPlans,
    state: KubernetesState,
    *,
    plan: Path,
    look_s: float,
    fetch: Callable[[], Awaitable[None]] | None,
    passed: Callable[[], None],
    failed: Callable[[CascadiaError], None],
) -> None:
    while True:
        try:
            held = await _look(controller, plans, state, plan, fetch)
            await state.save()
        except (ApiFailed, StepFailed, BadInput, SamplesMissing) as error:
            failed(error)
        else:
            if held:
                passed()
        await asyncio.sleep(look_s)


async def _look(
    controller: Controller,
    plans: KubernetesPlans,
    state: KubernetesState,
    plan: Path,
    fetch: Callable[[], Awaitable[None]] | None,
) -> bool:
    """False where what runs could not be made what the plan in force says."""
    given = state.keep(plan)
    if given.parent.name != state.given:
        check_agreement(controller.settings.spec, given)
        new, old = plans.read(given), plans.read(state.in_force())
        controller.note("given", f"another plan was given: {given.parent.name}", {})
        needs = dict(new.rates_rps), dict(old.rates_rps)

        def begins() -> None:
            # Not before: the inner loop saves the state too, and whoever took over then would find a plan that was
            # given already, and no move to it.
            state.given = given.parent.name

        await controller.carry_out(UnderWay(given, state.in_force(), *needs), begins=begins)
    if not await controller.hold():
        return False
    if fetch is not None:
        await fetch()
    await controller.tick()
    return True
