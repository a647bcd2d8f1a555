"""Errors for a user whose engine does not answer as it should: one line that says what to check."""

import httpx
from openai import APIConnectionError

from cascadia.clients.engines.words import engine_words
from cascadia.domain.errors import BadInput


def cause(error: APIConnectionError | httpx.HTTPError) -> BaseException:
    """Cause of what happened on the way, where the SDK has wrapped it."""
    return error.__cause__ or error


def cannot_reach(url: str, failure: APIConnectionError | httpx.HTTPError) -> BadInput:
    """`url` was asked for and there was no answer, or none in HTTP."""
    error = cause(failure)
    if isinstance(error, httpx.UnsupportedProtocol):
        return BadInput("--base-url", f"{url} is no address", "write e.g. http://127.0.0.1:8000/v1")
    if isinstance(error, httpx.TimeoutException):
        what, instead = "does not answer in time", "check that the engine has started and is not overloaded"
    elif isinstance(error, httpx.ConnectError):
        what = f"cannot be reached ({error})"
        instead = "check that the engine runs, has finished loading, and listens on this host and port"
    else:
        what = f"broke off ({type(error).__name__}: {error})"
        instead = "check the engine's log, and that this port speaks HTTP"
    return BadInput("--base-url", f"{url} {what}", instead)


def refusal(url: str, status: int, body: bytes, model: str) -> BadInput:
    """The engine answered `url` with an error status."""
    said = engine_words(body)
    told = f"{url} answers {status}" + (f": {said}" if said else "")
    if status in (401, 403):
        return BadInput(
            "--api-key-env", told, "put the engine's key into a variable and give the variable's name"
        )
    if status == 404 and model in said:
        return BadInput("--model", told, "write the name that the engine serves the model under")
    if status in (404, 405):
        return BadInput("--base-url", told, "write the address that the OpenAI API is under, such as .../v1")
    if status in (429, 503):
        return BadInput("--base-url", told, "wait until the engine is idle, or raise its limits")
    return BadInput("--base-url", told, "check the engine's log")
