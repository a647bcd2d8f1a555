"""What `cascadia up` says when it serves can be copied and run."""

import json
import shlex
from pathlib import Path

from cascadia.cli.fleet.common import RUN_DIR
from cascadia.cli.fleet.up import next_steps


def test_it_says_how_to_ask_to_look_and_to_end() -> None:
    ask, look, end = next_steps("http://127.0.0.1:8000", Path("/var/my run"), keys=False).splitlines()
    words = shlex.split(ask.partition(":")[2])
    assert words[:2] == ["curl", "http://127.0.0.1:8000/v1/chat/completions"]
    assert json.loads(words[-1])["model"] == "cascadia"
    assert look.split()[-1] == "http://127.0.0.1:8000/ui"
    assert shlex.split(end.partition(":")[2]) == ["cascadia", "down", "--run-dir", "/var/my run"]


def test_the_usual_folder_need_not_be_named_and_keys_are() -> None:
    said = next_steps("http://127.0.0.1:8000", RUN_DIR.resolve(), keys=True)
    assert said.endswith("cascadia down")
    assert "authorization: Bearer YOUR_KEY" in said
