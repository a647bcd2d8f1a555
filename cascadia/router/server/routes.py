"""Applications, made with FastAPI at the start, that serve what is not of the OpenAI API's POSTs."""

from typing import Protocol

from cascadia.router.access.cors import answer_preflight, is_preflight
from cascadia.router.access.guard import refusal, refuse
from cascadia.router.admin.public_routes import Public, public_routes
from cascadia.router.admin.routes import Administered, admin_routes
from cascadia.router.admin.samples_routes import samples_routes
from cascadia.router.http.asgi import Application, Receive, Scope, Send


class Routed(Public, Administered, Protocol):
    """A router, to those who look at it and those who operate it."""


class Routes:
    """`admin_here`: whether `/admin/` is served at the router's own port."""

    def __init__(self, router: Routed, *, admin_here: bool) -> None:
        self._router = router
        self._public: Application = public_routes(router)
        self._admin: Application | None = admin_routes(router) if admin_here else None
        self._samples: Application | None = None
        samples = router.settings.samples
        if samples is not None and samples.token is not None:
            self._samples = samples_routes(samples.folder, samples.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cors = self._router.settings.cors
        if self._admin is not None and scope["path"].startswith("/admin/"):
            await self._admin(scope, receive, send)
        elif self._samples is not None and scope["path"].startswith("/samples"):
            await self._samples(scope, receive, send)
        elif cors is not None and is_preflight(scope):
            await answer_preflight(cors, scope, send)
        elif refused := refusal(self._router.access, scope):
            await refuse(refused, scope, send)
        else:
            # Monitors and balancers ask for heads alone; no body is sent to them.
            if scope["method"] == "HEAD":
                scope["method"] = "GET"
            await self._public(scope, receive, send)
