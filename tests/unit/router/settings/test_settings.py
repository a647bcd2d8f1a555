"""A router.yaml and a plan say the same things; mistakes in either are one line."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.live.active_plan import digest_of
from cascadia.router.settings.file import check_url, read_settings
from cascadia.router.settings.model import Health, Limits, RouterSettings

GOOD = """
stages:
  - name: small
    model: smol
    threshold: 70
    balancing: prefix
    replicas:
      - {url: "http://127.0.0.1:8100/v1", share: 2, api_key_env: KEY}
      - {url: "http://127.0.0.1:8101"}
  - name: large
    replicas: [{url: "https://models.example", health_path: null}]
judge:
  kind: llm
  replicas: [{url: "http://127.0.0.1:8200"}]
limits: {queue_s: 5, max_tries: 2}
health: {interval_s: 1.5}
"""


def read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "router.yaml"
    path.write_text(text)
    return read_settings(path, {"KEY": "secret"})


def test_a_file_becomes_settings(tmp_path: Path) -> None:
    path = tmp_path / "router.yaml"
    path.write_text(GOOD)
    settings = read_settings(path, {"KEY": "secret"})
    small, large = settings.stages
    assert (small.name, small.model, small.threshold, small.balancing) == ("small", "smol", 70.0, "prefix")
    assert [r.url for r in small.replicas] == ["http://127.0.0.1:8100", "http://127.0.0.1:8101"]
    assert small.replicas[0].api_key == "secret"
    assert "secret" not in repr(settings)
    assert large.replicas[0].health_path is None
    assert settings.judge is not None
    assert settings.judge.stage is not None
    assert settings.limits == Limits(queue_s=5.0, max_tries=2)
    assert settings.health == Health(interval_s=1.5)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("threshold:", "treshold:", "did you mean 'threshold'"),
        ("queue_s:", "queue:", "did you mean 'queue_s'"),
        ("name: large", "name: small", "is taken"),
        ("name: large", "name: cascadia", "is taken"),
        ("name: large", "name: 'a b'", "stages[1].name"),
        ("https://models.example", "models.example", "is no address"),
        ("https://models.example", "http://models.example/x?y", "more than a host"),
        ("KEY", "OTHER", "OTHER is not set"),
        ('judge:\n  kind: llm\n  replicas: [{url: "http://127.0.0.1:8200"}]\n', "", "judge"),
        ('  replicas: [{url: "http://127.0.0.1:8200"}]\n', "", "judge.replicas"),
        ("health_path: null", "health_path: 'x y'", "health_path"),
        ("threshold: 70", "threshold: .nan", "threshold"),
        ("api_key_env: KEY", "api_key_file: nothing.key", "no such file"),
        ("limits:", "samples: {folder: log, token_env: KEY}\nlimits:", "shorter than 16 characters"),
        ("limits:", "samples: {folder: log, token_env: NONE}\nlimits:", "NONE is not set"),
        ("api_key_env: KEY", "api_key_env: KEY, api_key_file: engine.key", "are both given"),
        ("limits:", "admin: {port: 9901}\nlimits:", "needs keys"),
        ("limits:", "keys: {file: k, redis_url: 'http://h'}\nlimits:", "is no address of a Redis"),
        ("limits:", "keys: {file: k, redis_url_env: OTHER}\nlimits:", "OTHER is not set"),
        ("limits:", "keys: {file: k, redis_url: 'redis://h', redis_url_env: KEY}\nlimits:", "in two ways"),
        ("limits:", "keys: {file: k, open: [metrics]}\nlimits:", "open"),
        ("limits:", "keys: {fiel: k}\nlimits:", "did you mean 'file'"),
        (
            'replicas: [{url: "http://127.0.0.1:8200"}]',
            'replicas: [{url: "http://127.0.0.1:8200"}, {url: "http://127.0.0.1:8200/v1/", share: 2}]',
            "judge.replicas: name http://127.0.0.1:8200 twice; name it once",
        ),
        ("health: {interval_s: 1.5}", "health: {interval_s: 0}", "health.interval_s: must be greater than 0"),
        ("queue_s: 5", "max_held_bytes: 0", "limits.max_held_bytes: must be greater than 0"),
        ("queue_s: 5", "heartbeat_s: 0", "limits.heartbeat_s: must be greater than 0"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput) as raised:
        read(tmp_path, GOOD.replace(old, new))
    assert said in str(raised.value)


LADDER = """
gears:
  - {max_in_flight: 8, stages: [small, large], thresholds: {small: 60}}
  - {max_in_flight: 20, stages: [small, large], thresholds: {small: 40}}
  - {stages: [small]}
