"""Draws the pictures of plans, docs/images/report*.png and what-if.png, in headless Chromium.

`python docs/pictures.py` plans what `make demo-plan` plans, and an example in `cascadia ui`. Each picture carries its
plan's headline as title, by which a test tells that it is of the plan that pages print.
"""

import asyncio
import base64
import contextlib
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

IMAGES = DOCS / "images"
CASCADIA = Path(sys.executable).with_name("cascadia")
WIDTH = 1100
REPORT = {
    "report.png": (1640, ""),
    "report-charts.png": (1500, "main > :not(#latency, #frontier, #knee) { display: none }"),
}
"""Heights in pixels, and what is styled otherwise than in the report."""
WHAT_IF = (1240, 1010)


def draw_report(folder: Path) -> None:
    """Pictures of the bundled plan's report, which is made in `folder`."""
    from tests.e2e.browser import look

    command = [str(CASCADIA), "demo", "--plan-only", "--out", str(folder / "plan")]
    headline = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    report = (folder / "plan" / "report.html").read_text(encoding="utf-8")
    for name, (height, style) in REPORT.items():
        page, picture = folder / "page.html", folder / name
        page.write_text(report.replace("</head>", f"<style>{style}</style></head>"), encoding="utf-8")
        seen = look(page.as_uri(), folder / "profile", picture=picture, size=(WIDTH, height))
        asyncio.run(seen)
        (IMAGES / name).write_bytes(titled(picture.read_bytes(), headline))


async def draw_what_if(folder: Path) -> None:
    """The planner's page, with the plan that it makes first."""
    from cascadia.clients.processes.ports import free_port
    from tests.e2e.browser import opened

    port = free_port()
    asked = ("ui", "chat-16-gpus.yaml", "--port", str(port))
    out = asyncio.subprocess.PIPE
    serving = await asyncio.create_subprocess_exec(str(CASCADIA), *asked, cwd=DOCS / "examples", stdout=out)
    try:
        assert serving.stdout is not None
        await serving.stdout.readline()  # said once it listens
        async with opened("about:blank", folder / "profile") as page:
            width, height = WHAT_IF
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            await page.send("Emulation.setDeviceMetricsOverride", **size)
            await page.send("Page.navigate", url=f"http://127.0.0.1:{port}/")
            await page.until("document.getElementById('headline')?.textContent")
            headline = str(await page.value("document.getElementById('headline').textContent"))
            shot = await page.send("Page.captureScreenshot", format="png")
    finally:
        with contextlib.suppress(ProcessLookupError):
            serving.terminate()
        await serving.wait()
    png = base64.b64decode(shot["data"])
    (IMAGES / "what-if.png").write_bytes(titled(png, headline.strip().removesuffix(".")))


def titled(png: bytes, title: str) -> bytes:
    """`png` with a chunk of text before its end."""
    text = b"iTXtTitle\0\0\0\0\0" + title.encode()
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    end = png.rindex(b"IEND") - 4
    return png[:end] + chunk + png[end:]


def title_of(png: bytes) -> str:
    """The title that a picture carries; empty where it has none."""
    at = png.find(b"iTXtTitle\0\0\0\0\0")
    if at < 0:
        return ""
    (length,) = struct.unpack(">I", png[at - 4 : at])
    return png[at + len(b"iTXtTitle\0\0\0\0\0") : at + 4 + length].decode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        draw_report(Path(made))
        asyncio.run(draw_what_if(Path(made)))
