"""No request, no answer and no framing keeps the event loop for long: the worst that `bench_stalls.py` found at each
place, once more.

A turn took 20 to 200 ms of CPU time in each of these before what is read of them was bounded. Asked for is 5 ms, which
`make bench` holds; here, beside other tests on the same cores, it is a multiple of that.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.benchmarks.bench_stalls import MOST_BYTES, PLACES, Attack, units_of
from tests.benchmarks.stall_rig import Rig, rig

LIMIT_MS = 15.0
LOGPROB = b'{"token":"a","logprob":-0.1}'
WORST = {
    "members, straight": b'"a":[]',
    "messages": b"0",
    "messages, straight": b"0",
    "messages, agreement": b"{}",
    "content's parts": b"{}",
    "content's parts, certainty": b"[[]]",
    "tools": b"{}",
    "prompt": b"[]",
    "input": b'{"role":"user"}',
    "input's content": b"[]",
    "input of embeddings": b"0",
    "requests at once": b"a",
    "requests at once, no key": b"a",
    "body in chunks": b"a",
    "query of a GET": b"&a%41",
    "admin: thresholds": b'"a":[]',
    "engine: choices": b'{"index":0,"text":"a"}',
    "engine: choices, straight": b"0",
    "engine: calls": b"{}",
    "engine: logprobs": b'{"logprob":-1}',
    "engine: events, held": b"data:{}\n\n",
    "engine: events, held, certainty": b"\n\n",
    "engine: events, live, noted": b'data:{"usage":{}}\n',
    "engine: chunks, held": b"a",
    "engine: chunks, live": b"a",
    "engine: output": b"{}",
    "judge: choices": b"0",
    "judge: logprobs": LOGPROB,
    "judge: alternatives": LOGPROB,
    "judge: text": b"a",
}


@pytest.fixture(scope="module")
def rigs() -> Iterator[dict[str, Rig]]:
    kinds = {place.judge for place in PLACES if place.name in WORST}
    with ExitStack() as stack:
        found = {kind: stack.enter_context(rig(kind)) for kind in kinds}
        for place in PLACES:
            if place.name in WORST:
                # What is imported and compiled at first use is no attack's doing.
                Attack(place, b"", b"", 0).turn_ms(found)
        yield found


@pytest.mark.parametrize("name", WORST)
def test_nothing_keeps_the_loop_for_long(rigs: dict[str, Rig], name: str) -> None:
    place = next(place for place in PLACES if place.name == name)
    attack = Attack(place, WORST[name], units_of(place)[1], MOST_BYTES)
    assert attack.turn_ms(rigs) < LIMIT_MS
