"""`/samples`: the files of the workload log, for a controller that shares no volume with this router.

They have a token of their own: who plans anew needs no key that may ask models, and no client's key opens them.
"""

import asyncio
import hmac
import re
from pathlib import Path

from fastapi import FastAPI, HTTPException, Response

from cascadia.clients.cluster.evaluations_asked import ask
from cascadia.router.access.guard import authorization_of, refuse
from cascadia.router.http.asgi import Application, Receive, Scope, Send
from cascadia.router.observers.samples_rows import KINDS
from cascadia.router.openai.errors import ApiError

PATH = "/samples"
_FILE = re.compile(rf"(?:{'|'.join(KINDS)})-[\w-]+\.parquet")


def samples_routes(folder: Path, token: str) -> Application:
    app = FastAPI(openapi_url=None)

    @app.get(PATH, summary="Names of the files that are whole.")
    async def names() -> list[str]:
        return await asyncio.to_thread(
            lambda: sorted(path.name for path in folder.iterdir() if _FILE.fullmatch(path.name))
        )

    @app.get(f"{PATH}/{{name}}", summary="One of them.")
    async def file(name: str) -> Response:
        if not _FILE.fullmatch(name):
            raise HTTPException(404)
        try:
            content = await asyncio.to_thread((folder / name).read_bytes)
        except FileNotFoundError:  # it made room for another
            raise HTTPException(404) from None
        return Response(content, media_type="application/vnd.apache.parquet")

    @app.post(f"{PATH}/looks", status_code=202, summary="More shadow evaluations are wanted, for a while.")
    async def looks() -> None:
        await asyncio.to_thread(ask, folder)

    wanted = b"Bearer " + token.encode("ascii")

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if hmac.compare_digest(authorization_of(scope), wanted):
            await app(scope, receive, send)
        else:
            await refuse(ApiError(401, "invalid_token", "Send the token of samples."), scope, send)

    return guarded
