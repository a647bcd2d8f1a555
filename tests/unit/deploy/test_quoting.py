"""What stands bare in a template is a number: YAML takes `on`, `123` and `1e3` for something else than text."""

import re

from tests.unit.deploy.chart import CHART

NUMBERS = r"(int|add|div|mul|max|min|ternary \$pods|\$unavailable|printf \"%\.6g\"|ne) "
BARE = re.compile(r"[\w./-]+: +(\{\{[^{}]*\}\})|^ *- (\{\{(?!-)[^{}]*\}\})", re.MULTILINE)
OURS = (
    "cascadia.policyVersion",
    "cascadia.rolling",
    "$judge.timeoutSeconds",
    "Capabilities.APIVersions",
    "$content",
)
"""Written by the chart alone, or a number by its schema."""


def test_text_is_quoted_wherever_a_template_writes_it() -> None:
    bare = []
    for file in sorted(CHART.glob("templates/**/*")):
        if not file.is_file() or file.name == "NOTES.txt":
            continue
        for found in BARE.finditer(file.read_text(encoding="utf-8")):
            written = next(group for group in found.groups() if group)
            quoted = re.search(r"\b(quote|squote) \}\}$", written) or "toYaml" in written
            number = re.match(rf"\{{\{{-? {NUMBERS}", written)
            if not quoted and not number and not any(name in written for name in OURS):
                bare.append(f"{file.name}: {written}")
    assert bare == []


def test_the_pattern_finds_what_is_bare() -> None:
    for text in ("name: {{ .a }}", "- {{ .a }}", "{name: {{ .a }}, b: c}", "  - name: {{ .a }}"):
        assert BARE.search(text), text
