"""Choice of the model of an endpoint: the one that was named, else the one that it serves."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from openai import APIConnectionError, APIStatusError

from cascadia.clients.engines.chat import Chat, Endpoint, reason
from cascadia.clients.engines.sdk import CONNECT_S
from cascadia.clients.engines.words import engine_words
from cascadia.domain.errors import BadInput

BELIEVED = 20
"""A longer list is a provider's, which may serve more than it lists."""


class Target(NamedTuple):
    """An endpoint whose `model` may yet be empty, and the names that its model might be served under."""

    endpoint: Endpoint
    wanted: tuple[str, ...]


async def settled(targets: Sequence[Target], *, only_unnamed: bool = False) -> tuple[Endpoint, ...]:
    """Each endpoint with a model that it serves; with `only_unnamed`, others are taken at their word.

    Raises `BadInput` where one cannot be reached, or serves no such model.
    """
    return tuple(
        [
            target.endpoint if target.endpoint.model and only_unnamed else await _settled(target)
            for target in targets
        ]
    )


async def _settled(target: Target) -> Endpoint:
    """Endpoint with its model: where none was named, the first of `wanted` that is served, else the only one."""
    endpoint = target.endpoint
    served = await _served(endpoint)
    names = ", ".join(served[:8])
    instead = f"name a model behind its address: {endpoint.url}#{served[0] if served else 'MODEL'}"
    if endpoint.model:
        if served and endpoint.model not in served and len(served) <= BELIEVED:
            raise BadInput(endpoint.name, f"{endpoint.url} serves {names}, not {endpoint.model}", instead)
        return endpoint
    found = next((name for name in target.wanted if name in served), served[0] if len(served) == 1 else None)
    if found is None:
        said = f"serves {names}" if served else "does not say what it serves"
        raise BadInput(endpoint.name, f"{endpoint.url} {said}", instead)
    return replace(endpoint, model=found)


async def _served(endpoint: Endpoint) -> tuple[str, ...]:
    """Names of the models that it lists; none where it has no such list."""
    url = f"{endpoint.url}/models"
    async with Chat(endpoint, connections=1) as chat:
        try:
            once = chat.sdk.with_options(timeout=CONNECT_S, max_retries=0)
            return tuple([model.id for model in (await once.models.list()).data])
        except APIConnectionError as error:
            raise BadInput(
                endpoint.name, f"{url} {reason(error)}", "start the engine, or correct its address"
            ) from None
        except APIStatusError as error:
            said = f"{url} answers {error.status_code}: {engine_words(error.response.content)}"
            if error.status_code in (401, 403):
                instead = f"name the variable with its key: --api-key-env {endpoint.name}=VARIABLE"
                raise BadInput(endpoint.name, said, instead) from None
            if error.status_code >= 500 or error.status_code == 429:
                raise BadInput(endpoint.name, said, "wait until the engine is ready") from None
            return ()
        except (ValueError, AttributeError, TypeError):
            return ()
