"""`cascadia profile quality` writes a table that a plan rests on, and goes on where it was cut off."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from cascadia.cli.main import main
from cascadia.domain.quality import ScoredBy
from cascadia.planner.problem.quality_file import read_quality
from cascadia_judge.llm.prompt import PROMPT_VERSION
from tests.unit.planner.specs import small_spec, valid_spec, write_inputs, write_spec
from tests.unit.profile.engine import Body, Engine, Says, question, serving

PROGRAM = Path(sys.executable).with_name("cascadia")
NUMBERS = range(20)
STAGES = ("small", "large")


def small(body: Body) -> Says:
    """Right about even numbers."""
    number = int(question(body).split()[2])
    return Says(str(2 * number if number % 2 == 0 else 0))


def large(body: Body) -> Says:
    return Says(str(2 * int(question(body).split()[2])))


def judge(body: Body) -> Says:
    """Likes long answers: sure of itself, and right a little more often than not."""
    (answer,) = re.findall(r"\[answer \w+\]\n(.*)\n\[end of answer", question(body))
    return Says("9", top={"9": 0.9, "0": 0.1} if len(answer) > 1 else {"9": 0.4, "0": 0.6})


def write_prompts(folder: Path) -> None:
    rows = [{"prompt_id": f"q{n}", "prompt": f"What is {n} + {n}?", "reference": str(2 * n)} for n in NUMBERS]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


class Bench:
    """Two stages, a judge and 20 questions in a folder."""

    def __init__(self, folder: Path, engines: dict[str, Engine]) -> None:
        self.folder = folder
        self.engines = engines
        write_prompts(folder)

    def args(self, *more: str) -> list[str]:
        stages = [f"--stage={name}={self.engines[name].url}#m" for name in STAGES]
        judges = [f"--judge={self.engines['judge'].url}#m", "--judge=exact"]
        files = [f"--prompts={self.folder / 'prompts.jsonl'}", f"--out={self.out}"]
        return ["profile", "quality", *files, *stages, *judges, "--concurrency=2", *more]

    def __call__(self, *more: str) -> Result:
        return CliRunner().invoke(main, self.args(*more))

    @property
    def out(self) -> Path:
        return self.folder / "quality.parquet"

    @property
    def journal(self) -> Path:
        return self.folder / "quality.parquet.journal.jsonl"

    @property
    def asked(self) -> int:
        return sum(len(self.engines[name].asked) for name in STAGES)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving(small) as one, serving(large) as two, serving(judge) as three:
        yield Bench(tmp_path, {"small": one, "large": two, "judge": three})


def error(result: Result) -> str:
    return result.stderr.splitlines()[-1]


def test_it_writes_the_table_and_says_what_is_in_it(bench: Bench) -> None:
    result = bench()
    assert result.exit_code == 0, result.output
    columns = pyarrow.parquet.read_table(bench.out).column_names
    assert columns == ["prompt_id", "stage", "score", "quality", "input_tokens", "output_tokens"]
    found = read_quality(bench.out, STAGES)
    assert found.prompt_ids == tuple(f"q{n}" for n in NUMBERS)
    assert found.scored_by == ScoredBy("llm", "m", PROMPT_VERSION, 100.0)
    assert found.quality.mean(axis=1).tolist() == [50.0, 100.0]
    assert set(found.score.ravel().round(6).tolist()) == {40.0, 90.0}
    assert "50.0 (29.9-70.1)" in result.stdout
    assert "quality: {table: quality.parquet}" in result.stdout


def test_the_document_has_what_the_summary_shows(bench: Bench) -> None:
    result = bench("--json")
    document = json.loads(result.stdout)
    stage = document["stages"][0]
    assert (document["prompts"], document["rows"], document["left_out"]) == (20, 40, 0)
    assert (stage["name"], stage["model"], stage["quality"]["mean"]) == ("small", "m", 50.0)
    # Of small's 10 right answers 7 are of two digits and so 0.9 each; wrong ones are "0".
    assert stage["agreement"]["auc"] == pytest.approx(0.7 + 0.3 * 0.5)
    assert document["stages"][1]["agreement"] is None
    assert document["checks"] == ["exact"]


@pytest.mark.long
def test_quiet_says_nothing_but_works(bench: Bench) -> None:
    result = bench("--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert bench.out.exists()


@pytest.mark.long
def test_a_plan_takes_the_table(bench: Bench) -> None:
    write_inputs(bench.folder)
    spec = small_spec()
    spec["stages"] = [spec["stages"][0] | {"name": "small"}, spec["stages"][2] | {"name": "large"}]
    spec["quality"]["table"] = "quality.parquet"
    spec["objective"]["quality_min"] = 40
    write_spec(bench.folder, spec)
    assert bench("--quiet").exit_code == 0
    result = CliRunner().invoke(main, ["plan", str(bench.folder / "cascade.yaml"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["plan"]["predicted"]["quality"]["questions"] == 20


@pytest.mark.long
@pytest.mark.parametrize("after", [1, 17, 39])
def test_killed_at_any_point_it_goes_on_and_asks_for_nothing_twice_that_was_done(
    bench: Bench, after: int
) -> None:
    killed: list[int] = []

    def deadly(body: Body) -> Says:
        if bench.asked > after and not killed:
            killed.append(running.pid)
            os.kill(running.pid, signal.SIGKILL)
        return large(body)

    bench.engines["large"].reply = bench.engines["small"].reply = deadly
    running = subprocess.Popen([PROGRAM, *bench.args()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL
    assert not bench.out.exists()
    kept = max(0, bench.journal.read_bytes().count(b"\n") - 1)
    # Two at each of two stages were under way, and may be lost.
    assert bench.asked - 4 <= kept <= bench.asked
    # Engines elsewhere, for requests of the dead may yet reach the old ones; that a stage has moved is no other stage.
    with serving(small) as one, serving(large) as two:
        bench.engines |= {"small": one, "large": two}
        result = bench()
        assert result.exit_code == 0, result.output
        assert bench.asked == 40 - kept
    assert len(read_quality(bench.out, STAGES)) == 20


@pytest.mark.long
def test_interrupted_it_says_how_to_go_on(bench: Bench) -> None:
    def interrupting(body: Body) -> Says:
        if bench.asked == 12:
            os.kill(running.pid, signal.SIGINT)
        return large(body)

    bench.engines["large"].reply = interrupting
    bench.engines["small"].reply = interrupting
    running = subprocess.Popen(
        [PROGRAM, *bench.args()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    *_, note, last = filter(None, said.splitlines())
    assert re.fullmatch(r"\d+ of 40 answers are kept; the same command goes on from there", note)
    assert last == "error: interrupted"
    assert f"going on: {note.split()[0]} of 40 answers" in bench().stderr


@pytest.mark.long
def test_a_finished_run_is_told_again_without_any_engine(bench: Bench) -> None:
    first = bench("--json").stdout
    asked = bench.asked
    for engine in bench.engines.values():
        engine.models = ("another",)
    bench.out.unlink()
    assert bench("--json").stdout == first
    assert bench.asked == asked
    assert bench.out.exists()


@pytest.mark.long
def test_other_inputs_are_refused_and_restart_begins_anew(bench: Bench) -> None:
    bench()
    asked = bench.asked
    result = bench("--max-tokens=5")
    assert result.exit_code == 2
    assert error(result) == (
        f"error: {bench.journal}: is of a run with other --max-tokens; "
        "add --restart to begin anew, or name another --out"
    )
    assert bench("--max-tokens=5", "--restart").exit_code == 0
    assert bench.asked == 2 * asked


@pytest.mark.long
def test_no_prompt_and_no_answer_is_left_behind_unless_asked_for(bench: Bench) -> None:
    bench.engines["large"].reply = lambda body: Says("a telling answer")
    bench()
    left = b"".join(path.read_bytes() for path in bench.folder.iterdir() if "quality" in path.name)
    assert b"telling" not in left
    assert b"What is" not in left
    answers = bench.folder / "answers.jsonl"
    bench("--restart", f"--keep-answers={answers}")
    kept = [json.loads(line) for line in answers.read_text().splitlines()]
    assert {(row["stage"], row["answer"]) for row in kept} >= {("large", "a telling answer")}
    assert len(kept) == 40


def test_a_prompt_that_fails_is_left_out_and_told(bench: Bench) -> None:
    bench.engines["small"].reply = lambda b: Says("too long", 400) if " 3 " in question(b) else small(b)
    result = bench("--json")
    assert result.exit_code == 0
    assert "note: small failed on 1 prompt; the first: small: http" in result.stderr
    assert "the table leaves out 1 prompt for want of" in result.stderr
    document = json.loads(result.stdout)
    assert (document["prompts"], document["left_out"]) == (19, 1)
    assert document["stages"][0]["failed"] == {"HTTP 400": 1}
    assert "q3" not in read_quality(bench.out, STAGES).prompt_ids


@pytest.mark.long
def test_more_failures_than_chance_explains_end_without_a_table_and_are_tried_again(bench: Bench) -> None:
    bench.engines["small"].reply = lambda b: Says("too long", 400) if " 1" in question(b) else small(b)
    result = bench()
    assert result.exit_code == 1
    assert error(result).startswith("error: 11 of 20 prompts lack an answer or its score, more than 5 %")
    assert not bench.out.exists()
    bench.engines["small"].reply = small
    asked = bench.asked
    assert bench().exit_code == 0
    assert bench.asked - asked == 11


@pytest.mark.long
def test_a_judge_of_nonsense_ends_without_a_table(bench: Bench) -> None:
    bench.engines["judge"].reply = lambda body: Says("lovely")
    result = bench()
    assert result.exit_code == 1
    assert "the judge wrote 'lovely', and no grade when asked in other manners" in result.stderr
    assert not bench.out.exists()


def test_a_busy_engine_is_borne_with(bench: Bench) -> None:
    busy = iter([Says("busy", 429, {"retry-after": "1"})] * 5)
    bench.engines["small"].reply = lambda body: next(busy, None) or small(body)
    assert bench().exit_code == 0
    assert len(bench.engines["small"].asked) == 25


def test_stages_of_a_spec_get_addresses_and_find_their_served_names(bench: Bench) -> None:
    spec = valid_spec()
    spec["stages"] = spec["stages"][:2]
    write_spec(bench.folder, spec)
    bench.engines["small"].models = ("other", "small")
    bench.engines["large"].models = (spec["stages"][1]["model"], "other")
    args = [f"--prompts={bench.folder / 'prompts.jsonl'}", f"--out={bench.out}", "--judge=exact", "--json"]
    args += [f"--stages={bench.folder / 'cascade.yaml'}", f"--endpoint=medium={bench.engines['large'].url}"]
    args += [f"--endpoint=small={bench.engines['small'].url.removesuffix('/v1')}"]
    result = CliRunner().invoke(main, ["profile", "quality", *args])
    assert result.exit_code == 0, result.output
    models = [(s["name"], s["model"]) for s in json.loads(result.stdout)["stages"]]
    assert models == [("small", "small"), ("medium", "meta-llama/Llama-3.1-70B-Instruct")]
    assert "score and quality are one" in result.stderr


@pytest.mark.long
def test_stages_may_be_one_list(bench: Bench) -> None:
    stages = ",".join(f"{name}={bench.engines[name].url}" for name in STAGES)
    args = [f"--prompts={bench.folder / 'prompts.jsonl'}", f"--out={bench.out}", "--judge=exact"]
    result = CliRunner().invoke(main, ["profile", "quality", *args, f"--stages={stages}"])
    assert result.exit_code == 0, result.output
    assert len(read_quality(bench.out, STAGES)) == 20


def test_keys_go_to_whom_they_are_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGE_KEY", "s3cret")
    monkeypatch.setenv("JUDGE_KEY", "other")
    result = bench("--api-key-env=STAGE_KEY", "--api-key-env=judge=JUDGE_KEY", "--json")
    assert result.exit_code == 0, result.output
    assert set(bench.engines["small"].keys) == {"Bearer s3cret"}
    assert set(bench.engines["judge"].keys) == {"Bearer other"}
    assert "s3cret" not in result.output + bench.journal.read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"--out": "quality.txt"}, "quality.txt: not a known kind of quality table"),
        ({"--stages": "small=foo"}, "--stages: 'small=foo' names no address; write e.g. small=http://"),
        ({"--stages": "small=http://"}, "--stages: 'http://' names no address"),
        ({"--stages": "judge=http://a/v1"}, "--stages: a stage cannot be called 'judge'"),
        ({"--stages": "a=http://x/v1,a=http://y/v1"}, "--stages: stage 'a' is given twice"),
        ({"--stages": "absent.yaml"}, "absent.yaml: no such file"),
        ({"--temperature": "-1"}, "--temperature: is -1; write a number from 0 to 2"),
        ({"--judge": "strict"}, "--judge: 'strict' is neither a check nor an address"),
        ({"--endpoint": "small=http://a/v1"}, "--endpoint: belongs to the stages of a spec"),
        ({"--api-key-env": "medium=PATH"}, "--api-key-env: nothing is named 'medium'"),
        (
            {"--api-key-env": "NO_SUCH_VARIABLE"},
            "--api-key-env: the variable 'NO_SUCH_VARIABLE' holds no key",
        ),
        ({"--prompts": "absent.jsonl"}, "absent.jsonl: no such file"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_prompts(tmp_path)
    given = {"--prompts": "prompts.jsonl", "--out": "quality.csv", "--judge": "exact"}
    given |= {"--stages": "small=http://127.0.0.1:1/v1"} | changes
    result = CliRunner().invoke(main, ["profile", "quality", *(f"{k}={v}" for k, v in given.items())])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}")
    assert len(result.stderr.splitlines()) == 1


def test_an_engine_that_is_not_there_is_told_before_any_work(bench: Bench) -> None:
    missing = "http://127.0.0.1:1/v1"
    bench.engines["small"] = Engine(small, port=1)
    result = bench()
    assert result.exit_code == 2
    assert error(result).startswith(f"error: small: {missing}/models cannot be reached")
    assert bench.asked == 0


def test_a_model_that_is_not_served_is_told_with_those_that_are(bench: Bench) -> None:
    bench.engines["large"].models = ("llama", "qwen")
    result = bench()
    assert result.exit_code == 2
    assert error(result).endswith(
        f"large: {bench.engines['large'].url} serves llama, qwen, not m; "
        f"name a model behind its address: {bench.engines['large'].url}#llama"
    )


@pytest.mark.long
def test_a_judge_that_guesses_is_named_with_what_follows_from_it(tmp_path: Path) -> None:
    def guesses(body: Body) -> Says:
        (number,) = re.findall(r"What is (\d+)", question(body))
        return Says("9", top={"9": 0.9, "0": 0.1} if int(number) % 3 == 0 else {"9": 0.4, "0": 0.6})

    with serving(small) as one, serving(large) as two, serving(guesses) as three:
        result = Bench(tmp_path, {"small": one, "large": two, "judge": three})()
    assert result.exit_code == 0, result.output
    assert (
        "note: the scores of stage 'small' tell right answers from wrong ones with an AUC of 0."
        in result.stderr
    )
    assert "gains nothing on a mixture of them" in result.stderr
