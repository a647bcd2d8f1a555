"""The reference of router.yaml shows settings that a router takes, and the defaults that it has."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import Health, Limits
from tests.data import ROOT

PAGE = (ROOT / "docs/reference/router.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
BESIDE = """
stages:
  - {name: small, threshold: 50, replicas: [{url: "http://127.0.0.1:8100"}]}
  - {name: large, replicas: [{url: "http://127.0.0.1:8101"}]}
judge: {kind: certainty}
"""
UNITS = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


@pytest.mark.parametrize("text", SHOWN, ids=[text.split(":")[0] for text in SHOWN])
def test_shown_settings_are_taken(text: str, tmp_path: Path) -> None:
    (tmp_path / "redis.url").write_text("redis://redis:6379/0")
    whole = text if text.startswith("stages:") else BESIDE + text
    if text.startswith("shadow:"):
        whole += "samples: {folder: samples}\n"
    path = tmp_path / "router.yaml"
    path.write_text(whole)
    read_settings(path, {"SMALL_KEY": "secret"})


@pytest.mark.parametrize("found", [Limits(), Health()], ids=["limits", "health"])
def test_told_defaults_are_the_codes(found: Limits | Health) -> None:
    listed = PAGE.partition("Members of `limits`")[2].partition("\n\n")[0]
    told = {
        name: float(number.replace(",", "")) * UNITS.get(unit, 1)
        for name, number, unit in re.findall(r"`(\w+)` ([\d,.]*\d)(?: (GiB|MiB|KiB))?", listed)
    }
    for field in fields(found):
        assert told.get(field.name) == getattr(found, field.name), field.name
