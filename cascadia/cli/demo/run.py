"""The steps of `cascadia demo`: models, calibration, plan, processes, questions, table."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from cascadia.cli.demo.plan import EXAMPLE, refuse_strangers, run_plan
from cascadia.cli.demo.table import (
    CASCADE,
    answers_json,
    as_json,
    dollars,
    examples_table,
    findings,
    results_table,
)
from cascadia.cli.shared.linux import needs_linux
from cascadia.cli.shared.output import Output, write
from cascadia.demo.children import Children
from cascadia.demo.fleet import Fleet, start_fleet, warm_up_all
from cascadia.demo.measuring.measured import Pass
from cascadia.demo.measuring.replay import arrivals_s, replay
from cascadia.demo.questions.question import Question
from cascadia.demo.questions.questions import demo_questions
from cascadia.demo.stages import ENCODER, LARGE, STAGES, free_cores
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.files.extras import install

if TYPE_CHECKING:
    from cascadia.cli.shared.progress import Step
    from cascadia.clients.hub.catalogue import CatalogueModel
    from cascadia.demo.calibrate import Speeds
    from cascadia.demo.example import Api

ANSWERS = "answers.json"
LOGS = "logs"


def run(
    out: Path, output: Output, *, keep: bool, port: int, calibrate_again: bool, external: bool = False
) -> None:
    needs_linux("cascadia demo")
    if find_spec("xllamacpp") is None:
        raise BadInput("cascadia demo", "llama.cpp is not installed", install("cpu"))
    refuse_strangers(out, (EXAMPLE, LOGS))
    with ended_by_signals():
        weights = _models(output)
        speeds = _calibrated(weights, out, output, again=calibrate_again)
        rate_rps = speeds.rate_rps
        with Children(out / LOGS) as children:
            api = _api(children, weights, output) if external else None
            plan = _planned(out, weights, speeds.paths, rate_rps, output, api)
            fleet = _started(children, plan, out, weights, port, output)
            passes = _asked(fleet, plan, rate_rps, output)
            _report(out, passes, plan, output)
            if keep:
                _stay(fleet, children, output)


def _models(output: Output) -> Mapping[str, Path]:
    """Folders by the catalogue's names."""
    from cascadia.clients.hub.catalogue import model_named
    from cascadia.clients.hub.fetch import fetch

    folders = {}
    for name in (*(stage.catalogue_name for stage in STAGES), ENCODER):
        model = model_named(name)
        with output.progress(f"getting {model.model}") as step:
            folders[name] = fetch(model, lambda done_bytes, of=model: step(*_fetched(done_bytes, of)))  # type: ignore[misc]
    return folders


def _fetched(done_bytes: int, model: "CatalogueModel") -> tuple[float, str]:
    text = f"getting {model.model}: {done_bytes / 1e6:.0f} of {model.bytes / 1e6:.0f} MB"
    return done_bytes / model.bytes, text


def _calibrated(weights: Mapping[str, Path], out: Path, output: Output, *, again: bool) -> "Speeds":
    from cascadia.demo.calibrate import calibrate, kept_speeds

    kept = kept_speeds()
    if kept is not None and not again:
        return kept
    output.note("measuring how fast the two models are here, once")
    with output.progress("measuring the engines"):
        speeds = calibrate(
            {stage.name: weights[stage.catalogue_name] for stage in STAGES}, free_cores(), out / LOGS
        )
    if speeds.busy:
        output.note(
            f"note: other programs had the engines' cores for {speeds.waiting_share:.0%} of the time while they were "
            "measured: the plan is for a machine as busy, and the next run measures again"
        )
    return speeds


def _api(children: Children, weights: Mapping[str, Path], output: Output) -> "Api":
    """The large model behind an address that no plan starts, once its times are measured."""
    from cascadia.demo.api import measured, start_api
    from cascadia.demo.example import Api

    with output.progress("asking the API how soon it answers") as step:
        child = start_api(children, weights[LARGE.catalogue_name])
        children.wait(lambda text: step(None, text))
        return Api(child.url, measured(child.url))


