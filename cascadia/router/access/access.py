"""Access: who may do what, and how much: keys, their limits, and OpenAI's words for a refusal.

The order is that of cost: the key before the body is read, the model's name and the limits before any engine is asked.
"""

import math
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from cascadia.router.access.key_metrics import KeyMetrics
from cascadia.router.access.keys import Key, Keyring, Scope
from cascadia.router.access.rate_limits import Kind, RateLimitHeaders, Usage, Verdict
from cascadia.router.access.spend import Spending
from cascadia.router.http.head import Head
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.stream_usage import StreamUsage

LONGEST_RETRY_S = 3600


class Answered(Protocol):
    """A request whose answer says what is left of its key's limits: `more` are lines of its head."""

    more: bytes


class Shared(Protocol):
    """Limits that several routers share. `take` returns None where they cannot be asked: then our own are used."""

    async def take(self, key: Key, usage: Usage, tokens: int) -> Verdict | None: ...

    def settle(self, key: Key, usage: Usage, given_back: int) -> None: ...

    async def close(self) -> None: ...


class Account:
    """Account of one key: what it has used. `limited`: whether any limit holds for it."""

    __slots__ = ("_metrics", "_spending", "admitted", "key", "limited", "told", "usage", "used")

    def __init__(self, key: Key, metrics: KeyMetrics, spending: Spending) -> None:
        self.usage = Usage()
        self._metrics = metrics
        self._spending = spending
        self.admitted = metrics.requests.labels(key.name)
        self.used = metrics.tokens.labels(key.name)
        self.set_key(key)

    def set_key(self, key: Key) -> None:
        """The same key as the file has it now."""
        self.key = key
        self.limited = key.limits.any
        self.told = RateLimitHeaders(key.limits)

    def charge(self, stage: str, usd: float) -> None:
        self._spending.charge(self.key.id, stage, usd)
        self._metrics.usd.labels(self.key.name, stage).value += usd

    @property
    def over_budget(self) -> bool:
        most = self.key.limits.usd_per_month
        return most is not None and self._spending.total_usd(self.key.id) >= most


class Reservation(Struct, eq=False):
    """A request that was let in. `spent`: tokens that its engines counted, set by whoever learns them.

    `release` it once, at its end. `shared`: who is told then; `alone`: it was let in by our own limits all the same.
    """

    _account: Account
    taken: int
    _prompt_tokens: int
    _shared: Shared | None
    _alone: bool
    spent: int | None = None
    stream: StreamUsage | None = None

    @property
    def priority(self) -> int:
        return self._account.key.priority

    @property
    def max_gear(self) -> int | None:
        return self._account.key.max_gear

    def passed(self, part: bytes) -> None:
        """A part of a live stream, of whole events, went to the client."""
        if self.stream is None:
            self.stream = StreamUsage()
        self.stream.add(part)

    def counted(self, tokens: int) -> None:
        """The engine counted the live stream, which is no longer estimated."""
        self.spent = (self.spent or 0) + tokens
        self.stream = None

    @property
    def written(self) -> int:
        """Tokens out of a live stream, by estimate."""
        return 0 if self.stream is None else self.stream.written

    def charge(self, stage: str, usd: float) -> None:
        """Charges what its engines' tokens at `stage` cost to the key."""
        self._account.charge(stage, usd)

    def release(self, *, left: bool, took: int = 0) -> None:
        """Frees what was taken. Where the client `left` before its engines had counted, the estimate stands.

        It has used no less than it `took` by the log: what the key is charged for is of its limits too."""
        account, used = self._account, self.spent or 0
        if self.stream is not None:
            used += self.stream.tokens(self._prompt_tokens)
        elif left and self.spent is None:
            used = self.taken
        used = max(used, took)
        account.used.value += used
        if self._alone:
            account.usage.settle(self.taken, used)
        else:
            account.usage.running -= 1
        if self._shared is not None:
            self._shared.settle(account.key, account.usage, 0 if self._alone else self.taken - used)


class _Known(Struct, frozen=True):
    """A key of `keyring`."""

    keyring: Keyring
    account: Account


