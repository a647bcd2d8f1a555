"""What is wrong with a spec is told in one line: where, what, what to write instead."""

from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.planner.spec.file import check_spec
from tests.unit.planner.specs import changed, valid_spec, without


def told(document: object) -> str:
    with pytest.raises(BadInput) as caught:
        check_spec(document, "cascade.yaml")
    return str(caught.value)


def renamed(section: dict[str, Any], old: str, new: str) -> None:
    section[new] = section.pop(old)


def test_a_mistyped_key_is_told_before_the_key_it_leaves_missing() -> None:
    document = valid_spec()
    renamed(document["stages"][1], "model", "modle")
    assert told(document) == "cascade.yaml: stages[1].modle: unknown key; did you mean 'model'?"


def test_an_unknown_key_unlike_any_lists_the_known_ones() -> None:
    assert told(changed("quality.xyzzy", 1)) == (
        "cascade.yaml: quality.xyzzy: unknown key; known keys: table, scale, foresight, confidence"
    )


CASES = {
    "a missing section": (without("judge"), "judge: is missing; add it: How answers are scored at the gates"),
    "a missing key": (
        without("workload.trace"),
        "workload.trace: is missing; add it: Path of the trace: Parquet, CSV or JSONL, public formats too",
    ),
    "gears without a bound": (
        changed("gears", {"count": 4}),
        "gears need to know what is too slow or what may give way; add objective.latency_max_s or under_load, or write"
        " gears: {count: 1}",
    ),
    "an exit behind a layer": (
        changed("stages.0.exits", [{"layer": 3}]),
        "stages[0].exits[0]: no engine that writes text lets an answer out behind a layer; write thinking_tokens; "
        "`layer` is of models that answer in one pass (`cascadia schema policy`)",
    ),
    "a promise of exits that nobody has": (
        changed("exits", {"risk": "1%"}),
        "exits promises something of exits, and no stage has any; remove it, or list a stage's",
    ),
    "a floor above the bar": (
        changed("under_load", {"quality_floor": 85}),
        "under_load.quality_floor 85 is above objective.quality_min 60; write at most 60",
    ),
    "a floor of one": (
        changed("under_load", {"quality_floor": 0.8}),
        "under_load.quality_floor: is 0.8 of 100, which any model reaches; did you mean 80?",
    ),
    "another end of the queue": (
        changed("under_load", {"then": "drop"}),
        "under_load.then: is 'drop', which is not known; write 'queue' or 'refuse'",
    ),
    "no gear": (changed("gears", {"count": 0}), "gears.count: must be at least 1, is 0"),
    "no stages": (changed("stages", []), "stages: is empty; give at least one entry"),
    "a mapping for a list": (changed("stages", {}), "stages: must be a list, is {}"),
    "text for a mapping": (changed("stages.1", "large"), "stages[1]: must be a mapping, is 'large'"),
    "zero nodes": (changed("cluster.pools.0.nodes", 0), "cluster.pools[0].nodes: must be at least 1, is 0"),
    "zero GPUs a node": (
        changed("cluster.pools.0.gpus_per_node", 0),
        "cluster.pools[0].gpus_per_node: must be at least 1, is 0",
    ),
    "no pool": (changed("cluster.pools", []), "cluster.pools: is empty; give at least one entry"),
    "a quoted number": (
        changed("cluster.pools.0.nodes", "4"),
        "cluster.pools[0].nodes: must be a whole number, is '4'; remove the quotes",
    ),
    "a broken number": (
        changed("cluster.pools.0.nodes", 4.5),
        "cluster.pools[0].nodes: must be a whole number, is 4.5",
    ),
    "a huge number": (
        changed("cluster.pools.0.nodes", 10**30),
        "cluster.pools[0].nodes: must be at most 100000, is 1000000000000000000000000000000",
    ),
    "NaN": (changed("workload.rate_rps", float("nan")), "workload.rate_rps: must be a finite number, is nan"),
    "a bool for a number": (
        changed("stages.0.max_num_seqs", True),
        "stages[0].max_num_seqs: must be a whole number, is True",
    ),
    "a bool for text": (
        changed("stages.0.name", False),
        "stages[0].name: must be text, is False; put it in quotes",
    ),
    "an unknown engine": (
        changed("stages.0.engine", "vlm"),
        "stages[0].engine: is 'vlm', which is not known; did you mean 'vllm'?",
    ),
    "an unknown quantization": (
        changed("stages.0.quantization", 4),
        "stages[0].quantization: is 4, which is not known; "
        "write 'fp8', 'awq-int4', 'gptq-int4', 'int8', 'int4-experts', 'mxfp4', 'nvfp4', 'nvfp4-experts', "
        "'f16', 'q8_0', 'q6_k', 'q5_k_m', 'q4_k_m', 'q4_1' or 'q4_0'",
    ),
    "one name twice": (
        changed("stages.1.name", "small"),
        "stages: two stages are called 'small'; give each its own name",
    ),
    "a reserved name": (
        changed("stages.1.name", "cascadia"),
        "stages[1].name: 'cascadia' is a name of the router's own; rename it",
    ),
    "a tolerance in words": (
        changed("objective.within", "three"),
        "objective.within: 'three' is neither a percentage such as 3% nor a number such as 0.03",
    ),
    "a tolerance above 1": (
        changed("objective.within", "300%"),
        "objective.within: must be at most 1, is 3.0; did you mean 0.03?",
    ),
    "a tolerance of another goal": (
        changed("objective", {"minimize": "cost", "quality_min": 60, "within": 0.1}),
        "objective: within belongs to `minimize: latency`; remove it",
    ),
    "quality as a fraction": (
        changed("objective.quality_min", 0.78),
        "objective.quality_min: is 0.78 of 100, which any model reaches; did you mean 78?",
    ),
    "a quality of 1": (
        changed("objective.quality_min", 1),
        "objective.quality_min: is 1 of 100, which any model reaches; did you mean 100?",
    ),
    "confidence in percent": (
        changed("quality.confidence", 95),
        "quality.confidence: must be less than 1, is 95; did you mean 0.95?",
    ),
    "quality beyond 100": (
        changed("objective.quality_min", 101),
        "objective.quality_min: must be at most 100, is 101",
    ),
    "two goals": (
        changed("objective.maximize", "quality"),
        "objective: minimize and maximize contradict each other; keep one of them",
    ),
    "no goal": (
        changed("objective", {"quality_min": 80}),
        "objective: has no goal; add `minimize: latency`, `minimize: cost` or `maximize: quality`, or a "
        "preset such as `preset: chat`",
    ),
    "quality without a limit": (
        changed("objective", {"maximize": "quality"}),
        "objective: maximize quality needs a limit on latency; add `latency_max_s: <seconds>`, levels, or "
        "`preset: batch`, which has none",
    ),
    "quality above a bar on quality": (
        changed("objective", {"maximize": "quality", "latency_max_s": 9, "quality_min": 80}),
        "objective: quality_min contradicts maximize quality; remove one of them",
    ),
    "cost without a bar": (
        changed("objective", {"minimize": "cost", "latency_max_s": 9}),
        "objective: minimize cost needs a bar on quality; add `quality_min: <0-100>`",
    ),
    "latency under a limit on latency": (
        changed("objective.latency_max_s", 9),
        "objective: latency_max_s contradicts minimize latency; remove it, or use `minimize: cost` under it",
    ),
    "a judge without a model": (
        without("judge.model"),
        "judge: a self-hosted llm judge has no model; add `model: <Hugging Face id>`",
    ),
    "a judge in two places": (
        changed("judge", {"kind": "certainty", "placement": "self-hosted"}),
        "judge: kind certainty and placement self-hosted contradict each other; remove placement",
    ),
    "a latency that is computed": (
        changed("judge.latency_p50_s", 0.5),
        "judge: latency_p50_s has no effect on a judge that is self-hosted; remove it",
    ),
    "half a latency": (
        changed("judge", {"kind": "external", "latency_p50_s": 0.5}),
        "judge: latency_p50_s and latency_p95_s belong together; give both or neither",
    ),
    "quantiles out of order": (
        changed("judge", {"kind": "external", "latency_p50_s": 2.0, "latency_p95_s": 1.0}),
        "judge: latency_p50_s 2 is above latency_p95_s 1; swap them",
    ),
    "a list for a document": (
        [],
        "must be a mapping, is []; begin with the keys "
        "stages, cluster, judge, workload, quality, objective, under_load, gears, exits, seed",
    ),
    "nothing": (None, "is empty; write a spec, or let `cascadia init` write one"),
}


@pytest.mark.parametrize(("document", "line"), CASES.values(), ids=CASES.keys())
def test_the_line_says_what_to_write_instead(document: object, line: str) -> None:
    assert told(document) == f"cascade.yaml: {line}"


def test_every_form_of_the_design_is_accepted() -> None:
    for judge in (
        {"kind": "external", "latency_p50_s": 0.5, "latency_p95_s": 1.5},
        {"kind": "llm", "placement": "external", "model": "gpt-4o"},
        {"kind": "embedding"},
        {"kind": "certainty"},
    ):
        assert check_spec(changed("judge", judge), "cascade.yaml").judge.kind == judge["kind"]
    for objective in (
        {"minimize": "latency"},
        {"maximize": "quality", "latency_max_s": 20},
        {"minimize": "cost", "quality_min": 85, "latency_max_s": 20},
    ):
        assert check_spec(changed("objective", objective), "cascade.yaml").objective.quantile == 0.95