limits:"""


def test_gears_are_read_in_order_the_heaviest_first(tmp_path: Path) -> None:
    settings = read(tmp_path, GOOD.replace("limits:", LADDER))
    assert [(gear.number, gear.max_in_flight, gear.stages) for gear in settings.gears] == [
        (0, 8.0, ("small", "large")),
        (1, 20.0, ("small", "large")),
        (2, None, ("small",)),
    ]
    assert settings.gears[1].thresholds == {"small": 40.0}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "max_in_flight: 20",
            "max_in_flight: 8",
            "gears[1].max_in_flight: is 8 after 8; list gears by rising",
        ),
        (
            "max_in_flight: 20, ",
            "",
            "gears[1].max_in_flight: is missing; give each gear but the last a border",
        ),
        ("{stages: [small]}", "{max_in_flight: 30, stages: [small]}", "gears[2].max_in_flight: is set"),
        (
            "{stages: [small]}",
            "{stages: [huge]}",
            "gears[2].stages: 'huge' is no stage; there are small, large",
        ),
        ("{stages: [small]}", "{stages: [large, small]}", "gears[2].stages: have another order"),
        ("{stages: [small]}", "{stages: []}", "gears[2].stages"),
        (
            "{stages: [small]}",
            "{stages: [small], thresholds: {large: 5}}",
            "gears[2].thresholds: 'large' is not asked; it asks small",
        ),
        ("{small: 40}", "{small: 40}, skip_below: {small: 9}", "skip_below: needs foresight"),
        ("limits:", "mixture: {share: 0.5, thresholds: {small: 9}}\nlimits:", "mixture: stands beside gears"),
    ],
)
def test_a_ladder_that_makes_no_sense_is_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in LADDER
    with pytest.raises(BadInput) as raised:
        read(tmp_path, GOOD.replace("limits:", LADDER.replace(old, new)))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://h:1", "http://h:0", "http://h:99999", "http://u:p@h:1", "http://é:1"]
)
def test_only_plain_addresses_are_taken(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url, "here")


JUDGES = """
stages:
  - {name: small, threshold: 50, replicas: [{url: "http://127.0.0.1:1"}], STAGE}
  - {name: large, replicas: [{url: "http://127.0.0.1:2"}]}
