"""APIs that the fleet does not start itself, asked whether they are there before engines load for minutes."""

from collections.abc import Mapping
from typing import Any

import httpx

from cascadia.clients.engines.proxies import proxy_of
from cascadia.controller.local.router_file import all_elsewhere
from cascadia.domain.errors import BadInput

LIMIT_S = 10.0


def check_apis(router: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Raises `BadInput` where a stage, judge or foresight that a plan's router.yaml has an address of does not answer,
    or refuses the key."""
    for name, told in all_elsewhere(router):
        for replica in told["replicas"]:
            _check(name, str(replica["url"]), replica.get("api_key_env"), environment)


def _check(name: str, url: str, variable: str | None, environment: Mapping[str, str]) -> None:
    """Any answer but a refused key will do: not every API lists its models."""
    key = environment.get(variable, "") if variable else ""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    # As the router: through the proxy that the environment names, or past it.
    proxied = proxy_of(url) is not None
    try:
        status = httpx.get(
            f"{url}/v1/models", headers=headers, timeout=LIMIT_S, trust_env=proxied
        ).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = str(error) or type(error).__name__
        instead = "check its address and the network"
        raise BadInput(name, f"{url} cannot be reached ({why})", instead) from None
    if status in (401, 403):
        instead = f"set {variable} to its key" if variable else "name its variable in api_key_env"
        raise BadInput(name, f"{url} answers {status}: it refuses the key", instead)
