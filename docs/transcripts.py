"""Runs the commands that pages show, and writes what they print below them.

A page's blocks that begin with "```console run" are one session, in an empty folder: a line `$ command` is run by bash
(`\\` at its end goes on in the next), the lines up to the next one are what it prints, standard error included. A
command that ends in `# fails` may fail. A block that begins with "```console run needs=helm" is left as it is where
there is no such program. `make demo-plan` stands for what the Makefile runs. Files of a page's blocks
that begin with "```yaml file=NAME" are there from the start, and so are the examples, under docs/examples.

`python docs/transcripts.py [PAGE...]` writes the pages, all unless some are named, as many at a time as cores;
with `--check` it fails where one is stale.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SESSION = re.compile(r"(^```console run(?: needs=(\w+))?\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INSTEAD = {"make demo-plan": "cascadia demo --plan-only"}


def replayed(page: str) -> str:
    """`page` with what its commands print today."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "session"
        folder.mkdir()
        shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
        for name, text in FILE.findall(page):
            (folder / name).write_text(text, encoding="utf-8")
        return SESSION.sub(lambda match: told(match, folder), page)


def told(match: re.Match[str], folder: Path) -> str:
    """A block with its first line; as it is where the program that it needs is not there."""
    head, program, block = match.groups()
    if program is not None and shutil.which(program) is None:
        return match.group()
    return head + "".join(session(block, folder))


def session(block: str, folder: Path) -> Iterator[str]:
    for shown in commands(block):
        line = re.sub(r"\\\n> ", "", shown)
        yield f"$ {shown}\n{output(line, folder)}"


def commands(block: str) -> list[str]:
    """What follows each `$ `, with the lines that it goes on in."""
    return re.findall(r"^\$ ((?:.*\\\n> )*.*)$", block, re.MULTILINE)


def output(line: str, folder: Path) -> str:
    """What a shell prints for `line`. Raises `RuntimeError` where it fails and does not say so."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", INSTEAD.get(line, line)],
        cwd=folder,
        env={**os.environ, "PATH": path, "CASCADIA_CACHE_DIR": str(folder.parent / "cache")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    if (done.returncode == 0) == line.endswith("# fails"):
        raise RuntimeError(f"{line!r} ended with {done.returncode}:\n{done.stdout}")
    return "".join(f"{text.rstrip()}\n" for text in done.stdout.splitlines())


def pages() -> list[str]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in found if SESSION.search(page.read_text(encoding="utf-8"))]


def run(names: list[str], check: bool) -> int:
    olds = [(ROOT / name).read_text(encoding="utf-8") for name in names]
    stale = False
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for name, old, new in zip(names, olds, threads.map(replayed, olds), strict=True):
            sys.stderr.write(f"{name}: {'as shown' if new == old else 'otherwise'}\n")
            sys.stderr.writelines(
                difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "now")
            )
            stale |= new != old
            if new != old and not check:
                (ROOT / name).write_text(new, encoding="utf-8")
    return int(check and stale)


if __name__ == "__main__":
    given = [name for name in sys.argv[1:] if name != "--check"]
    sys.exit(run(given or pages(), "--check" in sys.argv[1:]))
