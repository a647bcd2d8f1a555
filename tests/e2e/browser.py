"""Headless Chromium: a look at a page, its document after the scripts ran or a picture; or a page to press keys on."""

import asyncio
import json
import os
import re
import shlex
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


class Open:
    """A page under way, by Chromium's debugging protocol over two pipes: JSON documents that end with NUL."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self.reader = reader
        self.writer = writer
        self.session: str | None = None
        self._number = 0

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers; events in between are passed over."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads((await self.reader.readuntil(b"\0"))[:-1])
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    async def value(self, expression: str) -> Any:
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        while not await self.value(expression):
            await asyncio.sleep(0.05)

    async def press(self, key: str, text: str = "") -> None:
        code = {"Tab": 9, "Enter": 13, "ArrowRight": 39}[key]
        more = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        await self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **more)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **more)


@asynccontextmanager
async def opened(url: str, profile: Path) -> AsyncIterator[Open]:
    """The page, with the focus on its document."""
    assert PROGRAM is not None
    loop = asyncio.get_running_loop()
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    flags = [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    # It reads from descriptor 3 and writes to 4.
    command = f"exec {shlex.join(flags)} 3<&{to_read} 4>&{from_write}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command), pass_fds=(to_read, from_write), stderr=asyncio.subprocess.DEVNULL
    )
    os.close(to_read)
    os.close(from_write)
    reader = asyncio.StreamReader(limit=2**24)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_read, "rb", 0)
    )
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(to_write, "wb", 0))
    try:
        async with asyncio.timeout(PATIENCE_S):
            page = Open(reader, writer)
            target = (await page.send("Target.createTarget", url=url))["targetId"]
            page.session = (await page.send("Target.attachToTarget", targetId=target, flatten=True))[
                "sessionId"
            ]
            await page.send("Page.bringToFront")
            yield page
    finally:
        incoming.close()
        writer.close()
        process.kill()
        await process.wait()
