"""The engine told token by token in plain Python: no closed form, no heap, no histogram.

Follows the rules in docs/models/simulator.md, not the kernel, and is deliberately slow: every batch looks at
every sequence and recounts every block. It checks as it goes that KV stays within its limit, that no stage
serves two batches at once, and that no sequence decodes in two batches at once.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from operator import mul

from cascadia_sim.iteration.timing import ReplicaTiming


@dataclass
class Sequence:
    """A request and how far it is: `sent` into batches of this admission's `prompt`, `written` of its answer."""

    number: int
    arrival_ps: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    written: int = 0
    sent: int = 0
    prompt: int = 0
    prefilling: bool = False
    first_token_ps: int = -1
    finish_ps: int = -1
    steps: list[int] = field(default_factory=list)

    def kv_tokens(self) -> int:
        """Tokens that need KV room beside drafts: the context, or the whole prompt and one more while prefilled."""
        return self.prompt + 1 if self.prefilling else self.input_tokens + self.written


@dataclass
class Batch:
    """`chunks`: prompts and how much of them. It ends at `end_ps`."""

    decoding: list[Sequence]
    chunks: list[tuple[Sequence, int]]
    completing: list[Sequence] = field(default_factory=list)
    end_ps: int = 0
    drafts: int = 0

    def holds(self, s: Sequence) -> bool:
        return any(s is d for d in self.decoding) or any(s is c for c, _ in self.chunks)