class Access:
    """`shared` may be replaced at any time, the keys by `replace`; what keys have used stays.

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
        self.spending = Spending(metrics.spend_failed, wall)
        self._accounts = {key.id: Account(key, metrics, self.spending) for key in keyring}

    @property
    def has_budgets(self) -> bool:
        return any(key.limits.usd_per_month is not None for key in self.keyring)

    def running(self) -> Iterator[tuple[str, Usage]]:
        """Usage of each limited key that has requests under way, by the key's id."""
        for key, account in self._accounts.items():
            if account.limited and account.usage.running:
                yield key, account.usage

    def spent(self) -> list[dict[str, object]]:
        """Entries by key: what it has spent this month, in whole and by stage, and its budget."""
        return [
            {
                "key": key.name,
                "month": self.spending.month,
                "usd": self.spending.total_usd(key.id),
                "usd_by_stage": self.spending.of(key.id),
                "usd_per_month": key.limits.usd_per_month,
            }
            for key in self.keyring
        ]

    def caller(self, authorization: bytes, scope: Scope) -> Account:
        """Raises `ApiError` 401 for no key or a wrong one, 403 where it lacks `scope`."""
        if authorization[:7].lower() != b"bearer ":
            self.metrics.refused("", "missing")
            raise _unauthorized(None, "Send an API key: Authorization: Bearer ck-...")
        return self._known(authorization[7:], scope)

    def caller_of(self, head: Head) -> Account:
        """Account as of `caller` for inference, of a head that may be that of many requests: its key is looked
        up once for each keyring.
        """
        known: _Known | None = head.caller
        if known is None or known.keyring is not self.keyring:
            known = head.caller = _Known(self.keyring, self.caller(head.authorization, "inference"))
        elif known.account.key.expires_s is not None:
            return self.caller(head.authorization, "inference")
        return known.account

    def reader(self, authorization: bytes, scope: Scope) -> Account:
        """Account as by `caller`, which takes a browser's name and password too: the password is the key."""
        if authorization[:6].lower() != b"basic ":
            return self.caller(authorization, scope)
        try:
            _, _, password = b64decode(authorization[6:].strip(), validate=True).partition(b":")
        except (Base64Error, ValueError):
            password = b""
        return self._known(password, scope)

    async def admit(
        self, exchange: Answered, account: Account, model: str, tokens: int, prompt_tokens: int
    ) -> Reservation:
        """Admits as `admit_here`, by the limits that routers share where there are any."""
        shared = self.shared
        if shared is None or not account.limited:
            return self.admit_here(exchange, account, model, tokens, prompt_tokens)
        self._check_model(account.key, model)
        self._check_budget(exchange, account)
        verdict = await shared.take(account.key, account.usage, tokens)
        if verdict is not None:
            self._check(exchange, account, verdict, tokens)
            account.admitted.value += 1
            return Reservation(account, tokens, prompt_tokens, shared, False)
        if self.refuse_alone:
            message = "The limits of keys cannot be looked up."
            raise ApiError(503, "limits_unavailable", message, retry_after_s=2)
        return self.admit_here(exchange, account, model, tokens, prompt_tokens)

    def admit_here(
        self, exchange: Answered, account: Account, model: str, tokens: int, prompt_tokens: int
    ) -> Reservation:
        """Lets a request of about `tokens` tokens in, `prompt_tokens` of them known already.

        Raises `ApiError` 403 or 429; else `release` the reservation in the end.
        """
        key = account.key
        if key.models is not None:
            self._check_model(key, model)
        if key.limits.usd_per_month is not None:
            self._check_budget(exchange, account)
        if account.limited:
            verdict = account.usage.take(key.limits, tokens, self._clock())
            self._check(exchange, account, verdict, tokens)
        else:
            account.usage.running += 1
        account.admitted.value += 1
        return Reservation(account, tokens, prompt_tokens, self.shared if account.limited else None, True)

    def replace(self, keyring: Keyring) -> None:
        """Puts these keys in force. What a key that is gone has used is forgotten once nothing of it runs."""
        self.keyring = keyring
        accounts = self._accounts
        kept = {key.id: accounts.get(key.id) or Account(key, self.metrics, self.spending) for key in keyring}
        for key in keyring:
            kept[key.id].set_key(key)
        self._accounts = {i: a for i, a in accounts.items() if a.usage.running} | kept

    def _known(self, presented: bytes, scope: Scope) -> Account:
        key = self.keyring.find(presented)
        if key is None or (key.expires_s is not None and self._wall() >= key.expires_s):
            self.metrics.refused("", "unknown")
            raise _unauthorized("invalid_api_key", "This API key is not known here, or has expired.")
        if scope not in key.scopes:
            self.metrics.refused(key.name, "scope")
            raise _forbidden("insufficient_permissions", f"This key lacks the scope {scope!r}.")
        return self._accounts[key.id]

    def _check_model(self, key: Key, model: str) -> None:
        if not key.may_ask(model):
            self.metrics.refused(key.name, "model")
            message = f"This key may not ask for the model {model[:100]!r}."
            raise _forbidden("model_not_allowed", message, param="model")

    def _check_budget(self, exchange: Answered, account: Account) -> None:
        if account.over_budget:
            self.metrics.refused(account.key.name, "budget")
            # Clients of OpenAI's try a 429 again unless they are told that it does not help.
            exchange.more += b"x-should-retry: false\r\n"
            most = account.key.limits.usd_per_month
            message = f"This key has spent its budget of ${most:,.2f} for {self.spending.month} (UTC)."
            raise ApiError(429, "insufficient_quota", message, kind="insufficient_quota")

    def _check(self, exchange: Answered, account: Account, verdict: Verdict, tokens: int) -> None:
        exchange.more += account.told.lines(verdict)
        if verdict.refused is not None:
            self.metrics.refused(account.key.name, verdict.refused)
            raise _limited(account.key, verdict, verdict.refused, tokens)


def _unauthorized(code: str | None, message: str) -> ApiError:
    """Refusal as OpenAI words it: a wrong key is an invalid request."""
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
