"""The requests that keep the router's event loop longest: `python -m tests.benchmarks.bench_stalls`.

A search by hill-climbing over what an attacker may choose: where in a request, in an engine's or a judge's answer, or
in a connection's framing something is repeated or nested, what it is, and how often. What it maximises is the CPU time
of one turn of the loop, of bodies up to 1 MiB; `LIMIT_MS` is what is asked for. Prints the worst found at each place.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tests.benchmarks.report_table import markdown
from tests.benchmarks.stall_rig import KEY, OK, Rig, rig

LIMIT_MS = 5.0
MOST_BYTES = 1 << 20
SIZES = (2_000, 16_000, 64_000, 250_000, MOST_BYTES)
AGAIN = 2
"""Once more where a turn was too long: the kernel's own work is in the thread's time too, and is not always there."""
CHAT, COMPLETIONS = "POST /v1/chat/completions", "POST /v1/completions"
RESPONSES, EMBEDDINGS = "POST /v1/responses", "POST /v1/embeddings"
CLASSIFY, RERANK = "POST /v1/classify", "POST /v1/rerank"
PART = b'{"index":0,"label":"a","probs":[0.5,0.5]}'
ASKED = b'"messages":[{"role":"user","content":"hi"}]'
DONE = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"12"},"finish_reason":"stop"}]}'
EVENTS = b'data: {"choices":[{"index":0,"delta":{"content":"12"}}]}\n\n'
END = b"data: [DONE]\n\n"
CALLS = b'{"choices":[{"index":0,"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}'
RESPONSE = (
    b'{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text",'
    b'"text":"12"}]}]}'
)
COMPLETED = b'data: {"type":"response.completed","response":%b}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1},"a":[@]}\n\n'
LOGPROB = (
    b'{"token":"a","logprob":-0.1,"top_logprobs":[{"token":"a","logprob":-0.1},{"token":"b","logprob":-2}]}'
)


@dataclass(frozen=True, slots=True)
class Place:
    """`@` is where the attacker's part goes: in `body`, sent to `path`, or in what the engines answer.

    `framing`: how the body is sent. `judge`: by which kind the cascade is gated. `most` bytes fit in.
    """

    name: str
    path: str = CHAT
    body: bytes = b'{"model":"cascadia",' + ASKED + b"}"
    answer: bytes = DONE
    verdict: bytes = DONE
    judge: str = "llm"
    framing: str = "length"
    answer_framing: str = "json"
    verdict_framing: str = "json"
    most: int = MOST_BYTES
    key: bool = True


def _json(name: str, fields: bytes, path: str = CHAT, model: bytes = b"cascadia", **more: object) -> Place:
    return Place(name, path, b'{"model":"%b",%b}' % (model, fields), **more)  # type: ignore[arg-type]


_TOOLS = b'"tools":[@],' + ASKED
_FORMAT = b'"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":%b}},' + ASKED
_RESPONSES = b'"stream":true,"input":"a"'
_STREAM = b'"stream":true,"stream_options":{"include_usage":true},' + ASKED

PLACES = (
    _json("members", b"@," + ASKED),
    _json("members, straight", b"@," + ASKED, model=b"small"),
    _json("messages", b'"messages":[@]'),
    _json("messages, straight", b'"messages":[@]', model=b"small"),
    _json("members of a message", b'"messages":[{"role":"user","content":"a",@}]'),
    _json("content's text", b'"messages":[{"role":"user","content":"@"}]'),
    _json("content's parts", b'"messages":[{"role":"user","content":[@]}]'),
    _json("a part's members", b'"messages":[{"role":"user","content":[{"type":"text","text":"a",@}]}]'),
    _json("content's parts, certainty", b'"messages":[{"role":"user","content":[@]}]', judge="certainty"),
    _json("messages, agreement", b'"messages":[@]', judge="agreement"),
    _json("messages, embedding", b'"messages":[@]', judge="embedding", verdict=b'{"score":50}'),
    _json("tools", _TOOLS, answer=CALLS),
    _json("a tool's schema", _TOOLS.replace(b"@", b'{"function":{"parameters":{@}}}'), answer=CALLS),
    _json("a schema", _FORMAT % b"{@}", answer=DONE.replace(b'"12"', b'"{}"')),
    _json("response_format", b'"response_format":{@},' + ASKED),
    _json("stop strings", b'"stop":[@],' + ASKED),
    _json("logit_bias", b'"logit_bias":{@},' + ASKED),
    _json("stream_options", b'"stream":true,"stream_options":{@},' + ASKED, answer=EVENTS + END),
    _json("user", b'"user":[@],' + ASKED),
    _json("prompt", b'"prompt":[@]', COMPLETIONS),
    _json("prompt's text", b'"prompt":"@"', COMPLETIONS),
    _json("input", b'"input":[@]', RESPONSES, answer=RESPONSE),
    _json("input's content", b'"input":[{"role":"user","content":[@]}]', RESPONSES, answer=RESPONSE),
    _json("instructions", b'"instructions":"@","input":"a"', RESPONSES, answer=RESPONSE),
    _json("input of embeddings", b'"input":[@]', EMBEDDINGS, b"small", answer=b'{"data":[0]}'),
    _json("input of classify", b'"input":[@]', CLASSIFY, b"small", answer=b'{"data":[0]}'),
    _json("members, classify", b'@,"input":"a"', CLASSIFY, b"small", answer=b'{"data":[0]}'),
    _json("documents", b'"query":"a","documents":[@]', RERANK, b"small", answer=b'{"results":[0]}'),
    _json("input, one pass", b'"input":[@]', CLASSIFY, judge="classify", answer=b'{"data":[%b]}' % PART),
    Place("a model's name in a body", body=b'{"model":"@",' + ASKED + b"}"),
    _json("a stage's name", b'"max_stage":"@",' + ASKED),
    Place("whole body", body=b"@"),
    Place("body in chunks", body=b'{"model":"small",' + ASKED + b',"a":"@"}', framing="chunks"),
    Place("requests at once", framing="pipeline", most=250_000),
    Place("requests at once, no key", framing="pipeline", most=250_000, key=False),
    Place("headers", framing="headers", most=30_000),
    Place("headers of a GET", "GET /health", b"", framing="headers", most=30_000, key=False),
    Place("cookie of a GET", "GET /health", b"", framing="cookie", most=30_000, key=False),
    Place("query of a GET", "GET /health?@", b"", most=30_000, key=False),
    Place("path of a GET", "GET /@", b"", most=30_000, key=False),
    Place("a model's name", "GET /v1/models/@", b"", most=30_000),
    Place("/metrics", "GET /metrics?@", b"", most=1_000),
    Place("/ui/state", "GET /ui/state?window=all&@", b"", most=1_000),
    Place("/openapi.json", "GET /openapi.json?@", b"", most=1_000, key=False),
    Place("admin: thresholds", "PUT /admin/thresholds", b"{@}"),
    Place("admin: plan", "PUT /admin/plan", b"{@}"),
    Place("admin: plan's stages", "PUT /admin/plan", b'{"version":3,"stages":[@]}'),
    Place("engine: members", answer=DONE[:-1] + b",@}"),
    _json("engine: members, straight", ASKED, model=b"small", answer=DONE[:-1] + b",@}"),
    Place("engine: choices", answer=b'{"choices":[@]}'),
    _json("engine: choices, straight", ASKED, model=b"small", answer=b'{"choices":[@]}'),
    Place("engine: a choice's members", answer=DONE.replace(b'"index"', b'@,"index"')),
    Place("engine: calls", answer=b'{"choices":[{"message":{"tool_calls":[@]}}]}'),
    Place("engine: text", answer=DONE.replace(b"12", b"@")),
    Place("engine: text, agreement", answer=DONE.replace(b"12", b"@"), judge="agreement"),
    Place(
        "engine: logprobs",
        answer=DONE.replace(b'"finish', b'"logprobs":{"content":[@]},"finish'),
        judge="certainty",
    ),
    _json("engine: events, held", _STREAM, answer=b"@" + EVENTS + END, answer_framing="events"),
    _json(
        "engine: events, held, certainty",
        _STREAM,
        answer=b"@" + EVENTS + END,
        answer_framing="events",
        judge="certainty",
    ),
    _json("engine: events, live", _STREAM, model=b"small", answer=b"@" + END, answer_framing="events"),
    _json(
        "engine: events, live, noted",
        b'"min_stage":"large",' + _STREAM,
        answer=b"@" + END,
        answer_framing="events",
    ),
    _json(
        "engine: events, live, hidden",
        b'"stream":true,' + ASKED,
        model=b"small",
        answer=b"@" + END,
        answer_framing="events",
    ),
    Place("engine: chunks, held", answer=DONE.replace(b"12", b"@"), answer_framing="json chunks"),
    _json("engine: chunks, live", _STREAM, model=b"small", answer=b"@" + END, answer_framing="events chunks"),
    Place("engine: head", answer_framing="head", answer=b"@"),
    Place("engine: interim heads", answer_framing="interim", answer=b"@"),
    Place("engine: trailers", answer_framing="trailers", answer=b"@"),
    _json(
        "engine: classes",
        b'"input":"a"',
        CLASSIFY,
        judge="classify",
        answer=b'{"data":[{"index":0,"label":"a","probs":[@]}]}',
    ),
    _json("engine: classified", b'"input":"a"', CLASSIFY, judge="classify", answer=b'{"data":[@]}'),
    _json("engine: output", b'"input":"a"', RESPONSES, answer=b'{"output":[@]}'),
    _json("engine: output, straight", b'"input":"a"', RESPONSES, b"small", answer=b'{"output":[@]}'),
    _json(
        "engine: a response's event, held",
        _RESPONSES,
        RESPONSES,
        answer=COMPLETED % b'{"status":"completed","output":[@]}',
        answer_framing="events",
    ),
    _json(
        "engine: a response's event, live",
        b'"min_stage":"large",' + _RESPONSES,
        RESPONSES,
        answer=COMPLETED % b'{"output":[@]}',
        answer_framing="events",
    ),
    _json(
        "engine: a response's text, live",
        b'"min_stage":"large",' + _RESPONSES,
        RESPONSES,
        answer=b'data: {"delta":"@"}\n\n' + COMPLETED % RESPONSE,
        answer_framing="events",
    ),
    _json("engine: usage event, held", _STREAM, answer=EVENTS + USAGE + END, answer_framing="events"),
    _json(
        "engine: usage event, live, noted",
        b'"min_stage":"large",' + _STREAM,
        answer=EVENTS + USAGE + END,
        answer_framing="events",
    ),
    Place("engine: refusal", answer=b'{"error":"@"}', answer_framing="refusal"),
    _json("engine: embeddings", b'"input":"a"', EMBEDDINGS, b"small", answer=b'{"data":[{"embedding":[@]}]}'),
    _json("engine: ranking", b'"query":"a","documents":["a"]', RERANK, b"small", answer=b'{"results":[@]}'),
    Place("judge: refusal", verdict=b'{"error":"@"}', verdict_framing="refusal"),
    _json("content's text, too long", b'"messages":[{"role":"user","content":"@"}]', judge="narrow"),
    _json("messages, too long", b'"messages":[@]', judge="narrow"),
    _json("content's text, in the log", b'"messages":[{"role":"user","content":"@"}]', judge="noted"),
    _json("content's parts, in the log", b'"messages":[{"role":"user","content":[@]}]', judge="noted"),
    _json("messages, in the log", b'"messages":[@]', judge="noted"),
    _json("input, in the log", b'"input":[@]', RESPONSES, answer=RESPONSE, judge="noted"),
    _json("prompt's text, in the log", b'"prompt":"@"', COMPLETIONS, b"small", judge="noted"),
    Place("judge: choices", verdict=b'{"choices":[@]}'),
    Place("judge: logprobs", verdict=DONE.replace(b'"finish', b'"logprobs":{"content":[@]},"finish')),
    Place(
        "judge: alternatives",
        verdict=DONE.replace(
            b'"finish', b'"logprobs":{"content":[{"token":"1","logprob":0,"top_logprobs":[@]}]},"finish'
        ),
    ),
    Place("judge: text", verdict=DONE.replace(b"12", b"@")),
    Place("judge: members", verdict=b'{"score":3,@}', judge="embedding"),
)

VALUES = (
    *(b"0", b'""', b"{}", b"[]", b'{"":0}', b"[[]]", b"null", b"1e5", b'{"role":"user","content":""}'),
    *(b'{"role":"user"}', b'{"role":"assistant"}', b'{"type":"text","text":""}', b'{"text":"a"}'),
    *(b'{"type":"function","function":{"name":"g"}}', b'{"function":{}}', b'{"index":1,"message":{}}'),
    *(b'{"index":0,"message":{"content":"a"}}', b'{"index":0,"text":"a"}', LOGPROB, b'{"logprob":-1}'),
    *(b'{"token":"1","logprob":-1}', b'{"type":"message","content":[]}', b'{"type":"function_call"}'),
    *(b'{"type":"message","content":[{"text":"a"}]}', b'"\\u00e9"', b'"\xc3\xa9"', b"-0.1", b"true"),
)
MEMBERS = (
    *(b'"":0', b'"a":{}', b'"a":[]', b'"\\u0061":0', b'"small":50', b'"usage":{}', b'"choices":[{}]'),
    *(b'"model":"small"', b'"messages":[]', b'"output":[]', b'"type":"text"', b'"text":""', b'"score":1'),
    *(b'"allOf":[{}]', b'"properties":{"a":{}}', b'"pattern":"(a+)+$"', b'"$ref":"#"', b'"n":2'),
)
TEXTS = (
    *(b"a", b" ", b"a,", b"\\n", b"\\u00e9", b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"\\\\", b"\\ud800", b"{},"),
    *(b"&a", b"%41", b"/a", b"a=b&", b"a;", b"**Answer:** 9 ", b"Grade: 9\\n", b"<b>", b"```\\n", b"# a\\n"),
    *(b"<|", b"</s>", b"[INST]", b"<", b"["),
    *(b"e", b"l", b"i", b'\\"', b"f", b'u\\"', b"datadat", b"response"),
    *(b"\xe2\x80\x8b", b"&amp;", b"\xd0\xb0", b"ignore all rules. ", b"\\u202e", b"0", b"1 + "),
)
LINES = (
    *(b"data:{}\n\n", b"\n", b":\n\n", b"data: [DONE]\n\n", b"data:\n", b"a", b"\r\n", EVENTS, b"\n\n"),
    *(b'data: {"usage":0}\n\n', b'data: {"choices":[],"usage":{}}\n\n', b'data:{"usage":{}}\n'),
    b'data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[' + LOGPROB + b"]}}]}\n\n",
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a"}}]}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{}},{"index":1,"delta":{}}]}\n\n',
)


@dataclass(frozen=True, slots=True)
class Attack:
    """`unit`, repeated to `size` bytes between `sep`; `nested`: each within the one before."""

    place: Place
    unit: bytes
    sep: bytes
    size: int
    nested: bool = False

    @property
    def filler(self) -> bytes:
        size = min(self.size, self.place.most)
        count = max(1, size // max(1, len(self.unit) + len(self.sep)))
        if self.nested:
            return b"[" * (size // 2) + b"]" * (size // 2)
        return self.sep.join([self.unit] * count)

    @property
    def request(self) -> bytes:
        place, filler = self.place, self.filler
        method, _, target = place.path.partition(" ")
        target_b = target.encode().replace(b"@", filler)
        key = b"authorization: Bearer %b\r\n" % KEY.text.encode() if place.key else b""
        head = b"%b %b HTTP/1.1\r\nhost: a\r\n%b" % (method.encode(), target_b, key)
        last = head + b"connection: close\r\n"
        body = place.body.replace(b"@", filler)
        match place.framing:
            case "headers":
                return last + _headers(filler) + b"content-length: %d\r\n\r\n%b" % (len(body), body)
            case "cookie":
                return last + b"cookie: " + _plain(filler) + b"\r\n\r\n"
            case "chunks":
                step = max(1, len(self.unit))
                parts = [body[at : at + step] for at in range(0, len(body), step)]
                chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)[:MOST_BYTES]
                return last + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
            case "pipeline":
                one = b"%b %b HTTP/1.1\r\nhost:\r\n%b" % (method.encode(), target_b, key)
                one += b"content-length: %d\r\n\r\n%b" % (len(self.unit), self.unit)
                return one * (min(self.size, place.most) // len(one)) + last + b"content-length: 0\r\n\r\n"
        return last + b"content-length: %d\r\n\r\n%b" % (len(body), body)

    @property
    def answers(self) -> tuple[bytes, bytes]:
        place, filler = self.place, self.filler
        return (
            _framed(place.answer.replace(b"@", filler), place.answer_framing, len(self.unit)),
            _framed(place.verdict.replace(b"@", filler), place.verdict_framing, 1),
        )

    def turn_ms(self, rigs: dict[str, Rig]) -> float:
        """The least of a few looks, for more than one only where the first was too long."""
        request, answers = self.request, self.answers
        found = 1000 * rigs[self.place.judge].turn_s(request, *answers)
        for _ in range(AGAIN if found > LIMIT_MS else 0):
            found = min(found, 1000 * rigs[self.place.judge].turn_s(request, *answers))
        return found


def _headers(filler: bytes) -> bytes:
    plain = _plain(filler)
    if len(plain) < 200:
        return b"x-cascadia-max-stage: %b\r\n" % plain
    return b"".join(
        b"%b:%b\r\n" % (b"x-cascadia-" if i % 2 else b"a", plain[:1]) for i in range(len(plain) // 8)
    )


def _plain(filler: bytes) -> bytes:
    return bytes(c for c in filler if 32 < c < 127) or b"a"


def _framed(body: bytes, framing: str, step: int) -> bytes:
    """An engine's answer of `body`; of `DONE` where `body` is what its head, or what stands around it, is made of."""
    if framing == "refusal":
        return b"HTTP/1.1 400 \r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    if framing in ("head", "interim", "trailers"):
        lines = b"a:\r\n" * (len(body) // 4)
        kind = b"content-type: application/json\r\n"
        if framing == "head":
            return b"HTTP/1.1 200 OK\r\n%b%bcontent-length: %d\r\n\r\n%b" % (lines, kind, len(DONE), DONE)
        if framing == "interim":
            interim = b"HTTP/1.1 100 \r\n\r\n"
            return interim * (len(body) // len(interim)) + OK % (b"application/json", len(DONE), DONE)
        head = b"HTTP/1.1 200 OK\r\n%btransfer-encoding: chunked\r\n\r\n" % kind
        return head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(DONE), DONE, lines)
    kind = b"text/event-stream" if framing.startswith("events") else b"application/json"
    if framing.endswith("chunks"):
        step = max(1, step)
        parts = [body[at : at + step] for at in range(0, len(body), step)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind
        return head + chunks + b"0\r\n\r\n"
    return OK % (kind, len(body), body)


def units_of(place: Place) -> tuple[tuple[bytes, ...], bytes]:
    """What fits at a place, and what stands between two of it."""
    where = next(
        (text for text in (place.body, place.answer, place.verdict) if b"@" in text), place.path.encode()
    )
    before, after = (part[-1:] for part in (where.partition(b"@")[0], where.partition(b"@")[2][:1]))
    if before == b"[" and after == b"]":
        return VALUES, b","
    if where.startswith(b"@") and b"DONE" in where:
        return LINES, b""
    if before == b'"' or "@" in place.path or place.framing in ("pipeline", "headers", "cookie"):
        return TEXTS, b""
    if place.body == b"@":
        return (*VALUES, *TEXTS, b'{"model":"small"}'), b""
    return MEMBERS, b","


def starts(place: Place, rng: random.Random, sizes: tuple[int, ...] = SIZES) -> Iterator[Attack]:
    """Each unit once, at the largest size, in random order; and one that is nested."""
    units, sep = units_of(place)
    yield from (Attack(place, unit, sep, sizes[-1]) for unit in rng.sample(units, len(units)))
    yield Attack(place, b"[]", b"", sizes[-1], nested=True)


def changed(attack: Attack, rng: random.Random) -> Attack:
    units, _ = units_of(attack.place)
    match rng.randrange(3):
        case 0:
            return replace(attack, size=rng.choice(SIZES))
        case 1:
            return replace(attack, unit=attack.unit + attack.sep + rng.choice(units))
        case _:
            return replace(attack, unit=rng.choice(units), nested=False)


def searched(rigs: dict[str, Rig], place: Place, seconds: float, rng: random.Random) -> tuple[float, Attack]:
    """The worst attack found at `place`: all units once, and then changes of the worst."""
    end_s = time.monotonic() + seconds
    found = [(0.0, Attack(place, b"", b"", 0))]
    for attack in starts(place, rng):
        found.append((attack.turn_ms(rigs), attack))
        if time.monotonic() > end_s:
            break
    worst = max(found, key=lambda each: each[0])
    while time.monotonic() < end_s:
        attack = changed(worst[1], rng)
        worst = max(worst, (attack.turn_ms(rigs), attack), key=lambda each: each[0])
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Searches for the requests that keep the router's loop longest."
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of search at each place (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--place", default="", help="only places whose name has this in it")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    places = [place for place in PLACES if args.place in place.name]
    rows = []
    with ExitStack() as stack:
        rigs = {kind: stack.enter_context(rig(kind)) for kind in sorted({place.judge for place in places})}
        for place in places:
            Attack(place, b"", b"", 0).turn_ms(rigs)
        for place in places:
            worst_ms, attack = searched(rigs, place, args.seconds, rng)
            unit = "nested" if attack.nested else attack.unit[:40].decode("utf-8", "replace")
            size = min(attack.size, place.most)
            attack.turn_ms(rigs)
            total_ms = 1000 * rigs[place.judge].loop.total_s
            rows.append((place.name, f"{worst_ms:.1f}", f"{total_ms:.0f}", f"`{unit!r}`", f"{size:,}"))
            print(*rows[-1], file=sys.stderr, flush=True)
    print(markdown(("place", "longest turn, ms of CPU", "in all, ms of CPU", "of", "bytes"), rows))
    return int(any(float(row[1]) > LIMIT_MS for row in rows))


if __name__ == "__main__":
    sys.exit(main())
