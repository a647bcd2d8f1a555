"""A first spec: commented, valid, and never over an existing one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from cascadia.cli.init.questions import (
    Asker,
    asked_stages,
    known_gpu,
    named_api,
    percent,
    stage_name,
    whole_number,
)
from cascadia.cli.init.template import Answers, Model, spec_text
from cascadia.cli.main import main
from cascadia.domain.errors import BadInput
from cascadia.domain.names import LONGEST_NAME, NAME, ROUTERS_OWN
from cascadia.planner.spec.file import parse_spec, read_spec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*args: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["init", *args], input=given)


def test_defaults_make_a_valid_commented_spec(here: Path) -> None:
    result = init("--yes")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "wrote cascade.yaml; next: cascadia plan cascade.yaml --out plan/\n"
    assert [stage.name for stage in read_spec("cascade.yaml").stages] == ["small", "large"]
    assert (here / "cascade.yaml").read_text().count("#") > 10


def test_flags_say_it_all() -> None:
    result = init(
        *("mine.yaml", "--model", "s=Qwen/Qwen2.5-7B-Instruct", "--model", "l=./big/config.json"),
        *("--gpu", "a100-sxm", "--nodes", "2", "--gpus-per-node", "4", "--judge", "Qwen/Qwen2.5-7B-Instruct"),
        *("--trace", "t.csv", "--quality-table", "q.csv", "--quality-min", "70.5", "--rate", "3", "--json"),
    )
    assert result.exit_code == 0
    spec = read_spec("mine.yaml")
    written = json.loads(spec.model_dump_json(exclude_unset=True))
    assert json.loads(result.stdout) == {"path": "mine.yaml", "spec": written}
    assert [(stage.name, stage.model) for stage in spec.stages] == [
        ("s", "Qwen/Qwen2.5-7B-Instruct"),
        ("l", "./big/config.json"),
    ]
    assert (spec.judge.runs, spec.judge.model) == ("self-hosted", "Qwen/Qwen2.5-7B-Instruct")
    assert (spec.workload.trace, spec.workload.rate_rps, spec.objective.quality_min) == ("t.csv", 3.0, 70.5)


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            ["--model", "small"],
            "--model: 'small' is not NAME=MODEL; write e.g. small=meta-llama/Llama-3.1-8B-Instruct",
        ),
        (
            ["--gpu", "h100-smx"],
            "--gpu: unknown GPU 'h100-smx'; did you mean h100-sxm or v100 or h200-sxm?",
        ),
        (
            ["--quality-min", "0.8"],
            "cascade.yaml: objective.quality_min: is 0.8 of 100, which any model reaches; did you mean 80?",
        ),
        (["--quality-min", "101"], "cascade.yaml: objective.quality_min: must be at most 100, is 101"),
        (
            ["--model", "a=./a.json", "--model", "a=./b.json"],
            "cascade.yaml: stages: two stages are called 'a'; give each its own name",
        ),
    ],
)
def test_a_wrong_flag_writes_nothing(here: Path, args: list[str], line: str) -> None:
    result = init("--yes", *args)
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"error: {line}\n", "")
    assert list(here.iterdir()) == []


def test_an_existing_spec_is_kept_unless_forced(here: Path) -> None:
    (here / "cascade.yaml").write_text("mine")
    result = init("--yes")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: cascade.yaml: exists already; add --force to overwrite it, or name another file\n"
    )
    assert (here / "cascade.yaml").read_text() == "mine"
    assert init("--yes", "--force").exit_code == 0


def test_nobody_is_asked_where_nobody_is_there(here: Path) -> None:
    result = init()
    assert result.exit_code == 2
    assert result.stderr == (
        "error: nobody to ask for 'Number of stages (1-5)'; give flags, or --yes for defaults "
        "(see `cascadia init --help`)\n"
    )
    assert list(here.iterdir()) == []


def test_any_number_of_stages_is_asked_for_somebodys_api_among_them() -> None:
    said = iter(
        [
            "3",
            "s",
            "Qwen/Qwen2.5-7B-Instruct",
            "m",
            "meta-llama/Llama-3.1-70B-Instruct",
            "frontier",
            "external",
            "any-name",
            "cheap",
            "2.5",
            "10",
            "0.6",
            "0.012",
            "0.5",
            "600",
        ]
    )
    asker = Asker(silent=False, deaf=False, prompt=lambda question, default: next(said))
    stages = asked_stages(asker)
    assert [stage.name for stage in stages] == ["s", "m", "frontier"]
    assert stages[2] == named_api("frontier=any-name,2.5,10,0.6,0.012,600")
    assert list(said) == []


@pytest.mark.parametrize("count", range(1, 6))
def test_every_number_of_stages_has_models_to_offer(count: int) -> None:
    """The first prompt is answered with the number, all others with what they offer."""
    numbers = iter([str(count)])
    asker = Asker(silent=False, deaf=False, prompt=lambda question, default: next(numbers, default))
    stages = asked_stages(asker)
    assert len({stage.name for stage in stages}) == count


def test_goal_levels_and_an_api_are_told_by_flags() -> None:
    result = init(
        *("--yes", "--model", "s=Qwen/Qwen2.5-7B-Instruct", "--external", "f=any-name,2.5,10,0.6,0.012,600"),
        *("--goal", "cost", "--preset", "chat", "--quality-min", "82"),
    )
    assert result.exit_code == 0
    spec = read_spec("cascade.yaml")
    assert (spec.objective.minimize, spec.objective.preset, spec.objective.quality_min) == (
        "cost",
        "chat",
        82,
    )
    api = spec.stages[1]
    assert (api.placement, api.usd_per_million_output_tokens, api.requests_per_minute) == (
        "external",
        10,
        600,
    )
    assert init("--yes", "--force", "--goal", "quality").exit_code == 0
    assert read_spec("cascade.yaml").objective.quality_min is None


@pytest.mark.parametrize(
    "text",
    [
        "f",
        "f=m",
        "f=m,1,2,3",
        "f=m,1,2,3,x",
        "f=m,1,2,3,-4",
        "f=m,1,2,3,nan",
        "f=m,1,2,3,4,0",
        "f=m,1,2,3,4,5,6",
    ],
)
def test_what_is_no_api_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"is not NAME=MODEL,IN,OUT,TTFT,TPOT\[,RPM\]"):
        named_api(text)


def test_files_that_are_given_are_read_before_anything_is_written(here: Path) -> None:
    told = init("--yes", "--trace", "t.csv")
    assert "note: t.csv is not there yet" in told.stderr
    (here / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n0,5,5\n1,5,5\n")
    assert init("--yes", "--force", "--trace", "t.csv").stderr == ""
    (here / "q.csv").write_text("prompt_id,stage,score,input_tokens,output_tokens\na,small,50,5,5\n")
    refused = init("--yes", "--force", "--quality-table", "q.csv")
    assert refused.exit_code == 2
    assert "'large'" in refused.stderr
    (here / "t.csv").write_text("when,input_tokens,output_tokens\n0,5,5\n")
    assert "t.csv" in init("--yes", "--force", "--trace", "t.csv").stderr


def test_a_wrong_answer_is_asked_again() -> None:
    said = iter(["h100-smx", "h100-sxm"])
    asker = Asker(silent=False, deaf=False, prompt=lambda question, default: next(said))
    assert asker.ask("GPU", "l4", known_gpu) == "h100-sxm"
    assert list(said) == []


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "", "9" * 50])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number above 0"):
        whole_number(text)


@pytest.mark.parametrize("text", ["-1", "101", "nan", "x", "0.8", "1"])
def test_what_is_no_quality_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"within 0-100|of 100; did you mean (8|10)0\?"):
        percent(text)


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=30)


_NAMES = st.from_regex(NAME, fullmatch=True).filter(lambda s: len(s) <= LONGEST_NAME and s not in ROUTERS_OWN)


@pytest.mark.parametrize("name", ["judge", "a b", "größe", "", "x" * 101])
def test_a_name_that_no_plan_can_have_is_asked_for_again(name: str) -> None:
    said = iter([name, "small"])
    asker = Asker(silent=False, deaf=False, prompt=lambda question, default: next(said))
    assert asker.ask("Name", "small", stage_name) == "small"


@given(_NAMES, _TEXT, _TEXT)
def test_any_text_survives_the_template(name: str, model: str, trace: str) -> None:
    answers = Answers(
        (Model(name, model),),
        "l4",
        1,
        gpus_per_node=1,
        judge="certainty",
        trace=trace,
        quality_table="no",
        quality_min=80.0,
    )
    spec = parse_spec(spec_text(answers), "x.yaml")
    assert (spec.stages[0].name, spec.stages[0].model) == (name, model)
    assert (spec.workload.trace, spec.quality.table) == (trace, "no")


def test_a_spec_elsewhere_names_files_that_were_given_from_here(here: Path) -> None:
    (here / "my specs").mkdir()
    (here / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n0,5,5\n1,5,5\n")
    told = init("--yes", "my specs/ü.yaml", "--trace", "t.csv")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout.endswith("next: cascadia plan 'my specs/ü.yaml' --out plan/\n")
    assert read_spec("my specs/ü.yaml").workload.trace == "../t.csv"
