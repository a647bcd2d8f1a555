"""Real commands as processes of their own, with everything they keep in scratch folders."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("cascadia")
LIMIT_S = 300


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document that it must be."""
        return json.loads(self.stdout)


def environment(cache: Path) -> dict[str, str]:
    """Without a terminal's width, colours or the user's own caches."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    return {**kept, "CASCADIA_CACHE_DIR": str(cache)}


def told(
    folder: Path, *arguments: str, limit_s: float = LIMIT_S, env: dict[str, str] | None = None
) -> dict[str, Any]:
    """What the command says with --json, run in `folder`; it ends well, or the test fails with what it said."""
    done = subprocess.run(
        [PROGRAM, *arguments, "--json"], cwd=folder, env=env, capture_output=True, text=True, timeout=limit_s
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class Cascadia:
    """The installed command, run in `folder`."""

    folder: Path
    cache: Path

    def __call__(self, *args: str | Path) -> Done:
        """Ends well, or the test fails with what it said."""
        done = self.attempt(*args)
        assert done.code == 0, done.stderr
        return done

    def attempt(self, *args: str | Path) -> Done:
        done = subprocess.run(
            [PROGRAM, *map(str, args)],
            cwd=self.folder,
            env=environment(self.cache),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str | Path) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [PROGRAM, *map(str, args)],
            cwd=self.folder,
            env=environment(self.cache),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
