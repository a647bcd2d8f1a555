"""A table of answers with a judge's scores becomes a quality table without an edit by hand."""

import json
from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.imports.quality import quality_of
from cascadia.imports.records import maps_of, read_records
from cascadia.imports.tokens import counter_of
from cascadia.imports.trace import trace_of
from cascadia.planner.problem.quality_file import read_quality, write_quality
from tests.unit.cli.commands import run

TABLE = """id,prompt,model,judge_score,correct
q1,What is 2 + 2?,tiny,90,true
q1,What is 2 + 2?,huge,95,true
q2,Why is the sky blue?,tiny,20,False
q2,Why is the sky blue?,huge,80,True
q3,Who?,tiny,20,False
"""


def test_a_row_without_a_count_or_a_text_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = "id,prompt,model,score,output_tokens\n" + "".join(
        f"q{number},Why?,{model},{50 + number},{'' if (number, model) == (1, 'huge') else 9}\n"
        for number in range(3)
        for model in ("tiny", "huge")
    )
    (tmp_path / "t.csv").write_text(rows)
    done = run("import", "quality", str(tmp_path / "t.csv"), "--out", str(tmp_path / "q.csv"))
    assert done.exit_code == 0, done.output
    assert read_quality(tmp_path / "q.csv", None).prompt_ids == ("q0", "q2")
    assert "left out 1 of 3 prompts: no tokens counted in or out" in done.stderr
    done = run(
        "import", "trace", str(tmp_path / "t.csv"), "--out", str(tmp_path / "t.parquet"), "--rate", "2"
    )
    assert done.exit_code == 0, done.output
    assert "left out 1 of 6 requests: no tokens counted in or out" in done.stderr


def test_a_table_with_truths_needs_no_edit(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    out = tmp_path / "quality.parquet"
    asked = ["--stage", "small=tiny", "--stage", "large=huge", "--answer-tokens", "200"]
    done = run("import", "quality", str(tmp_path / "t.csv"), "--out", str(out), *asked)
    assert done.exit_code == 0, done.output
    table = read_quality(out, None)
    assert table.stages == ("small", "large")
    assert table.prompt_ids == ("q1", "q2")
    assert table.score.tolist() == [[90, 20], [95, 80]]
    assert table.quality.tolist() == [[100, 0], [100, 100]]
    assert table.input_tokens.tolist() == [[4, 5], [4, 5]]
    assert (table.output_tokens == 200).all()
    assert "left out 1 of 3 prompts" in done.stderr
    assert "4 characters a token, no tokenizer" in done.stderr


def test_all_missing_columns_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,colour\n1,red\n")
    with pytest.raises(BadInput) as refused:
        quality_of(read_records([tmp_path / "t.csv"], {}), counter_of(None))
    said = str(refused.value)
    for column in ("model", "score", "input_tokens or prompt", "output_tokens or answer"):
        assert column in said
    assert "its columns are id, colour" in said
    with pytest.raises(BadInput, match=r"arrival_s, input_tokens or prompt, output_tokens or answer"):
        trace_of(read_records([tmp_path / "t.csv"], {}), counter_of(None))


def test_a_column_may_be_named_by_hand(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"q": {"id": 7}, "who": "m", "mark": 7, "in": 5, "out": 9}\n'
        '{"q": {"id": 8}, "who": "m", "mark": 10, "in": 5, "out": 9}\n'
    )
    maps = ["prompt_id=q.id", "model=who", "score=mark", "input_tokens=in", "output_tokens=out"]
    found = read_records([tmp_path / "t.jsonl"], maps_of(maps))
    table = quality_of(found, counter_of(None), scale=10)
    assert table.prompt_ids == ("7", "8")
    assert table.score.tolist() == [[70, 100]]


def test_every_map_to_nothing_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(BadInput, match=r"'judge_scor', 'nothing'.*did you mean 'judge_score'"):
        read_records([tmp_path / "t.csv"], {"score": "judge_scor", "answer": "nothing"})
    with pytest.raises(BadInput, match=r"mark=score, score: not OURS=THEIRS"):
        maps_of(["mark=score", "score", "model=stage"])


