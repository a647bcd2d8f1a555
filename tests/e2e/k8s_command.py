"""A pod that ends: its container's command really runs, on this machine."""

import asyncio
import os
import subprocess
import sys
from typing import Any

from tests.e2e.k8s_services import LAG_S, Services

Pod = dict[str, Any]


async def run_once(pod: Pod, environment: dict[str, str], services: Services) -> dict[str, Any]:
    """The pod's status when it has ended. Names of Services in its variables stand for the address of a ready pod."""
    container = pod["spec"]["containers"][0]
    program = {"python": sys.executable}.get(container["command"][0], container["command"][0])
    # DNS tells late of a pod that is ready.
    await asyncio.sleep(2 * LAG_S)
    known = services.addresses()
    given = {key: _resolved(text, known) for key, text in environment.items()}
    done = await asyncio.to_thread(
        subprocess.run,
        [program, *container["command"][1:], *container.get("args", ())],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    told = {"name": container["name"], "image": container["image"], "imageID": "", "ready": False}
    ended = {"exitCode": done.returncode, "message": (done.stdout + done.stderr)[-2000:]}
    return {
        "phase": "Failed" if done.returncode else "Succeeded",
        "containerStatuses": [{**told, "restartCount": 0, "state": {"terminated": ended}}],
    }


def _resolved(text: str, known: dict[str, list[str]]) -> str:
    for name, addresses in known.items():
        if addresses:
            text = text.replace(f"//{name}:", f"//{addresses[0]}:")
    return text
