"""Exits of single tokens on the reference decoder: how many tokens exit at a risk of 1 %, and what that is worth.

    python -m tests.benchmarks.bench_decoding FOLDER [--prompts 16] [--tokens 40]

FOLDER holds a Llama (config.json, model.safetensors) and, unless it reads bytes, tokenizer.json. The ramp is the
model's own head (Apparate section 3.1). First every ramp is read on the model's own answers; then three rules decode
with one ramp, each token fed back as section 3.4 says: FREE (a ramp and a threshold chosen once, on the first prompts),
Apparate's tuning (a window of the last 128 tokens), and the certificate.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.decoder.decode import Decoder, Fed, decoded, told
from cascadia.exits.decoder.llama import Cache, Llama, read_llama
from cascadia.exits.path import calibrated
from cascadia.exits.readings import Readings
from tests.benchmarks.report_table import markdown
from tests.data import ROOT

RISK, WINDOW, FIRST = 0.01, 128, 0.25
FLUSH = 8
"""Exits in a row, at most. `FIRST`: share of the prompts that FREE and the certificate's path learn from."""
OPENINGS = (
    "The capital of France is", "A router is a program that", "To make bread, first take", "In winter the days are",
    "The largest planet of the solar system is", "A cache keeps", "When water boils it", "The plan says that",
    "Birds fly south because", "A prime number is", "The judge reads", "Once upon a time there was", "Rain falls when",
    "The quality of an answer is", "Trees grow", "A queue is",
)  # fmt: skip


def prompts(folder: Path, count: int) -> list[list[int]]:
    if not (folder / "tokenizer.json").exists():
        # A model of bytes: openings from the pages that it was trained on.
        text = b"\n".join(page.read_bytes() for page in sorted((ROOT / "docs" / "models").glob("*.md")))
        step = (len(text) - 48) // count
        return [list(text[at : at + 48]) for at in range(0, step * count, step)]
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [tokenizer.encode(OPENINGS[at % len(OPENINGS)]).ids for at in range(count)]


def read_ramps(model: Llama, answered: list[tuple[int, list[int]]]) -> Readings:
    """Readings of a ramp behind each layer but the last, of all tokens of the answers, by one pass over each."""
    labels, doubts, final = [], [], []
    for prompt, tokens in answered:
        cache, hidden = Cache(len(tokens), model.shape), model.embedding[tokens]
        seen = []
        for layer in range(model.shape.layers):
            hidden = model.through(hidden, list(range(len(tokens))), layer, layer + 1, cache)
            seen.append([told(row) for row in model.logits(hidden[prompt:])])
        labels.append([[at[0] for at in ramp] for ramp in seen])
        doubts.append([[at[1] for at in ramp] for ramp in seen])
        final.append(labels[-1][-1])
    return Readings(
        np.concatenate([np.array(each).T for each in labels])[:, :-1],
        np.concatenate([np.array(each).T for each in doubts])[:, :-1],
        np.concatenate(final),
    )


def bold(readings: Readings, ramp: int) -> float:
    """The largest threshold with a risk of at most `RISK` on these very readings."""
    order = np.argsort(readings.doubts[:, ramp])
    lost = np.cumsum(readings.wrong[order, ramp]) / len(order)
    allowed = np.flatnonzero(lost <= RISK)
    return float(readings.doubts[order[allowed[-1]], ramp]) if len(allowed) else 0.0


def saved(readings: Readings, ramp: int) -> float:
    """Share of layers that need not be waited for: what FREE chooses its ramp by."""
    share = float((readings.doubts[:, ramp] < bold(readings, ramp)).mean())
    return share * (1 - (ramp + 1) / (readings.ramps + 1))


def window_rule(first: list[Fed]) -> tuple[Callable[[float], bool], Callable[[Fed], None]]:
    """Apparate's tuning of one ramp: the boldest threshold that loses at most `RISK` on its last tokens, every 16."""
    kept, limit, seen = list(first)[-WINDOW:], [0.0], [0]

    def feed(fed: Fed) -> None:
        kept.append(fed)
        del kept[:-WINDOW]
        seen[0] += 1
        if seen[0] % 16 == 0:
            limit[0] = bold(of_fed(kept), 0)

    limit[0] = bold(of_fed(kept), 0)
    return (lambda doubt: doubt < limit[0]), feed


