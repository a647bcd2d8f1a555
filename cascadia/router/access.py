"""Who may do what, and how much: keys, their limits, and OpenAI's words for a refusal.

The order is that of cost: the key before the body is read, the model's name and the limits before any engine is asked.
"""

import math
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable
from typing import Protocol

from cascadia.router.exchange import Exchange
from cascadia.router.failures import ApiError
from cascadia.router.key_limits import Kind, Usage, Verdict, told
from cascadia.router.key_metrics import KeyMetrics
from cascadia.router.keys import Key, Keyring, Scope
from cascadia.router.stream_usage import StreamUsage

LONGEST_RETRY_S = 3600


class Shared(Protocol):
    """Limits that several routers share. `take` returns None where they cannot be asked: then our own are used."""

    async def take(self, key: Key, usage: Usage, tokens: int) -> Verdict | None: ...

    def settle(self, key: Key, usage: Usage, given_back: int) -> None: ...

    async def close(self) -> None: ...


class Hold:
    """A request that was let in. `spent`: tokens that its engines counted, set by whoever learns them."""

    __slots__ = ("_access", "_ended", "_prompt", "_shared", "_usage", "key", "spent", "stream", "taken")

    def __init__(
        self, access: "Access", key: Key, usage: Usage, taken: int, prompt_tokens: int, shared: bool
    ) -> None:
        self._access = access
        self._usage = usage
        self._prompt = prompt_tokens
        self._shared = shared
        self._ended = False
        self.key = key
        self.taken = taken
        self.spent: int | None = None
        self.stream: StreamUsage | None = None

    def passed(self, part: bytes) -> None:
        """A part of a live stream went to the client."""
        if self.stream is None:
            self.stream = StreamUsage()
        self.stream.add(part)

    def release(self, *, left: bool) -> None:
        """At the request's end. Where the client `left` before its engines had counted, the estimate stands."""
        if self._ended:
            return
        self._ended = True
        used = self.spent or 0
        if self.stream is not None:
            used += self.stream.tokens(self._prompt)
        elif left and self.spent is None:
            used = self.taken
        self._access.settle(self.key, self._usage, self.taken, used, self._shared)