def test_scores_of_a_scale_that_nobody_named_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,model,score,prompt_tokens,completion_tokens\n1,m,7,5,5\n2,m,9,5,5\n")
    found = read_records([tmp_path / "t.csv"], {})
    with pytest.raises(BadInput, match=r"never exceeds 10.*--scale 10"):
        quality_of(found, counter_of(None))
    assert quality_of(found, counter_of(None), scale=10).score.tolist() == [[70, 90]]
    with pytest.raises(BadInput, match=r"row 2: score is '9'; write a number from 0 to 8"):
        quality_of(found, counter_of(None), scale=8)


def test_shares_beside_scores_of_another_scale_are_refused_and_truths_are_not(tmp_path: Path) -> None:
    rows = "id,model,score,quality,prompt_tokens,completion_tokens\n1,m,7,{},5,5\n2,m,9,1,5,5\n"
    (tmp_path / "t.csv").write_text(rows.format(0.4))
    with pytest.raises(BadInput, match="never exceeds 1, and scores go up to 10"):
        quality_of(read_records([tmp_path / "t.csv"], {}), counter_of(None), scale=10)
    (tmp_path / "t.csv").write_text(rows.format(0))
    found = read_records([tmp_path / "t.csv"], {})
    assert quality_of(found, counter_of(None), scale=10).quality.tolist() == [[0, 100]]


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    table = quality_of(read_records([tmp_path / "t.csv"], {}), counter_of(None), answer_tokens=3)
    write_quality(table, tmp_path / "q.parquet")
    again = read_quality(tmp_path / "q.parquet", None)
    assert (again.score == table.score).all()
    assert again.prompt_ids == table.prompt_ids


