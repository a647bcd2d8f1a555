"""A router.yaml and a plan say the same things; mistakes in either are one line."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.lineup import digest_of
from cascadia.router.settings import Health, Limits
from cascadia.router.settings_file import check_url, read_settings

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
        ("https://models.example", "http://models.example/x", "more than a host"),
        ("KEY", "OTHER", "OTHER is not set"),
        ('judge:\n  kind: llm\n  replicas: [{url: "http://127.0.0.1:8200"}]\n', "", "judge"),
        ('  replicas: [{url: "http://127.0.0.1:8200"}]\n', "", "judge.replicas"),
        ("health_path: null", "health_path: 'x y'", "health_path"),
        ("threshold: 70", "threshold: .nan", "threshold"),
        ("api_key_env: KEY", "api_key_file: nothing.key", "no such file"),
        ("api_key_env: KEY", "api_key_env: KEY, api_key_file: engine.key", "are both given"),
        ("limits:", "admin: {port: 9901}\nlimits:", "needs keys"),
        ("limits:", "keys: {file: k, redis_url: 'http://h'}\nlimits:", "is no address of a Redis"),
        ("limits:", "keys: {file: k, redis_url_env: OTHER}\nlimits:", "OTHER is not set"),
        ("limits:", "keys: {file: k, redis_url: 'redis://h', redis_url_env: KEY}\nlimits:", "in two ways"),
        ("limits:", "keys: {file: k, open: [metrics]}\nlimits:", "open"),
        ("limits:", "keys: {fiel: k}\nlimits:", "did you mean 'file'"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput) as raised:
        read(tmp_path, GOOD.replace(old, new))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://h:1", "http://h:0", "http://h:99999", "http://u:p@h:1", "http://é:1"]
)
def test_only_plain_addresses_are_taken(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url, "here")


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