class Access:
    """`keyring` and `shared` may be replaced at any time; what keys have used stays.

    `refuse_alone`: where `shared` cannot be asked nobody with limits is let in, instead of by our own count.
    """

    def __init__(
        self,
        keyring: Keyring,
        metrics: KeyMetrics,
        shared: Shared | None = None,
        refuse_alone: bool = False,
        open_paths: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.keyring = keyring
        self.metrics = metrics
        self.shared = shared
        self.refuse_alone = refuse_alone
        self.open_paths = frozenset(open_paths)
        self._clock = clock
        self._wall = wall
        self._usages: dict[str, Usage] = {}

    def caller(self, authorization: bytes, scope: Scope) -> Key:
        """Raises `ApiError` 401 for no key or a wrong one, 403 where it lacks `scope`."""
        if authorization[:7].lower() != b"bearer ":
            self.metrics.refused("", "missing")
            raise _unauthorized(None, "Send an API key: Authorization: Bearer ck-...")
        return self._known(authorization[7:].strip(), scope)

    def reader(self, authorization: bytes, scope: Scope) -> Key:
        """As `caller`, and takes a browser's name and password too: the password is the key."""
        if authorization[:6].lower() != b"basic ":
            return self.caller(authorization, scope)
        try:
            _, _, password = b64decode(authorization[6:].strip(), validate=True).partition(b":")
        except (Base64Error, ValueError):
            password = b""
        return self._known(password, scope)

    async def admit(self, exchange: Exchange, key: Key, model: str, tokens: int, prompt_tokens: int) -> Hold:
        """As `admit_here`, by the limits that routers share where there are any."""
        if self.shared is None or not key.limits.any:
            return self.admit_here(exchange, key, model, tokens, prompt_tokens)
        self._check_model(key, model)
        usage = self._usage(key)
        verdict = await self.shared.take(key, usage, tokens)
        if verdict is not None:
            return self._held(exchange, key, usage, verdict, tokens, prompt_tokens, shared=True)
        if self.refuse_alone:
            message = "The limits of keys cannot be looked up."
            raise ApiError(503, "limits_unavailable", message, retry_after_s=2)
        return self.admit_here(exchange, key, model, tokens, prompt_tokens)

    def admit_here(self, exchange: Exchange, key: Key, model: str, tokens: int, prompt_tokens: int) -> Hold:
        """Lets a request of about `tokens` tokens in, `prompt_tokens` of them known already.

        Raises `ApiError` 403 or 429; else `release` the hold in the end.
        """
        self._check_model(key, model)
        usage = self._usage(key)
        verdict = usage.take(key.limits, tokens, self._clock())
        return self._held(exchange, key, usage, verdict, tokens, prompt_tokens, shared=False)

    def _check_model(self, key: Key, model: str) -> None:
        if not key.may_ask(model):
            self.metrics.refused(key.name, "model")
            message = f"This key may not ask for the model {model[:100]!r}."
            raise _forbidden("model_not_allowed", message, param="model")

    def _usage(self, key: Key) -> Usage:
        usage = self._usages.get(key.id)
        if usage is None:
            usage = self._usages[key.id] = Usage()
        return usage

    def _held(
        self,
        exchange: Exchange,
        key: Key,
        usage: Usage,
        verdict: Verdict,
        tokens: int,
        prompt_tokens: int,
        *,
        shared: bool,
    ) -> Hold:
        limits = key.limits
        if limits.any:
            exchange.more = told(limits, verdict)
        if verdict.refused is not None:
            self.metrics.refused(key.name, verdict.refused)
            raise _limited(key, verdict, verdict.refused, tokens)
        self.metrics.admitted(key.name)
        return Hold(self, key, usage, tokens, prompt_tokens, shared)

    def settle(self, key: Key, usage: Usage, taken: int, used: int, shared: bool) -> None:
        self.metrics.used(key.name, used)
        if shared and self.shared is not None:
            usage.running -= 1
            self.shared.settle(key, usage, taken - used)
        else:
            usage.settle(taken, used)

    def replace(self, keyring: Keyring) -> None:
        """From now on these keys. What a key that is gone has used is forgotten once nothing of it runs."""
        self.keyring = keyring
        known = {key.id for key in keyring}
        self._usages = {i: usage for i, usage in self._usages.items() if i in known or usage.running}

    def _known(self, presented: bytes, scope: Scope) -> Key:
        key = self.keyring.find(presented, self._wall())
        if key is None:
            self.metrics.refused("", "unknown")
            raise _unauthorized("invalid_api_key", "This API key is not known here, or has expired.")
        if scope not in key.scopes:
            self.metrics.refused(key.name, "scope")
            raise _forbidden("insufficient_permissions", f"This key lacks the scope {scope!r}.")
        return key


def _unauthorized(code: str | None, message: str) -> ApiError:
    """As OpenAI words it: a wrong key is an invalid request."""
    return ApiError(401, code, message, kind="invalid_request_error")


def _forbidden(code: str, message: str, param: str | None = None) -> ApiError:
    return ApiError(403, code, message, param=param, kind="invalid_request_error")


def _limited(key: Key, verdict: Verdict, refused: Kind, tokens: int) -> ApiError:
    limits = key.limits
    if refused == "concurrent":
        message = f"This key may have {limits.concurrent} requests under way at once."
    elif refused == "requests":
        message = f"Rate limit reached: {limits.requests_per_minute} requests per minute."
    elif math.isinf(verdict.wait_s):
        message = (
            f"Request too large: about {tokens} tokens, and this key has {limits.tokens_per_minute} a minute."
        )
        return ApiError(429, "rate_limit_exceeded", message, kind=refused)
    else:
        message = (
            f"Rate limit reached: {limits.tokens_per_minute} tokens per minute, {max(0, int(verdict.tokens))} "
            f"left, about {tokens} asked for."
        )
    retry_after_s = min(LONGEST_RETRY_S, max(1, math.ceil(verdict.wait_s)))
    message += f" Try again in {retry_after_s} s."
    return ApiError(429, "rate_limit_exceeded", message, retry_after_s=retry_after_s, kind=refused)
