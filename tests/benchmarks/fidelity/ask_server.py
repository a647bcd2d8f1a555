"""Closed loops against one server with OpenAI's completions, prompts as token ids: no cache has seen them.

    python -m tests.benchmarks.fidelity.ask_server URL MODEL --out FILE IN,OUT,CONCURRENCY,ROUNDS ...

Each point keeps `CONCURRENCY` requests up until `ROUNDS` times as many have been asked. First answers are cut short
at random, so that requests are spread over their phases, and do not count. Prints the mean TTFT and TPOT of each point;
the file has every request's times. Needs `aiohttp`, which costs the least a token of the clients that were tried.
"""

import argparse
import asyncio
import json
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

import aiohttp

LEAST, MOST = 1_000, 100_000  # of the token ids drawn, within all vocabularies of today
WARM_UP = ((16, 2_000), (64, 300))  # (at once, tokens in)
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Asked:
    """When a request began, and its first and last token came, in seconds of one clock."""

    began_s: float
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """One closed loop; `requests` in all."""

    input_tokens: int
    output_tokens: int
    concurrency: int
    rounds: float

    @property
    def requests(self) -> int:
        return max(int(self.rounds * self.concurrency), self.concurrency + 1)


@dataclass(frozen=True, slots=True)
class Server:
    session: aiohttp.ClientSession
    url: str
    model: str

    async def ask(self, draw: random.Random, input_tokens: int, output_tokens: int) -> Asked:
        body = {
            "model": self.model,
            "prompt": [draw.randrange(LEAST, MOST) for _ in range(input_tokens)],
            "max_tokens": output_tokens,
            "min_tokens": output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        began_s, first_s, last_s = time.perf_counter(), 0.0, 0.0
        async with self.session.post(f"{self.url}/v1/completions", json=body) as response:
            if response.status != 200:
                raise SystemExit(f"{self.url}: {response.status} {(await response.text())[:300]}")
            async for chunk in response.content.iter_any():
                # The mark of the end alone is no token.
                if chunk.strip() != b"data: [DONE]":
                    last_s = time.perf_counter()
                    first_s = first_s or last_s
        return Asked(began_s, first_s, last_s)

    async def loop(self, place: Place) -> list[Asked]:
        draw, found = random.Random(str(place)), [Asked(0.0, 0.0, 0.0)] * place.requests
        numbers = iter(range(place.requests))

        async def one_at_a_time() -> None:
            for i in numbers:
                first = i < place.concurrency and place.concurrency > 1
                tokens = draw.randint(2, place.output_tokens) if first else place.output_tokens
                found[i] = await self.ask(draw, place.input_tokens, tokens)

        await asyncio.gather(*(one_at_a_time() for _ in range(place.concurrency)))
        return found


def told(place: Place, found: list[Asked]) -> str:
    counted = found[place.concurrency :]
    ttft = [1e3 * (one.first_s - one.began_s) for one in counted]
    tpot = [1e3 * (one.last_s - one.first_s) / (place.output_tokens - 1) for one in counted]
    means = f"TTFT {mean(ttft):.1f} ms (p50 {median(ttft):.1f}), TPOT {mean(tpot):.3f} ms"
    return f"{place.input_tokens} in, {place.output_tokens} out, {place.concurrency} at once: {means}"


async def ask_all(url: str, model: str, places: list[Place], out: Path) -> None:
    limits = aiohttp.ClientTimeout(total=LIMIT_S)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as session:
        server, kept = Server(session, url, model), []
        for at_once, tokens in WARM_UP:
            await asyncio.gather(*(server.ask(random.Random(i), tokens, 16) for i in range(at_once)))
        for place in places:
            found = await server.loop(place)
            print(told(place, found), flush=True)
            kept.append({**asdict(place), "asked": [asdict(one) for one in found]})
            out.write_text(json.dumps(kept))


def place_of(text: str) -> Place:
    parts = text.split(",")
    if len(parts) != 4:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not IN,OUT,CONCURRENCY,ROUNDS; write e.g. 1024,256,32,3"
        )
    return Place(int(parts[0]), int(parts[1]), int(parts[2]), float(parts[3]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", metavar="URL")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("places", metavar="IN,OUT,CONCURRENCY,ROUNDS", nargs="+", type=place_of)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    asyncio.run(ask_all(args.url.rstrip("/"), args.model, args.places, args.out))


if __name__ == "__main__":
    main()