def test_a_tokenizer_counts_and_is_named(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "t.csv").write_text("start_time,prompt,response\n0,one two three,four five\n")
    notes: list[str] = []
    trace = trace_of(read_records([tmp_path / "t.csv"], {}), counter_of(tmp_path), note=notes.append)
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == ([3], [2])
    assert all(note.endswith(f"counted with {tmp_path / 'tokenizer.json'}") for note in notes)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BadInput, match="is no tokenizer"):
        counter_of(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("[]", "holds no requests"),
        ("[1]", "entry 1: is not an object"),
        ('{"a": 1}\n{', "line 2: is not JSON"),
        ('{"arrival_s": "soon", "input_tokens": 1, "output_tokens": 1}', "its time is 'soon'"),
        ('{"arrival_s": 1, "input_tokens": 1.5, "output_tokens": 1}', "input_tokens is 1.5"),
        ('{"arrival_s": 1, "input_tokens": 0, "output_tokens": 1}', "every request lacks"),
        ('{"start_times": [1], "input_lens": [1, 2], "output_lens": [1]}', "its lists differ in length"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_line(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(content)
    done = run("import", "trace", str(tmp_path / "log.json"), "--out", str(tmp_path / "out.csv"))
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out.csv").exists()


def test_prompts_come_out_as_profile_quality_reads_them(tmp_path: Path) -> None:
    from cascadia.profile.quality.prompts import read_prompts

    (tmp_path / "t.csv").write_text(TABLE)
    done = run("import", "prompts", str(tmp_path / "t.csv"), "--out", str(tmp_path / "p.jsonl"))
    assert done.exit_code == 0, done.output
    assert [prompt.id for prompt in read_prompts(tmp_path / "p.jsonl", None)] == ["q1", "q2", "q3"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--stage", "small=tiny", "--stage", "small=huge"], "--stage: 'small' is there twice"),
        (["--stage", "small=tiny", "--stage", "large=tiny"], "--stage: 'tiny' is there twice"),
        (["--stage", "=tiny"], "--stage: '=tiny' is not NAME=MODEL"),
        (["--stage", "a b=tiny"], "--stage: 'a b' is no name"),
        (["--stage", "judge=tiny"], "--stage: 'judge' is a name of the router's own"),
        (["--map", "score=judge_score", "--map", "score=correct"], "--map: score: there twice"),
    ],
)
def test_what_names_something_twice_or_nothing_is_refused(
    tmp_path: Path, asked: list[str], said: str
) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    out = tmp_path / "q.csv"
    done = run(
        *("import", "quality", str(tmp_path / "t.csv"), "--out", str(out), "--answer-tokens", "9"), *asked
    )
    assert (done.exit_code, said in done.stderr, out.exists()) == (2, True, False), done.output


def test_exits_are_stages_of_a_table_by_their_own_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    asked = ["--stage", "small@512=tiny", "--stage", "small=huge", "--answer-tokens", "9"]
    done = run("import", "quality", str(tmp_path / "t.csv"), "--out", str(tmp_path / "q.csv"), *asked)
    assert done.exit_code == 0, done.output
    assert read_quality(tmp_path / "q.csv", None).stages == ("small@512", "small")


def test_a_number_among_truths_is_the_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE.replace("80,True", "80,0.5"))
    with pytest.raises(BadInput, match=r"t\.csv row 4: quality is '0\.5', and 'true' in .*t\.csv row 1"):
        quality_of(read_records([tmp_path / "t.csv"], {}), counter_of(None), answer_tokens=9)


@pytest.mark.parametrize("text", ["9_0", "٩٠"])
def test_numbers_that_only_python_reads_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(TABLE.replace("90", text))
    with pytest.raises(BadInput, match=f"row 1: score is '{text}'"):
        quality_of(read_records([tmp_path / "t.csv"], {}), counter_of(None), answer_tokens=9)


def test_files_of_two_formats_are_no_one_log(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("arrival_s,input_tokens,output_tokens\n1,2,3\n")
    (tmp_path / "spend.csv").write_text(
        "request_id,startTime,completion_tokens,prompt_tokens\nx,2026-11-23 10:00:00,3,4\n"
    )
    with pytest.raises(BadInput, match=r"spend\.csv: is read as litellm, and .*own\.csv as table"):
        read_records([tmp_path / "own.csv", tmp_path / "spend.csv"], {})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("2001-01-01 00:00:00,1000000000000,3", r"row 1: input_tokens is '1000000000000'"),
        ("9990-01-01 00:00:00,5,3", r"row 1: its time '9990-01-01 00:00:00' is 1e\+10 s or more after"),
    ],
)
def test_a_row_that_no_trace_can_have_is_named_by_file_and_row(tmp_path: Path, row: str, said: str) -> None:
    (tmp_path / "t.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{row}\n2001-01-01 00:00:01,5,3\n")
    with pytest.raises(BadInput, match=said):
        trace_of(read_records([tmp_path / "t.csv"], {}), counter_of(None))


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\x28\xb5\x2f\xfd", "by Zstandard"),
        (b"BZh9", "by bzip2"),
        (b"\xfd7zXZ\0", "by xz"),
        (b"PK\x03\x04", "a ZIP"),
    ],
)
def test_what_a_packed_file_is_packed_by_is_said(tmp_path: Path, start: bytes, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(start + bytes(range(256)))
    for arguments in (
        ("import", "quality", str(path), "--out", str(tmp_path / "q.csv")),
        ("trace", "inspect", str(path)),
    ):
        done = run(*arguments)
        assert done.exit_code == 2, done.output
        assert said in done.stderr
    with pytest.raises(BadInput, match=said):
        read_quality(path, None)


WIDE = """sample_id,prompt,answer,llama3:8b,gpt-4,gpt-4|model_response,llama3:8b|model_response,gpt-4|total_cost
a,What is 2 + 2?,the reference,0.25,1.0,"four, as I said",five,0.01
b,Why is the sky blue?,the reference,1,1.0,light,scattered light,0.01
c,Who?,the reference,,0.0,me,,0.01
"""


def test_a_table_with_a_column_of_scores_for_each_model_is_read_row_by_row(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(WIDE)
    out = tmp_path / "q.csv"
    asked = ["--stage", "small=llama3:8b", "--stage", "large=gpt-4", "--scale", "1"]
    done = run("import", "quality", str(tmp_path / "wide.csv"), "--out", str(out), *asked)
    assert done.exit_code == 0, done.output
    table = read_quality(out, None)
    assert (table.stages, table.prompt_ids) == (("small", "large"), ("a", "b"))
    assert table.quality.tolist() == table.score.tolist() == [[25, 100], [100, 100]]
    assert table.input_tokens.tolist() == [[4, 5], [4, 5]]
    # Of each model's own answer, by its letters; never of the reference.
    assert table.output_tokens.tolist() == [[1, 4], [4, 1]]
    assert "left out 1 of 3 prompts: not every stage answered them" in done.stderr


def test_a_stage_without_a_column_beside_those_that_have_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(WIDE)
    asked = ["--out", str(tmp_path / "q.csv"), "--stage", "small=llama3:8b", "--stage", "large=gpt-5"]
    found = run("import", "quality", str(tmp_path / "wide.csv"), *asked)
    assert found.exit_code == 2
    assert "--stage: no column of gpt-5; its columns are sample_id, prompt" in found.stderr
    found = run("import", "quality", str(tmp_path / "wide.csv"), *asked[:2])
    assert "--stage NAME=COLUMN for each model's column of scores" in found.stderr
    assert not (tmp_path / "q.csv").exists()


def test_a_table_of_rows_is_read_by_its_rows_though_columns_are_called_like_models(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "id,model,score,a,b,output_tokens,input_tokens\n1,a,70,5,6,9,9\n1,b,80,5,6,9,9\n"
    )
    asked = ["--out", str(tmp_path / "q.csv"), "--stage", "small=a", "--stage", "large=b"]
    done = run("import", "quality", str(tmp_path / "t.csv"), *asked)
    assert done.exit_code == 0, done.output
    assert read_quality(tmp_path / "q.csv", None).score.tolist() == [[70], [80]]


def samples(folder: Path, right: dict[str, float], *, text: bool = True, time: str = "01") -> None:
    """As lm-eval-harness 0.4 logs them: a line for each filter of the answer."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "doc_id": number,
            "doc": {"question": question},
            "target": "42",
            "arguments": {"gen_args_0": {"arg_0": f"Q: {question}", "arg_1": {"until": ["Q:"]}}},
            "resps": [["It is 42."]] if text else [[[-1.5, False]], [[-0.5, True]]],
            "filter": filtered,
            "metrics": ["exact_match"],
            "exact_match": score,
        }
        for number, (question, score) in enumerate(right.items())
        for filtered in ("strict-match", "flexible-extract")
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / f"samples_gsm8k_2026-11-{time}T00-00-00.000000.jsonl").write_text(lines)


def test_samples_of_lm_eval_are_read_by_model_from_their_folders(tmp_path: Path) -> None:
    samples(tmp_path / "lm" / "meta__small", {"Why?": 0.0, "Who?": 0.0}, time="01")
    samples(tmp_path / "lm" / "meta__small", {"Why?": 0.0, "Who?": 1.0}, time="02")
    samples(tmp_path / "lm" / "large", {"Why?": 1.0, "Who?": 1.0})
    out = tmp_path / "q.csv"
    asked = ["--out", str(out), "--scale", "1", "--stage", "small=meta/small", "--stage", "large=large"]
    done = run("import", "quality", str(tmp_path / "lm"), *asked)
    assert done.exit_code == 0, done.output
    table = read_quality(out, None)
    assert table.prompt_ids == ("gsm8k:0", "gsm8k:1")
    assert table.score.tolist() == [[0, 100], [100, 100]]  # of the newer run
    assert (table.output_tokens == 2).all()
    files = [
        str(file)
        for file in sorted((tmp_path / "lm").rglob("*02T*")) + sorted((tmp_path / "lm" / "large").iterdir())
    ]
    assert run("import", "quality", *files, *asked).exit_code == 0
    assert read_quality(out, None).score.tolist() == table.score.tolist()
    asked = ["--out", str(tmp_path / "p.jsonl"), "--reference"]
    assert run("import", "prompts", str(tmp_path / "lm"), *asked).exit_code == 0
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert first == {"prompt_id": "gsm8k:0", "prompt": "Q: Why?", "reference": "42"}


def test_samples_of_choices_have_no_text_to_count(tmp_path: Path) -> None:
    samples(tmp_path / "lm" / "small", {"Why?": 1.0}, text=False)
    asked = [str(tmp_path / "lm"), "--out", str(tmp_path / "q.csv"), "--scale", "1"]
    found = run("import", "quality", *asked)
    assert found.exit_code == 2
    assert "it has nothing for output_tokens or answer" in found.stderr
    assert run("import", "quality", *asked, "--answer-tokens", "1").exit_code == 0