class Twin:
    """One replica. `sequences` in order of arrival."""

    def __init__(self, timing: ReplicaTiming, sequences: list[Sequence]) -> None:
        self.timing = timing
        self.coming = deque(sequences)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in order of admission
        self.flights: deque[Batch] = deque()
        self.stage_free_ps = [0] * timing.lanes
        self.now = 0
        self.busy_ps = 0
        self.preemptions = 0
        self.peak_blocks = 0

    def run(self) -> None:
        while self.coming or self.waiting or self.running:
            while self.coming and self.coming[0].arrival_ps <= self.now:
                self.waiting.append(self.coming.popleft())
            while len(self.flights) < self.timing.lanes and self.send():
                pass
            self.wait()

    def wait(self) -> None:
        """Until a batch ends, or a request arrives that need not wait for that."""
        ends = [self.flights[0].end_ps] if self.flights else []
        room = self.timing.lanes if self.timing.scheduling.starts_between else 1
        if self.coming and len(self.flights) < room:
            ends.append(self.coming[0].arrival_ps)
        self.now = min(ends)
        if self.flights and self.flights[0].end_ps == self.now:
            self.end(self.flights.popleft())

    def blocks(self, tokens: int) -> int:
        return -(-(tokens + max(self.timing.draft_tokens, default=0)) // self.timing.block_size)

    def held(self) -> int:
        return sum(self.blocks(s.kv_tokens()) for s in self.running)

    def in_flight(self, s: Sequence) -> bool:
        return any(b.holds(s) for b in self.flights)

    def send(self) -> bool:
        """Forms a batch of what is ready and sends it off; False where nothing is."""
        t = self.timing
        if t.chunked_prefill:
            preempted = self.preempt()
            batch = Batch(self.ready(), [])
            self.draft(batch)
            self.add_chunks(batch, admit=not preempted)
        else:
            batch = Batch([], [])
            self.add_whole_prompts(batch)
            if not batch.chunks:
                self.preempt()
                batch.decoding = self.ready()
                self.draft(batch)
        if not batch.decoding and not batch.chunks:
            return False
        self.execute(batch)
        return True

    def draft(self, batch: Batch) -> None:
        if len(self.timing.draft_tokens):
            batch.drafts = int(self.timing.draft_tokens[len(batch.decoding)])

    def ready(self) -> list[Sequence]:
        found = [s for s in self.running if not s.prefilling and not self.in_flight(s)]
        return found[: self.most()]

    def most(self) -> int:
        return self.timing.scheduling.batch_seqs or self.timing.max_num_seqs

    def preempt(self) -> bool:
        any_preempted = False
        while self.held() > t_blocks(self.timing):
            victim = [s for s in self.running if not self.in_flight(s)][-1]
            self.running.remove(victim)
            self.waiting.appendleft(victim)
            self.preemptions += 1
            any_preempted = True
        return any_preempted

    def fits(self, s: Sequence) -> bool:
        spare = self.timing.scheduling.watermark_blocks if self.running else 0
        return len(self.running) < self.timing.max_num_seqs and self.held() + self.blocks(
            s.input_tokens + s.written + 1
        ) + spare <= t_blocks(self.timing)

    def admit(self) -> Sequence:
        s = self.waiting.popleft()
        s.prompt = s.input_tokens + s.written
        s.sent = s.cached_tokens
        s.prefilling = True
        self.running.append(s)
        return s

    def add_chunks(self, batch: Batch, *, admit: bool) -> None:
        """vLLM V1: running prompts first, then waiting ones, until the token budget is used up."""
        budget = self.timing.max_num_batched_tokens - len(batch.decoding) * (1 + batch.drafts)

        def room() -> bool:
            return budget > 0 and len(batch.decoding) + len(batch.chunks) < self.most()

        for s in [s for s in self.running if s.prefilling and s.sent < s.prompt]:
            if not room() or (self.in_flight(s) and not self.timing.scheduling.chunks_in_step):
                continue
            budget -= self.add_chunk(batch, s, budget)
        while admit and room() and self.waiting and self.fits(self.waiting[0]):
            budget -= self.add_chunk(batch, self.admit(), budget)

    def add_chunk(self, batch: Batch, s: Sequence, budget: int) -> int:
        size = min(budget, s.prompt - s.sent)
        batch.chunks.append((s, size))
        return size

    def add_whole_prompts(self, batch: Batch) -> None:
        """vLLM V0: as many whole prompts as fit the token budget, the first whatever its size."""
        sizes: list[int] = []
        while self.waiting and self.fits(self.waiting[0]) and len(sizes) < self.most():
            head = self.waiting[0]
            sizes.append(head.input_tokens + head.written - head.cached_tokens)
            padded = self.timing.scheduling.padded_prompts
            total = len(sizes) * max(sizes) if padded else sum(sizes)
            if len(sizes) > 1 and total > self.timing.max_num_batched_tokens:
                break
            batch.chunks.append((self.admit(), sizes[-1]))

    def execute(self, batch: Batch) -> None:
        t = self.timing
        held = self.held()
        assert held <= t_blocks(t), "KV above its limit"
        assert len(self.running) <= t.max_num_seqs
        assert not any(self.in_flight(s) for s in batch.decoding), "a sequence in two batches"
        self.peak_blocks = max(self.peak_blocks, held)
        tokens = len(batch.decoding) * (1 + batch.drafts) + sum(size for _, size in batch.chunks)
        context = sum(s.input_tokens + s.written for s in batch.decoding)
        pairs = 0
        for s, size in batch.chunks:
            s.sent += size
            pairs += size * s.sent - size * (size - 1) // 2
            if s.sent == s.prompt:
                batch.completing.append(s)
        duration = token_ps(t, tokens) + int(t.sequence_ps[len(batch.decoding) + len(batch.completing)])
        duration += t.context_ps * context + int(t.pair_ps * pairs)
        if len(t.draft_ps):
            duration += int(t.draft_ps[len(batch.decoding)]) + batch.drafts * t.draft_context_ps * context
        self.busy_ps += duration
        batch.end_ps = self.pass_stages(duration)
        self.flights.append(batch)

    def pass_stages(self, duration: int) -> int:
        """Equal shares, what does not divide in the last; a stage takes a batch when both are free."""
        stages = self.timing.lanes
        share = duration // stages
        now = self.now
        for stage in range(stages):
            start = max(now, self.stage_free_ps[stage])
            assert start >= self.stage_free_ps[stage], "two batches in a stage"
            now = start + (share if stage < stages - 1 else duration - share * (stages - 1))
            self.stage_free_ps[stage] = now
        return now

    def end(self, batch: Batch) -> None:
        for s in batch.decoding + batch.completing:
            for _ in range(1 if s.prefilling else self.accepted(s, batch.drafts) + 1):
                if s.written < s.output_tokens:
                    s.written += 1
                    s.steps.append(self.now)
            s.prefilling = False
            if s.first_token_ps < 0:
                s.first_token_ps = self.now
            if s.written == s.output_tokens:
                s.finish_ps = self.now
                self.running.remove(s)

    def accepted(self, s: Sequence, drafts: int) -> int:
        """The first drafts up to the one that is wrong: the j-th holds with the first j - 1 where a draw is below
        acceptance^j.
        """
        chance = uniform(s.number, s.written)
        powers = accumulate([self.timing.acceptance] * drafts, mul)
        return sum(1 for _ in takewhile(lambda p: chance < p, powers))


def uniform(request: int, written: int) -> float:
    """The draw of a request that has so many tokens: splitmix64, in whole numbers."""
    word = 2**64
    x = (request * 0x9E3779B97F4A7C15 + written * 0xBF58476D1CE4E5B9 + 0x9E3779B97F4A7C15) % word
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % word
    x = (x ^ x >> 27) * 0x94D049BB133111EB % word
    return ((x ^ x >> 31) >> 11) / 2**53


def t_blocks(t: ReplicaTiming) -> int:
    return t.kv_tokens // t.block_size * t.lanes


def token_ps(t: ReplicaTiming, tokens: int) -> int:
    last = t.token_ps.size - 1
    if tokens <= last:
        return int(t.token_ps[tokens])
    return int(t.token_ps[last]) + (tokens - last) * int(t.token_ps[last] - t.token_ps[last - 1])


def run_twin(timing: ReplicaTiming, requests: list[tuple[int, int, int, int]]) -> tuple[list[Sequence], Twin]:
    """`requests`: (arrival_ps, input, output, cached) in order of arrival."""
    sequences = [Sequence(i, *r) for i, r in enumerate(requests)]
    twin = Twin(timing, sequences)
    twin.run()
    return sequences, twin
