"""Failures of an exchange with an engine before its answer is whole."""

from typing import Literal, get_args

from cascadia.router.upstream.said import Said

NotConnected = Literal[
    "connect",
    "refused",
    "dns",
    "tls",
    "certificate-expired",
    "certificate-name",
    "certificate-untrusted",
    "proxy",
]
NOT_CONNECTED: frozenset[str] = frozenset(get_args(NotConnected))
"""Kinds of an exchange that could not begin. `connect`: in time, or for another reason than those told apart. `proxy`:
the one on the way does not let it through."""

Kind = Literal[
    NotConnected,
    "first-byte",
    "total",
    "reset",
    "protocol",
    "too-large",
    "unhealthy",
    "unreadable",
    "status",
    "busy",
    "elsewhere",
    "exhausted",
    "forbidden",
]


class UpstreamError(Exception):
    """`kind` is one of few words, for metrics and logs; the message holds no text of anyone's request or answer.
    `said`: what the engine itself said, where it failed with an error of its own. `ours`: key, model or path are wrong,
    which is the router's doing whatever was asked.

    `stale`: a connection kept from before was closed before any byte of the answer came. That says nothing about the
    engine, and the request may be sent again on a fresh one. `after_s`: when a busy engine wants to be asked again.
    Kind `elsewhere`: this engine does well and does not have what was asked for; another may. Kind `exhausted`: this
    process has no descriptor, port or memory left for the exchange, which says nothing about the engine.
    """

    def __init__(
        self,
        kind: Kind,
        message: str = "",
        *,
        stale: bool = False,
        after_s: float | None = None,
        said: Said | None = None,
        ours: bool = False,
    ) -> None:
        super().__init__(message or kind)
        self.kind: Kind = kind
        self.stale = stale
        self.after_s = after_s
        self.said = said
        self.ours = ours

    @property
    def fresh(self) -> "UpstreamError":
        """The same, to be raised by whoever keeps this one: an error that was raised holds all frames on its way, and
        with them the request and what keeps the error. Only a collection of garbage would end that.
        """
        return UpstreamError(
            self.kind,
            str(self),
            stale=self.stale,
            after_s=self.after_s,
            said=self.said,
            ours=self.ours,
        )