def _planned(
    out: Path,
    weights: Mapping[str, Path],
    calibrations: Mapping[str, Path],
    rate_rps: float,
    output: Output,
    api: "Api | None",
) -> Plan:
    from cascadia.cli.shared.output_dir import output_dir
    from cascadia.demo.example import SPEC_NAME, example_files, write_example
    from cascadia.files.plan_file import read_plan

    with output_dir(out / EXAMPLE, example_files(api)) as staging:
        write_example(staging, calibrations, weights, rate_rps, api)
    run_plan(out / EXAMPLE / SPEC_NAME, out, ["--quiet"] * (output.json or output.quiet))
    return read_plan(out)


def _started(
    children: Children, plan: Plan, out: Path, weights: Mapping[str, Path], port: int, output: Output
) -> Fleet:
    with output.progress("starting engines, judge and router") as step:
        api = next((child for child in children if child.name == LARGE.name), None)
        fleet = start_fleet(children, plan, out, weights, port, api)
        children.wait(lambda text: step(None, text))
        step(None, "warming up")
        asyncio.run(warm_up_all(fleet))
    return fleet


def _asked(fleet: Fleet, plan: Plan, rate_rps: float, output: Output) -> list[Pass]:
    """The cascade first; then both models alone, at the same time, each on its own core."""
    questions = demo_questions()
    at_s = arrivals_s(len(questions), rate_rps)
    names = [stage.name for stage in plan.stages]

    with output.progress(f"{len(questions)} questions through the cascade") as step:
        judged = [*names, *(["judge"] if fleet.judge else [])]
        cascade = asyncio.run(_pass(fleet, CASCADE, questions, at_s, judged, _counted(step, len(questions))))

    async def both(tell: Callable[[], None]) -> list[Pass]:
        ways = (_pass(fleet, name, questions, at_s, [name], tell) for name in names)
        return list(await asyncio.gather(*ways))

    with output.progress(f"{len(questions)} questions through each model alone") as step:
        return [cascade, *asyncio.run(both(_counted(step, len(names) * len(questions))))]


def _counted(step: "Step", count: int) -> Callable[[], None]:
    """Called at each answer, of whichever pass."""
    numbers = iter(range(1, count + 1))

    def tell() -> None:
        answered = next(numbers)
        step(answered / count, f"{answered} of {count} answered")

    return tell


async def _pass(
    fleet: Fleet,
    model: str,
    questions: list[Question],
    at_s: list[float],
    spending: list[str],
    tell: Callable[[], None],
) -> Pass:
    """`spending`: whose processor time it is charged with."""
    before = fleet.cpu_s(spending)
    answers = await replay(fleet.url_of(model), model, questions, at_s, tell)
    after = fleet.cpu_s(spending)
    return Pass(model, tuple(answers), {name: after[name] - before[name] for name in spending})


def _report(out: Path, passes: list[Pass], plan: Plan, output: Output) -> None:
    from cascadia.demo.example import accuracy_alone

    alone = accuracy_alone()
    document = as_json(passes, plan, alone)
    (out / ANSWERS).write_text(json.dumps(document | {"answers": answers_json(passes)}, indent=1) + "\n")
    cascade, *others = passes
    output.show(f"\n{len(cascade.answers)} questions, {plan.predicted.rate_rps:.2f} a second:")
    output.show(results_table(passes, plan, alone))
    for line in findings(cascade, others[0], others[-1], plan.predicted.e2e.p50_s):
        output.show(line)
    for line in dollars(passes, plan):
        output.show(line)
    output.show("\nThe first of the cascade's answers:")
    output.show(examples_table(cascade))
    output.show(f"Every answer: {out / ANSWERS}; the plan in words and pictures: {out / 'report.html'}")
    output.document(document | {"out": str(out)})


def _stay(fleet: Fleet, children: Children, output: Output) -> None:
    """Says what can be asked, and stays until ^C, or until one of the processes ends."""
    if not output.json and not output.quiet:
        write(f"""
The endpoint stays up until ^C. In another terminal:

  curl {fleet.router.url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "{CASCADE}", "messages": [{{"role": "user", "content": "What is the capital of Italy?"}}]}}'
""")
    sys.stdout.flush()
    stay_up(children, output)


def stay_up(children: Children, output: Output) -> None:
    """Waits until ^C, or until one of the processes ends."""
    from threading import Event

    never = Event()
    try:
        while not never.wait(1.0):
            children.check()
    except KeyboardInterrupt:
        output.note("stopped")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end us as ^C does, so that what was started is stopped."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (the signature of a handler)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
