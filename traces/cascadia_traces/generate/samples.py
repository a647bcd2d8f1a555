"""Traces that come with Cascadia, generated so that no data need be shipped."""

from cascadia_traces.generate.arrivals import Arrivals
from cascadia_traces.generate.generate import generate
from cascadia_traces.generate.lengths import Correlated, Lognormal
from cascadia_traces.generate.rates import Diurnal
from cascadia_traces.trace import Trace

CHAT_REQUESTS = 6_000
CHAT_RATE_RPS = 6.0


def chat_trace() -> Trace:
    """A thousand seconds of chat at 6 requests/s, always the same.

    Bursty (gap CV 1.5) on a mild wave; input and output lengths are lognormal around 500 and 200 tokens and
    correlated.
    """
    wave = Diurnal(CHAT_RATE_RPS, amplitude=0.25, period_s=CHAT_REQUESTS / CHAT_RATE_RPS)
    lengths = Correlated(
        input=Lognormal(500, 1.0, max_tokens=16_384),
        output=Lognormal(200, 0.8, max_tokens=4_096),
        correlation=0.35,
    )
    drawn = generate(Arrivals(wave, cv=1.5), lengths, seed=2024, requests=CHAT_REQUESTS)
    return drawn.starting_at_zero().scaled(CHAT_RATE_RPS)