def of_fed(fed: list[Fed]) -> Readings:
    labels, doubts = (np.array([[getattr(each, name)] for each in fed]) for name in ("label", "doubt"))
    return Readings(labels, doubts, np.array([each.final for each in fed]))


def certified_rule(readings: Readings) -> tuple[Callable[[float], bool], Callable[[Fed], None]]:
    controller = Controller(Promise(RISK, 0.9), calibrated(readings, RISK))

    def feed(fed: Fed) -> None:
        controller.feed(np.array([fed.label]), np.array([fed.doubt]), fed.final)

    return (lambda doubt: doubt < controller.thresholds[0]), feed


def play(
    model: Llama,
    asked: list[list[int]],
    tokens: int,
    ramp: int,
    rule: tuple[Callable[[float], bool], Callable[[Fed], None]],
) -> tuple[int, int, int, int]:
    """Tokens, those that exited, exits that the model would not have written, runs of the late layers."""
    sure, feed = rule
    exited = wrong = late = rows = 0
    for prompt in asked:
        decoder = Decoder(model, len(prompt) + tokens + 1, ramp, sure, FLUSH)
        decoded(decoder, prompt, tokens)
        for fed in decoder.fed:
            feed(fed)
        rows += decoder.early_rows
        late += decoder.late_passes
        # What the model would have written, given what is there: of all exits, not of those fed back alone.
        cache, hidden = Cache(decoder.positions, model.shape), model.embedding[decoder.tokens]
        hidden = model.through(hidden, list(range(len(decoder.tokens))), 0, model.shape.layers, cache)
        finals = model.logits(hidden).argmax(axis=1)
        written = np.array(decoder.tokens[len(prompt) + 1 :])
        wrong += int((written != finals[len(prompt) : -1]).sum())
        exited += decoder.exited
    return rows, exited, wrong, late


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=40)
    given = parser.parse_args()
    model = read_llama(given.folder)
    asked = prompts(given.folder, given.prompts)
    answered = []
    for prompt in asked:
        decoder = Decoder(model, len(prompt) + given.tokens, None, lambda doubt: False)
        decoded(decoder, prompt, given.tokens)
        answered.append((len(prompt), decoder.tokens))
    readings = read_ramps(model, answered)
    rows = [
        [
            str(ramp + 1),
            f"{1 - readings.wrong[:, ramp].mean():.1%}",
            f"{(readings.doubts[:, ramp] < bold(readings, ramp)).mean():.1%}",
            f"{saved(readings, ramp):.1%}",
        ]
        for ramp in range(readings.ramps)
    ]
    print(f"{len(readings)} tokens, {model.shape.layers} layers")
    print(markdown(("ramp behind", "agrees", "exit at a risk of 1 %, in hindsight", "layers spared"), rows))
    begin = max(1, int(FIRST * len(asked)))
    first = read_ramps(model, answered[:begin])
    ramp = max(range(first.ramps), key=lambda at: saved(first, at))
    limit = bold(first, ramp)
    seen = first.at((ramp,))
    fed = [
        Fed(int(label[0]), float(doubt[0]), int(f), False)
        for label, doubt, f in zip(seen.labels, seen.doubts, seen.final, strict=True)
    ]
    rules = {
        "FREE: one threshold": ((lambda doubt: doubt < limit), lambda fed: None),
        "Apparate's window": window_rule(fed),
        "certified": certified_rule(seen),
    }
    rows = []
    for name, rule in rules.items():
        count, out, wrong, late = play(model, asked[begin:], given.tokens, ramp + 1, rule)
        rows.append([name, str(count), f"{out / count:.1%}", f"{wrong / count:.2%}", f"{late / count:.1%}"])
    print(f"\nramp behind layer {ramp + 1}, learned on {len(first)} tokens")
    print(
        markdown(
            ("rule", "tokens", "exit", "other than the model's", "tokens with a run of the late layers"), rows
        )
    )


if __name__ == "__main__":
    main()
