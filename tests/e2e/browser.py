"""Headless Chromium, looking at a page once: its document after the scripts ran, and a picture."""

import asyncio
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_S = 120
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--hide-scrollbars", "--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"),
)


@dataclass(frozen=True)
class Seen:
    """`document` is the DOM as text, `said` what the page's scripts and the browser's checks complained of."""

    document: str
    said: list[str]

    def text(self, element_id: str) -> str:
        """Of the element with that id, without tags."""
        start = self.document.index(f'id="{element_id}"')
        tag = self.document.rfind("<", 0, start)
        name = re.match(r"<(\w+)", self.document[tag:])
        assert name is not None
        end = self.document.index(f"</{name.group(1)}>", start)
        inner = self.document[self.document.index(">", start) + 1 : end]
        return " ".join(re.sub(r"<[^>]*>", " ", inner).split())


async def look(
    url: str,
    profile: Path,
    *,
    picture: Path | None = None,
    dark: bool = False,
    size: tuple[int, int] = (1240, 1330),
) -> Seen:
    """The page some seconds after it was opened, by its own clock."""
    assert PROGRAM is not None
    flags = [
        *_FLAGS,
        f"--user-data-dir={profile}",
        f"--window-size={size[0]},{size[1]}",
        "--virtual-time-budget=6000",
    ]
    if dark:
        flags.append("--blink-settings=preferredColorScheme=0")
    if picture is not None:
        flags.append(f"--screenshot={picture}")
    else:
        flags.append("--dump-dom")
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *flags, url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            document, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    complaints = [line for line in said.decode(errors="replace").splitlines() if "CONSOLE" in line]
    return Seen(document.decode(), complaints)
