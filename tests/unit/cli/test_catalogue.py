"""`cascadia catalogue` shows, for each GPU, engine and precision, the entry that a plan takes."""

import json

from click.testing import CliRunner, Result

from cascadia.cli.main import main
from cascadia_sim.calibration.catalogue import closest_calibration
from cascadia_sim.evidence.standing import standing
from cascadia_sim.evidence.support_matrix import support_matrix
from cascadia_sim.evidence.unmeasured import is_measured
from cascadia_sim.hardware.catalogue import gpu, known_gpus


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["catalogue", *args])


def test_every_cell_is_what_the_closest_calibration_says() -> None:
    cells = json.loads(run("--json").stdout)["support"]
    assert len(cells) == len(support_matrix())
    for cell in cells:
        card = gpu(cell["gpu"])
        found, match = closest_calibration(card, cell["engine"], cell["precision"])
        assert (cell["calibration"], cell["match"]) == (found.name, match)
        exact = (found.gpu, found.engine, found.precision) == (card.name, cell["engine"], cell["precision"])
        assert not cell["exact"] or exact
        assert (cell["basis"] in ("generic", "unmeasured")) == (found.fit.points == 0)
        assert cell["error_tpot"] == round(standing(card, cell["engine"], cell["precision"]).error_tpot, 4)


def test_every_gpu_is_there_with_all_that_can_run_on_it() -> None:
    cells = support_matrix()
    assert {c.gpu for c in cells} == {*known_gpus(), "cpu"}
    assert {c.engine for c in cells if c.gpu == "cpu"} == {"llama.cpp"}
    assert not {c.precision for c in cells if c.engine == "vllm"} & {"q4_k_m", "f16"}


def test_no_gpu_that_nobody_measured_has_a_cell_of_its_own() -> None:
    for cell in support_matrix():
        assert not cell.exact or cell.basis == "unmeasured" or is_measured(gpu(cell.gpu))


def test_people_see_one_line_for_what_is_alike() -> None:
    shown = run("--gpu", "H200", "--engine", "vllm").stdout
    assert "h200-sxm-vllm-fp8" in shown
    assert "served" in shown
    assert "~served" in shown
    lines = [line for line in run("--gpu", "t4").stdout.splitlines() if "unmeasured" in line]
    assert len(lines) == 1


def test_what_is_not_known_is_refused_with_what_is() -> None:
    for args, told in (
        (["--gpu", "h100-smx"], "--gpu: unknown GPU 'h100-smx'; did you mean h100-sxm"),
        (["--engine", "tgi"], "--engine: 'tgi' is not known; write one of vllm, sglang"),
        (["--precision", "fp7"], "--precision: 'fp7' is not known; write one of bf16"),
    ):
        done = run(*args)
        assert done.exit_code == 2
        assert told in done.stderr
