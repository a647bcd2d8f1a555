"""No key of router.yaml is silently ignored: each changes what is read, and one that is new has to be added here."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.files.policies_file import write_policies
from cascadia.router.settings.file import _File, read_settings
from cascadia.router.settings.model import RouterSettings
from cascadia_judge.llm.prompt import PROMPT_VERSION

Document = dict[str, Any]
ENVIRONMENT = {"KEY": "from-the-environment", "URL": "redis://h/1"}
REPLICA = {"url": "http://h:1"}
STAGE = {"name": "s", "replicas": [REPLICA]}
EMBEDDING = {"kind": "embedding", "replicas": [REPLICA]}
PATTERNS: dict[str, Document] = {"python-syntax": {}, "regex": {"pattern": "a"}}
TWO = [{"kind": "certainty"}, {"kind": "certainty", "statistic": "sum-logprob"}]


def whole(**members: Any) -> Document:
    return {"stages": [STAGE]} | members


def stage(section: Document) -> Document:
    return whole(stages=[section, {"name": "last", "replicas": [REPLICA]}], judge=EMBEDDING)


def shadow(section: Document) -> Document:
    return whole(samples={"folder": "f"}, shadow=section, judge=EMBEDDING)


def keys(section: Document) -> Document:
    return whole(keys=section)


PLANNED = {
    "rate_rps": 1, "p50_s": 1, "p95_s": 2, "ttft_p95_s": 1, "quality": 80, "quality_lower": 78, "usd_per_hour": 3
}  # fmt: skip
PLANNED_STAGE = {"reached": 1, "answered": 0.5, "p95_s": 2}


def planned(section: Document) -> Document:
    return whole(planned=section)


def planned_stage(section: Document) -> Document:
    return planned(PLANNED | {"stages": {"small": section}})


CLASSIFIES = STAGE | {"task": "classify", "group": "g"}
OTHER = CLASSIFIES | {"name": "t"}
POLICIES = Policies(
    "g",
    ("s",),
    slo_s=1.0,
    workers=1,
    queue="central",
    index="rate",
    levels=(Policy(1.0, (PolicyRow((0.0,), ("s",), (1,)),)),),
)


def grouped(group: Document) -> Document:
    return whole(stages=[CLASSIFIES], groups=[group])


GEARS: list[Document] = [{"max_in_flight": 5, "stages": [STAGE["name"]]}, {"stages": [STAGE["name"]]}]
MIXTURE: Document = {"share": 0.3, "thresholds": {STAGE["name"]: 0}}

LINE = {"base_s": 0.1, "read_s": 1e-5, "step_s": 0.01, "load_s": 1e-4}

Case = tuple[Callable[[Document], Document], Document, Document]
"""How a section becomes a whole file, what it must have, and another value of each key, `kind` for one of a kind."""

CASES: dict[str, list[Case]] = {
    "_File": [
        (
            lambda section: section,
            whole(),
            {
                "stages": [STAGE | {"name": "t"}],
                "judge": EMBEDDING,
                "foresight": {"replicas": [REPLICA]},
                "cascade": "c",
                "cost_unit": "usd-per-million-tokens",
                "cors": {"allow_origins": ["https://h"]},
                "conversations": {"start": "sticky"},
                "host": "::",
                "port": 1,
                "page": False,
                "playground": False,
                "tracing": {"endpoint": "http://h/v1/traces"},
                "samples": {"folder": "f"},
                "shadow": {"busy": 0.1},
                "keys": {"file": "k"},
                "watch_s": 9,
                "revision": "r",
                "limits": {"queue_s": 1},
                "names": [STAGE["name"], "larger"],
                "mixture": MIXTURE,
                "gears": GEARS,
                "under_load": {"then": "refuse"},
                "planned": PLANNED,
                "health": {"failures": 1},
            },
        ),
        (
            lambda section: section,
            stage(STAGE | {"exits": [{"thinking_tokens": 9, "threshold": 1}]}),
            {"exits": {}},
        ),
        (lambda section: section, whole(keys={"file": "k"}), {"admin": {"port": 1}}),
        (lambda section: section, grouped({"name": "g"}), {"groups": [{"name": "g", "slo_ms": 5}]}),
    ],
    "PlannedSection": [
        (
            planned,
            PLANNED,
            dict.fromkeys((*PLANNED, "score"), 9) | {"stages": {"s": PLANNED_STAGE}, "judge": PLANNED_STAGE},
        )
    ],
    "PlannedStageSection": [
        (
            planned_stage,
            PLANNED_STAGE,
            {"reached": 0.7, "answered": 0.2, "p95_s": 9, "usd_per_hour": 9, "replicas": 9},
        )
    ],
    "GroupSection": [
        (
            grouped,
            {"name": "g", "min_queue": [{"up_to_rps": 5, "lengths": {"s": 4}}]},
            {
                "policies": "policies.json",
                "slo_ms": 500,
                "max_batch": 5,
                "min_queue": [{"up_to_rps": 5, "lengths": {"s": 5}}],
                "max_wait_ms": 5,
            },
        ),
        (
            lambda section: whole(
                stages=[STAGE | {"task": "classify", "group": section["name"]}], groups=[section]
            ),
            {"name": "g"},
            {"name": "h"},
        ),
    ],
    "MinQueueSection": [
        (
            lambda section: grouped({"name": "g", "min_queue": [section]}),
            {"up_to_rps": 5, "lengths": {"s": 4}},
            {"up_to_rps": 6, "lengths": {"s": 5}},
        )
    ],
    "_Mixture": [
        (
            lambda section: whole(mixture=section),
            MIXTURE,
            {"share": 0.5, "thresholds": {STAGE["name"]: 101}, "skip_below": {STAGE["name"]: 101}},
        )
    ],
    "_UnderLoad": [(lambda section: whole(under_load=section), {}, {"then": "refuse"})],
    "GearSection": [
        (
            lambda section: stage(STAGE | {"threshold": 7}) | {"gears": [section, {"stages": ["last"]}]},
            GEARS[0],
            {"max_in_flight": 6, "stages": [STAGE["name"], "last"], "thresholds": {STAGE["name"]: 9}},
        ),
        (
            lambda section: stage(STAGE | {"threshold": 7}) | {"gears": [section, {"stages": ["last"]}]},
            GEARS[0],
            {"skip_below": {STAGE["name"]: 9}},
        ),
    ],
    "_Cors": [
        (
            lambda section: whole(cors=section),
            {"allow_origins": ["https://h"]},
            {
                "allow_origins": ["*"],
                "allow_methods": ["GET"],
                "allow_headers": ["x-a"],
                "allow_credentials": True,
                "max_age_s": 1,
            },
        )
    ],
    "_Stage": [
        (
            stage,
            STAGE,
            {
                "name": "t",
                "model": "m",
                "replicas": [{"url": "http://h:2"}],
                "threshold": 7,
                "max_model_len": 9,
                "max_tokens": 3,
                "balancing": "prefix",
                "latency_max_s": 3,
                "cost": 2,
                "load": 0.6,
                "planned_share": 2.5,
                "hedge": {},
                "passes_priority": True,
                "skip_below": 5,
                "exits": [{"thinking_tokens": 9, "threshold": 1}],
                "ends_thinking": "So:",
                "ends_answer": "\n",
                "echoes": True,
                "on_overload": "escalate",
            },
        ),
        (
            lambda section: stage(section) | {"foresight": {"replicas": [REPLICA]}},
            STAGE | {"exits": [{"thinking_tokens": 9, "threshold": 1}]},
            {"budget_field": "thinking_token_budget"},
        ),
        (
            stage,
            STAGE | {"usd_per_million_input_tokens": 1, "usd_per_million_output_tokens": 1},
            {"usd_per_million_input_tokens": 2, "usd_per_million_output_tokens": 2},
        ),
        (stage, STAGE | {"threshold": 7}, {"verifiers": [{"kind": "python-syntax"}]}),
        (
            stage,
            STAGE | {"threshold": 7, "verifiers": [{"kind": "python-syntax"}]},
            {"verified": "accept"},
        ),
        (lambda section: whole(stages=[section]), STAGE, {"task": "classify"}),
        (
            lambda section: whole(stages=[STAGE | {"name": "before", "task": "classify"}, section]),
            STAGE | {"task": "classify"},
            {"earlier_weight": 0.5},
        ),
        (
            lambda section: whole(stages=[section, OTHER], groups=[{"name": "g"}]),
            STAGE | {"task": "classify"},
            {"group": "g"},
        ),
    ],
    "_Replica": [
        (
            lambda section: stage(STAGE | {"replicas": [section]}),
            REPLICA,
            {
                "url": "http://h:2",
                "share": 2,
                "max_concurrency": 3,
                "health_path": "/up",
                "api_key_env": "KEY",
                "api_key_file": "secret",
                "resolve": "dns",
                "planned": 4,
                "requests_per_minute": 600,
                "kind": "h100",
                "latency": LINE,
            },
        )
    ],
    "_Latency": [
        (
            lambda section: stage(STAGE | {"replicas": [REPLICA | {"latency": section}]}),
            LINE,
            {key: 2 * value for key, value in LINE.items()},
        )
    ],
    "_Foresight": [
        (
            lambda section: whole(foresight=section),
            {"replicas": [REPLICA]},
            {"replicas": [{"url": "http://h:2"}], "timeout_s": 9},
        )
    ],
    "_ExitPromise": [
        (
            lambda section: (
                stage(STAGE | {"exits": [{"thinking_tokens": 9, "threshold": 1}]}) | {"exits": section}
            ),
            {},
            {"risk": 0.05, "confidence": 0.8, "shadow": 0.2, "state": "elsewhere"},
        )
    ],
    "_Exit": [
        (
            lambda section: stage(STAGE | {"exits": [section]}),
            {"thinking_tokens": 9, "threshold": 1},
            {"thinking_tokens": 8, "threshold": 2, "last": True},
        ),
        (
            lambda section: stage(STAGE | {"exits": [section]}) | {"foresight": {"replicas": [REPLICA]}},
            {"thinking_tokens": 9, "threshold": 1},
            {"foreseen": 95},
        ),
    ],
    "_Hedge": [(lambda section: stage(STAGE | {"hedge": section}), {}, {"quantile": 0.9, "ratio": 0.2})],
    "VerifierFields": [
        (
            lambda section: stage(STAGE | {"threshold": 7, "verifiers": [section]}),
            {"kind": "regex", "pattern": "a"},
            {"pattern": "b", "absent": True},
        ),
        (
            lambda section: stage(STAGE | {"threshold": 7, "verifiers": [section]}),
            {"kind": "json-schema", "schema": {}},
            {"schema": {"type": "string"}},
        ),
        (
            lambda section: stage(
                STAGE | {"threshold": 7, "verifiers": [PATTERNS[section["kind"]] | section]}
            ),
            {"kind": "python-syntax"},
            {"kind": "regex"},
        ),
    ],
    "_Judge": [
        (
            lambda section: whole(judge=section),
            {"kind": "llm", "replicas": [REPLICA]},
            {
                "kind": "embedding",
                "model": "m",
                "timeout_s": 1,
                "on_failure": "accept",
                "reads_tokens": 99,
                "cache_size": 1,
                "weight": 2,
                "scale": 10,
                "replicas": [{"url": "http://h:2"}],
            },
        ),
        (lambda section: whole(judge=section), EMBEDDING, {"certainty": False}),
        (
            lambda section: whole(judge=section),
            {"kind": "certainty"},
            {"statistic": "sum-logprob", "points": [[0, 0], [1, 9]]},
        ),
        (
            lambda section: whole(judge=section),
            {"kind": "agreement"},
            {"samples": 3, "temperature": 1, "extract": "a"},
        ),
        (
            lambda section: whole(judge=section),
            {"kind": "ensemble", "members": TWO},
            {"members": TWO[::-1], "combine": "minimum"},
        ),
    ],
    "_Conversations": [
        (lambda section: whole(conversations=section), {}, {"start": "sticky", "kept": 5, "kept_s": 6})
    ],
    "_Keys": [
        (
            keys,
            {"file": "k"},
            {
                "file": "l",
                "open": ["/v1/models"],
                "redis_url": "redis://h/0",
                "redis_url_env": "URL",
                "redis_url_file": "url",
                "redis_timeout_s": 1,
                "on_redis_failure": "refuse",
                "spend": "folder",
            },
        )
    ],
    "_Admin": [
        (lambda section: whole(keys={"file": "k"}, admin=section), {}, {"port": 1, "host": "::"}),
    ],
    "TracingSection": [
        (
            lambda section: whole(tracing=section),
            {"endpoint": "http://h/v1/traces"},
            {"endpoint": "http://i/v1/traces", "ratio": 0.5, "follow": False, "service": "s"},
        )
    ],
    "SamplesSection": [
        (
            lambda section: whole(samples=section),
            {"folder": "f"},
            {
                "folder": "g",
                "ratio": 0.5,
                "rows": 5,
                "seconds": 9,
                "max_bytes": 2**21,
                "text": True,
                "token_env": "KEY",
                "token_file": "token",
            },
        )
    ],
    "ShadowSection": [
        (
            shadow,
            {},
            {
                "ratio": 0.5,
                "busy": 0.1,
                "tokens_per_hour": 5,
                "max_tokens": 6,
                "burst_ratio": 0.7,
                "burst_at_once": 2,
                "burst_hours": 1.0,
            },
        ),
    ],
}
REFUSED = {"_Judge": {"prompt_version"}}
"""Keys with one value that is not refused, which changes nothing."""
BY_NUMBERS = {"limits", "health"}
"""tests/unit/router/http/test_hurt_others.py gives each of their keys."""


def read(document: Document, folder: Path) -> RouterSettings:
    (folder / "secret").write_text("from-a-file")
    (folder / "token").write_text("a-token-from-a-file")
    (folder / "url").write_text("redis://h/2")
    write_policies(POLICIES, folder / "policies.json")
    path = folder / "router.yaml"
    path.write_text(json.dumps(document))
    return read_settings(path, ENVIRONMENT)


@pytest.mark.parametrize("section", CASES)
def test_each_key_changes_what_is_read(section: str, tmp_path: Path) -> None:
    for put, base, others in CASES[section]:
        plain = read(put(base), tmp_path)
        for key, value in others.items():
            assert read(put(base | {key: value}), tmp_path) != plain, key


def test_no_key_is_left_out_here() -> None:
    schema = _File.model_json_schema()
    sections: Mapping[str, Any] = schema["$defs"] | {"_File": schema}
    for name in sections.keys() - BY_NUMBERS:
        given = {key for _, _, others in CASES[name] for key in others}
        assert given == set(sections[name]["properties"]) - REFUSED.get(name, set()), name


def test_one_price_needs_the_other(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"stages\[0\]\.usd_per_million_output_tokens: is missing"):
        read(stage(STAGE | {"usd_per_million_input_tokens": 1}), tmp_path)


def test_a_prompt_version_is_heard_by_refusing_another(tmp_path: Path) -> None:
    judge = {"kind": "llm", "replicas": [REPLICA]}
    read(whole(judge=judge | {"prompt_version": PROMPT_VERSION}), tmp_path)
    with pytest.raises(BadInput, match=r"judge\.prompt_version"):
        read(whole(judge=judge | {"prompt_version": "another"}), tmp_path)


def test_paths_may_begin_at_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    write_policies(POLICIES, home / "policies.json")
    plain = grouped({"name": "g", "policies": "~/policies.json"})
    (tmp_path / "router.yaml").write_text(
        json.dumps(plain | {"keys": {"file": "~/keys.json"}, "samples": {"folder": "~/samples"}})
    )
    settings = read_settings(tmp_path / "router.yaml", {})
    assert settings.groups[0].policies == POLICIES
    assert settings.keys is not None
    assert settings.samples is not None
    assert (settings.keys.file, settings.samples.folder) == (home / "keys.json", home / "samples")
