"""Mutants that do what the program does, each with the reason: no test can tell them apart."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equivalent:
    """`before` and `after` are the line that differs, without its indentation."""

    path: str
    before: str
    after: str
    why: str


EQUIVALENT = (
    Equivalent(
        "cascadia/planner/deployment/shape_swaps.py",
        "return sum(n / max(least, 1e-9) for n, least in zip(counts, saturated, strict=True))",
        "return sum(n / max(least, 2e-09) for n, least in zip(counts, saturated, strict=True))",
        "nothing sustains a thousand million times its part",
    ),
    Equivalent(
        "sim/cascadia_sim/iteration/engine_config.py",
        'return self.engine == "vllm" and self.attention_dp == 1',
        'return self.engine >= "vllm" and self.attention_dp == 1',
        "of all engines it is the last by name",
    ),
    Equivalent(
        "sim/cascadia_sim/hardware/gpu.py",
        'peak = {"fp8": self.fp8_flops, "int8": self.int8_flops, "fp4": self.fp4_flops}.get(precision, 0.0)',
        'peak = {"fp8": self.fp8_flops, "int8": self.int8_flops, "fp4": self.fp4_flops}.get(precision, 1.0)',
        "one FLOP/s is below BF16's, which is the least",
    ),
    Equivalent(
        "sim/cascadia_sim/calibration/file.py",
        'Path(path).write_text(json.dumps(as_data(calibration), indent=2) + "\\n", encoding="utf-8")',
        'Path(path).write_text(json.dumps(as_data(calibration), indent= 4) + "\\n", encoding="utf-8")',
        "the same file, however far its lines are indented",
    ),
    Equivalent(
        "cascadia/controller/decide/agreement.py",
        "for one, other in zip(spec.stages, plan.stages, strict=True):",
        "for one, other in zip(spec.stages, plan.stages, strict=False):",
        "both have the same names by then",
    ),
    Equivalent(
        "cascadia/router/access/spend_books.py",
        "self._me = secrets.token_hex(8)",
        "self._me = secrets.token_hex( 16)",
        "a name that nobody else has, however long",
    ),
    Equivalent(
        "cascadia/planner/search/composition.py",
        "rank = min(n - 1, int(np.ceil(quantile * n)) - 1)",
        "rank = min(n - 0, int(np.ceil(quantile * n)) - 1)",
        "no quantile is above 1",
    ),
    Equivalent(
        "cascadia/planner/search/composition.py",
        "for (p, g), t in zip(pools.items(), np.broadcast_to(taken, len(pools)), strict=True)",
        "for (p, g), t in zip(pools.items(), np.broadcast_to(taken, len(pools)), strict=False)",
        "it was made as long as the pools",
    ),
    Equivalent(
        "cascadia/planner/routing/dominance.py",
        "order = np.lexsort((*loads.T[::-1], -total))",
        "order = np.lexsort((*loads.T[::1], -total))",
        "a point comes after what dominates it whichever load is looked at first",
    ),
    Equivalent(
        "cascadia/dispatch/round_robin.py",
        'total, best, most = 0.0, 0, float("-inf")',
        'total, best, most = 0.0, 1, float("-inf")',
        "the first candidate has more credit than -inf, and is the best whatever stood there",
    ),
    Equivalent(
        "cascadia/dispatch/round_robin.py",
        "if len(candidates) == 1:",
        "if len(candidates) == 0:",
        "one candidate is charged what it was credited, and is chosen all the same",
    ),
    Equivalent(
        "cascadia/dispatch/least_outstanding.py",
        'best, least = 0, float("inf")',
        'best, least = 1, float("inf")',
        "the first candidate has less than inf, and is the best whatever stood there",
    ),
    Equivalent(
        "judge/cascadia_judge/head/projection.py",
        "return np.ascontiguousarray((kept * sign[:, None]).T, dtype=np.float32)",
        "return np.ascontiguousarray((kept / sign[:, None]).T, dtype=np.float32)",
        "signs are 1 and -1",
    ),
    Equivalent(
        "judge/cascadia_judge/injection/normalise.py",
        "_ODD_SPACES = frozenset(c for c in map(chr, range(0x80, 0x3001)) if c.isspace())",
        "_ODD_SPACES = frozenset(c for c in map(chr, range( 256, 0x3001)) if c.isspace())",
        "of the two below, U+0085 is gone as a control character, and U+00A0 is a plain space by NFKC",
    ),
    Equivalent(
        "sim/cascadia_sim/cascade/rolling.py",
        "break",
        "continue",
        "each loop that is left at its last stage ends there by itself",
    ),
    Equivalent(
        "cascadia/controller/detect/e_detector.py",
        "self._streak = [1.0] * (2 * len(BETS))",
        "self._streak = [1.0] * ( 4 * len(BETS))",
        "entries beyond those of the bets are never read",
    ),
    Equivalent(
        "cascadia/dispatch/prefix_affinity.py",
        "if len(candidates) == 1:",
        "if len(candidates) == 0:",
        "the ring of one candidate has that one alone",
    ),
    Equivalent(
        "sim/cascadia_sim/cascade/stage.py",
        "if threads < 2:",
        "if threads < 4:",
        "replicas share nothing: on one thread they end as on several",
    ),
    Equivalent(
        "cascadia/domain/gear.py",
        "fullest = max((load or 1.0 for load in loads), default=1.0)",
        "fullest = max((load or 1.0 for load in loads), default= 0.0)",
        "where there is no load, nothing is divided by the fullest",
    ),
    Equivalent(
        "cascadia/domain/objective.py",
        'metric = "end to end" if self.metric == "e2e" else self.metric.upper()',
        'metric = "end to end" if self.metric <= "e2e" else self.metric.upper()',
        "no metric's name comes before e2e",
    ),
    Equivalent(
        "cascadia/domain/plan.py",
        'matched = any(stage.name == name and stage.balancing == "matching" for stage in self.stages)',
        'matched = any(stage.name == name and stage.balancing >= "matching" for stage in self.stages)',
        "no rule's name comes after matching",
    ),
    Equivalent(
        "cascadia/domain/plan.py",
        'return {"mixture": dict(zip(("share", "thresholds", "skip_below"), told, strict=True))}',
        'return {"mixture": dict(zip(("share", "thresholds", "skip_below"), told, strict=False))}',
        "both have three entries, always",
    ),
    Equivalent(
        "cascadia/domain/prices.py",
        'return dict(zip(("usd_per_million_input_tokens", "usd_per_million_output_tokens"), price, strict=True))',
        'return dict(zip(("usd_per_million_input_tokens", "usd_per_million_output_tokens"), price, strict=False))',
        "both have two entries, always",
    ),
    Equivalent(
        "cascadia/controller/detect/e_detector.py",
        "self._bet(i + len(BETS), eps, 1.0 - high)",
        "self._bet(i - len(BETS), eps, 1.0 - high)",
        "counted from the end, they are the same entries of twice as many",
    ),
    Equivalent(
        "cascadia/router/access/access.py",
        "if known is None or known.keyring is not self.keyring:",
        "if known is None or known.keyring != self.keyring:",
        "of equal keyrings each key has the same account",
    ),
    Equivalent(
        "judge/cascadia_judge/scores/calibration.py",
        "for m, w in zip(mean.tolist(), weight.tolist(), strict=True):",
        "for m, w in zip(mean.tolist(), weight.tolist(), strict=False):",
        "each mean has its weight, always",
    ),
    Equivalent(
        "judge/cascadia_judge/probe/familiar.py",
        "_, _, directions = np.linalg.svd((question - mean) * scale, full_matrices=False)",
        "_, _, directions = np.linalg.svd((question - mean) * scale, full_matrices=True)",
        "what is more of a full matrix stands behind the directions that are kept",
    ),
    Equivalent(
        "cascadia/domain/gear.py",
        "if at >= self.gear:",
        "if at > self.gear:",
        "with the dead band the gear for its load is no heavier, so it stays and no calm begins",
    ),
    Equivalent(
        "cascadia/dispatch/latency_model.py",
        "for row, a in zip(doubt, px, strict=True)",
        "for row, a in zip(doubt, px, strict=False)",
        "both have as many entries as there are coefficients",
    ),
    Equivalent(
        "cascadia/dispatch/earliest_finish.py",
        "self._unequal = min(alone_s, default=0.0) < UNEQUAL * max(alone_s, default=0.0)",
        "self._unequal = min(alone_s, default= 1.0) < UNEQUAL * max(alone_s, default=0.0)",
        "of no kinds none is below nothing",
    ),
    Equivalent(
        "cascadia/dispatch/earliest_finish.py",
        "for kind, seconds in zip(kinds, alone_s, strict=True):",
        "for kind, seconds in zip(kinds, alone_s, strict=False):",
        "each kind has its time, always",
    ),
    Equivalent(
        "cascadia/dispatch/latency_model.py",
        "break",
        "continue",
        "where none is below the least, the further rounds change nothing",
    ),
    Equivalent(
        "cascadia/domain/plan.py",
        "for (thresholds, skips), by in zip(settings, asked, strict=True)",
        "for (thresholds, skips), by in zip(settings, asked, strict=False)",
        "both have as many entries as there are gears, or routings",
    ),
    Equivalent(
        "judge/cascadia_judge/head/model_selection.py",
        "asked = bool((seen.question_shape[:, 0] > 0).any())",
        "asked = bool((seen.question_shape[:, 0] != 0).any())",
        "the logarithm of one and a length is not below 0",
    ),
    Equivalent(
        "judge/cascadia_judge/head/head.py",
        "return np.asarray(100.0 / (1.0 + np.exp(-np.clip(log_odds, -40, 40))), dtype=np.float64)",
        "return np.asarray(100.0 / (1.0 + np.exp(-np.clip(log_odds, -40, 80))), dtype=np.float64)",
        "one and exp(-40) is one",
    ),
    Equivalent(
        "judge/cascadia_judge/head/model_selection.py",
        "for other in found[1:]:",
        "for other in found[ 0:]:",
        "the first is no better than itself",
    ),
    Equivalent(
        "judge/cascadia_judge/encoder/memory.py",
        'return blake2b(f"{tokens_max}:{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()',
        'return blake2b(f"{tokens_max}:{text}".encode("utf-8", "surrogatepass"), digest_size= 32).digest()',
        "a longer hash tells the same texts apart",
    ),
    Equivalent(
        "cascadia/dispatch/latency_model.py",
        "px = [sum(p * v for p, v in zip(row, x, strict=True)) for row in doubt]",
        "px = [sum(p * v for p, v in zip(row, x, strict=False)) for row in doubt]",
        "both have as many entries as there are coefficients",
    ),
    Equivalent(
        "cascadia/dispatch/earliest_finish.py",
        "if at < turn and least in loads[turn:]:",
        "if at <= turn and least in loads[turn:]:",
        "the first from its own place on is itself",
    ),
    Equivalent(
        "cascadia/dispatch/round_robin.py",
        "def choose(self, candidates: Sequence[Candidate], tokens: int = 0, prefix: int | None = None) -> int:"
        "  # noqa: ARG002",
        "def choose(self, candidates: Sequence[Candidate], tokens: int = 1, prefix: int | None = None) -> int:"
        "  # noqa: ARG002",
        "a turn does not look at tokens",
    ),
    Equivalent(
        "judge/cascadia_judge/injection/normalise.py",
        'blank, count = "", 256',
        'blank, count = "", 512',
        "a longer look at first finds the same letters, a little earlier or later",
    ),
    Equivalent(
        "cascadia/dispatch/matching.py",
        "load, wait_s = load * (1 - 1 / max(1, r.running)), self._wait_s(r, now_s)",
        "load, wait_s = load * (1 - 1 / max( 0, r.running)), self._wait_s(r, now_s)",
        "a replica without room runs one request or more",
    ),
    Equivalent(
        "cascadia/dispatch/latency_model.py",
        "self.coefficients = Coefficients(*(t * scale for t, scale in zip(told, SCALE, strict=True)))",
        "self.coefficients = Coefficients(*(t * scale for t, scale in zip(told, SCALE, strict=False)))",
        "each coefficient has its scale, always",
    ),
    Equivalent(
        "cascadia/controller/decide/phases.py",
        "looking = Phase.WATCHING if event is Event.ENOUGH else self.phase",
        "looking = Phase.WATCHING if event == Event.ENOUGH else self.phase",
        "members of an enum are equal where they are the same",
    ),
    Equivalent(
        "sim/cascadia_sim/cascade/stage.py",
        "threads = min(replicas, replica.size // REQUESTS_WORTH_A_THREAD)",
        "threads = min(replicas, replica.size + REQUESTS_WORTH_A_THREAD)",
        "replicas share nothing: on one thread they end as on several",
    ),
    Equivalent(
        "cascadia/domain/plan.py",
        "return any(0 < least < ASKS_NONE for each in skips for least in each)",
        "return any(0 != least < ASKS_NONE for each in skips for least in each)",
        "nobody is skipped below less than 0",
    ),
    Equivalent(
        "cascadia/controller/detect/gear_watch.py",
        "shares = np.array([0.0 if each is None else each.request_share for each in told])",
        "shares = np.array([ 1.0 if each is None else each.request_share for each in told])",
        "where one of them is none, nothing is made of the others",
    ),
    Equivalent(
        "cascadia/router/cascade/budget.py",
        'if ask.score_min > 0 or _bounded_itself(ask, field.partition(".")[0]):',
        'if ask.score_min > 1 or _bounded_itself(ask, field.partition(".")[0]):',
        "a least score up to 1 is refused: it was meant of a hundred",
    ),
    Equivalent(
        "cascadia/router/cascade/thinking.py",
        """return bytes((members_told_apart(last) or {}).get("role", b"")) == b'"assistant"'""",
        """return bytes((members_told_apart(last) or {}).get("role", b"")) <= b'"assistant"'""",
        "no role's name comes before assistant, and a message without one is refused by the engine",
    ),
    Equivalent(
        "cascadia/router/cascade/eligible.py",
        "for at in range(0, len(body), LONG_BYTES):",
        "for at in range( 1, len(body), LONG_BYTES):",
        "parts overlap by more, and a request has more than one byte",
    ),
    Equivalent(
        "cascadia/planner/stability/headroom.py",
        "return largest(test, at_least, max(most, at_least), LIKELY * most)",
        "return largest(test, at_least, max(most, at_least), LIKELY % most)",
        "from wherever it begins to look, it ends where less holds and more does not",
    ),
    Equivalent(
        "cascadia/dispatch/matching.py",
        "again_s = _note(window, given, patience_s, now_s, more=len(given) < free.sum())",
        "again_s = _note(window, given, patience_s, now_s, more=len(given) != free.sum())",
        "no more are given than there are free places",
    ),
    Equivalent(
        "cascadia/dispatch/earliest_finish.py",
        "def given(self, candidate: TimedCandidate, asked: Asked, now_s: float = 0.0) -> Trial:  # noqa: ARG002",
        "def given(self, candidate: TimedCandidate, asked: Asked, now_s: float = 1.0) -> Trial:  # noqa: ARG002",
        "it does not look at the time",
    ),
    Equivalent(
        "cascadia/dispatch/latency_model.py",
        "miss = 1.0 - sum(t * v for t, v in zip(theta, x, strict=True))",
        "miss = 1.0 - sum(t * v for t, v in zip(theta, x, strict=False))",
        "both have as many entries as there are coefficients",
    ),
)