judge: JUDGE
"""
EMBEDDING = '{kind: embedding, replicas: [{url: "http://127.0.0.1:8200"}], MORE}'


def judges(tmp_path: Path, judge: str, stage: str = "") -> RouterSettings:
    path = tmp_path / "router.yaml"
    path.write_text(JUDGES.replace("JUDGE", judge).replace(", STAGE", f", {stage}" if stage else ""))
    return read_settings(path, {})


def test_every_kind_of_judge_can_be_told(tmp_path: Path) -> None:
    found = judges(
        tmp_path,
        "{kind: ensemble, combine: minimum, members: ["
        '{kind: embedding, replicas: [{url: "http://127.0.0.1:8200"}], certainty: false, weight: 2}, '
        "{kind: certainty, statistic: sum-logprob, points: [[-9, 10], [0, 90]]}, "
        "{kind: agreement, samples: 3, temperature: 0.5, extract: '\\d+'}]}",
        "skip_below: 20, verified: judge, verifiers: [{kind: regex, pattern: x}, {kind: python-syntax}, "
        "{kind: json-schema, schema: {type: object}}]",
    )
    judge = found.judge
    assert judge is not None
    assert (judge.kind, judge.combine, judge.stage) == ("ensemble", "minimum", None)
    embedding, certainty, agreement = judge.members
    assert embedding.stage is not None
    assert (embedding.stage.name, embedding.weight, embedding.certainty) == ("judge-0", 2.0, False)
    assert (certainty.statistic, certainty.points) == ("sum-logprob", ((-9.0, 10.0), (0.0, 90.0)))
    assert (agreement.samples, agreement.temperature, agreement.extract) == (3, 0.5, r"\d+")
    small = found.stages[0]
    assert small.skip_below == 20
    assert [verifier.kind for verifier in small.verifiers] == ["regex", "python-syntax", "json-schema"]


@pytest.mark.parametrize(
    ("judge", "stage", "said"),
    [
        ("{kind: embedding}", "", "judge.replicas: is empty"),
        ("{kind: embeding}", "", "judge.kind"),
        (EMBEDDING.replace("MORE", "model: x"), "", "judge.model: is not of a judge of kind embedding"),
        (
            "{kind: certainty, samples: 3}",
            "",
            "samples: is not of a judge of kind certainty; it is of kind agreement",
        ),
        ("{kind: certainty, points: [[1, 2], [0, 3]]}", "", "does not ascend"),
        ("{kind: certainty, points: [[1, 2], [2, 300]]}", "", "out of range"),
        ("{kind: agreement, extract: '('}", "", "no regular expression"),
        ("{kind: ensemble, members: [{kind: certainty}]}", "", "fewer than two"),
        ("{kind: ensemble, members: [{kind: llm}, {kind: certainty}]}", "", "members[0].replicas: is empty"),
        ("{kind: certainty}", "skip_below: 20", "skip_below: needs foresight, or a judge of kind embedding"),
        ("{kind: certainty}", "verifiers: [{kind: regex}]", "verifiers[0].pattern: is missing"),
        (
            "{kind: certainty}",
            "verifiers: [{kind: regex, pattern: '('}]",
            "verifiers[0]: the reference is no regular",
        ),
        (
            "{kind: certainty}",
            "verifiers: [{kind: python-syntax, pattern: x}]",
            "pattern: is not of kind python-syntax",
        ),
        ("{kind: certainty}", "verifiers: [{kind: json-schema, schema: {type: shoe}}]", "no JSON schema"),
        ("{kind: certainty}", "verified: accept", "verified: has no verifiers"),
    ],
)
def test_what_a_judge_cannot_be_is_one_line(tmp_path: Path, judge: str, stage: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        judges(tmp_path, judge, stage)
    assert said in str(refused.value)


def test_verifiers_need_a_threshold_that_they_can_fail(tmp_path: Path) -> None:
    path = tmp_path / "router.yaml"
    text = JUDGES.replace("JUDGE", "{kind: certainty}").replace("STAGE", "verifiers: [{kind: python-syntax}]")
    path.write_text(text.replace("threshold: 50", "threshold: 0"))
    with pytest.raises(BadInput, match="threshold: decides alone"):
        read_settings(path, {})


def test_secrets_come_from_files_beside_the_settings_and_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "engine.key").write_text("engine-secret\n")
    (tmp_path / "redis.url").write_text("rediss://user:redis-secret@h:6379/1\n")
    path = tmp_path / "router.yaml"
    text = GOOD.replace("api_key_env: KEY", "api_key_file: engine.key")
    path.write_text(
        text + "keys: {file: keys.json, redis_url_file: redis.url, open: [/metrics]}\nadmin: {}\n"
    )
    settings = read_settings(path, {})
    assert settings.stages[0].replicas[0].api_key == "engine-secret"
    assert settings.keys is not None
    assert settings.keys.redis_url == "rediss://user:redis-secret@h:6379/1"
    assert settings.keys.file == tmp_path / "keys.json"
    assert settings.admin is not None
    assert settings.admin.port is None
    assert settings.files == (path, tmp_path / "engine.key", tmp_path / "redis.url")
    assert not any(secret in repr(settings) for secret in ("engine-secret", "redis-secret"))


@pytest.mark.parametrize(
    ("content", "said"), [("", "is empty"), ("a b\nc", "no header can"), ("é", "no header")]
)
def test_a_file_without_a_usable_secret_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "engine.key").write_text(content)
    with pytest.raises(BadInput) as raised:
        read(tmp_path, GOOD.replace("api_key_env: KEY", "api_key_file: engine.key"))
    assert said in str(raised.value)


def test_two_plans_that_differ_have_two_digests_and_secrets_and_ports_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "router.yaml"
    path.write_text(GOOD)
    settings = read_settings(path, {"KEY": "one"})
    assert digest_of(settings) == digest_of(replace(read_settings(path, {"KEY": "two"}), port=1))
    path.write_text(GOOD.replace("threshold: 70", "threshold: 71"))
    assert digest_of(read_settings(path, {"KEY": "one"})) != digest_of(settings)
