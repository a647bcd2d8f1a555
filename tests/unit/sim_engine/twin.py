"""The engine told token by token in plain Python: no closed form, no heap, no histogram.

Follows the rules in docs/models/simulator.md, not the kernel, and is deliberately slow: every iteration looks
at every sequence and recounts every block. It checks as it goes that KV stays within its limit.
"""

from collections import deque
from dataclasses import dataclass, field

from cascadia_sim.timing import ReplicaTiming


@dataclass
class Sequence:
    """A request and how far it is: `computed` of this admission's `prompt`, `written` of its answer."""

    number: int
    arrival_ps: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    written: int = 0
    computed: int = 0
    prompt: int = 0
    first_token_ps: int = -1
    finish_ps: int = -1
    steps: list[int] = field(default_factory=list)

    @property
    def prefilling(self) -> bool:
        return self.computed < self.prompt

    def kv_tokens(self) -> int:
        """Tokens that need KV room: the context, or the whole prompt and one more while it is prefilled."""
        return self.prompt + 1 if self.prefilling else self.input_tokens + self.written


class Twin:
    """One lane. `sequences` in order of arrival."""

    def __init__(self, timing: ReplicaTiming, sequences: list[Sequence]) -> None:
        self.timing = timing
        self.coming = deque(sequences)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in order of admission
        self.now = 0
        self.busy_ps = 0
        self.preemptions = 0
        self.peak_blocks = 0

    def run(self) -> None:
        while self.coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now = max(self.now, self.coming[0].arrival_ps)
            while self.coming and self.coming[0].arrival_ps <= self.now:
                self.waiting.append(self.coming.popleft())
            self.iterate()

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.timing.block_size)

    def held(self) -> int:
        return sum(self.blocks(s.kv_tokens()) for s in self.running)

    def iterate(self) -> None:
        t = self.timing
        if t.chunked_prefill:
            preempted = self.preempt()
            decoding = [s for s in self.running if not s.prefilling]
            chunks = self.chunks(t.max_num_batched_tokens - len(decoding), admit=not preempted)
        else:
            chunks = self.whole_prompts()
            if chunks:
                decoding = []
            else:
                self.preempt()
                decoding = list(self.running)
        self.execute(decoding, chunks)

    def preempt(self) -> bool:
        any_preempted = False
        while self.held() > t_blocks(self.timing):
            victim = self.running.pop()
            victim.computed = victim.prompt = 0
            self.waiting.appendleft(victim)
            self.preemptions += 1
            any_preempted = True
        return any_preempted

    def fits(self, s: Sequence) -> bool:
        return len(self.running) < self.timing.max_num_seqs and self.held() + self.blocks(
            s.input_tokens + s.written + 1
        ) <= t_blocks(self.timing)

    def admit(self) -> Sequence:
        s = self.waiting.popleft()
        s.prompt = s.input_tokens + s.written
        s.computed = s.cached_tokens
        self.running.append(s)
        return s

    def chunks(self, budget: int, *, admit: bool) -> list[tuple[Sequence, int]]:
        """vLLM v1: running prompts first, then waiting ones, until the token budget is used up."""
        out = []
        for s in [s for s in self.running if s.prefilling]:
            size = min(budget, s.prompt - s.computed)
            budget -= size
            out.append((s, size))
        while admit and budget > 0 and self.waiting and self.fits(self.waiting[0]):
            s = self.admit()
            size = min(budget, s.prompt - s.computed)
            budget -= size
            out.append((s, size))
        return out

    def whole_prompts(self) -> list[tuple[Sequence, int]]:
        """vLLM v0: as many whole prompts as fit the token budget, the first whatever its size."""
        out: list[tuple[Sequence, int]] = []
        total = 0
        while self.waiting and self.fits(self.waiting[0]):
            head = self.waiting[0]
            size = head.input_tokens + head.written - head.cached_tokens
            if out and total + size > self.timing.max_num_batched_tokens:
                break
            total += size
            out.append((self.admit(), size))
        return out

    def execute(self, decoding: list[Sequence], chunks: list[tuple[Sequence, int]]) -> None:
        t = self.timing
        held = self.held()
        assert held <= t_blocks(t), "KV above its limit"
        assert len(self.running) <= t.max_num_seqs
        self.peak_blocks = max(self.peak_blocks, held)
        tokens = len(decoding) + sum(size for _, size in chunks)
        assert tokens > 0, "an iteration without work"
        context = sum(s.input_tokens + s.written for s in decoding)
        pairs = 0
        completing = []
        for s, size in chunks:
            end = s.computed + size
            pairs += size * end - size * (size - 1) // 2
            s.computed = end
            if end == s.prompt:
                completing.append(s)
        yielding = decoding + completing
        duration = token_ps(t, tokens) + int(t.sequence_ps[len(yielding)])
        duration += t.context_ps * context + int(t.pair_ps * pairs)
        self.now += duration
        self.busy_ps += duration
        for s in yielding:
            s.written += 1
            s.steps.append(self.now)
            if s.first_token_ps < 0:
                s.first_token_ps = self.now
            if s.written == s.output_tokens:
                s.finish_ps = self.now
                self.running.remove(s)


def t_blocks(t: ReplicaTiming) -> int:
    return t.kv_tokens // t.block_size


def token_ps(t: ReplicaTiming, tokens: int) -> int:
    last = t.token_ps.size - 1
    if tokens <= last:
        return int(t.token_ps[tokens])
    return int(t.token_ps[last]) + (tokens - last) * int(t.token_ps[last] - t.token_ps[last - 1])


def run_twin(
    timing: ReplicaTiming, requests: list[tuple[int, int, int, int]]
) -> tuple[list[Sequence], list[Twin]]:
    """`requests`: (arrival_ps, input, output, cached) in order of arrival; lanes take them in turn."""
    sequences = [Sequence(i, *r) for i, r in enumerate(requests)]
    lanes = [Twin(timing, sequences[lane :: timing.lanes]) for lane in range(timing.lanes)]
    for lane in lanes:
        lane.run()
    return sequences, lanes
