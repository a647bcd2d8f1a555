"""Settings of a router: stages, their replicas, the judge, and limits. Defaults are documented here only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Literal

from cascadia.domain.plan import ExitPromise, asking
from cascadia.domain.policy import Policies
from cascadia_judge.scores.verifiers import Verifier

Balancing = Literal["least-outstanding", "round-robin", "prefix", "earliest-finish", "matching"]
Statistic = Literal["margin", "sum-logprob", "mean-logprob", "min-logprob"]
CostUnit = Literal["usd-per-million-tokens"]
Task = Literal["generate", "classify", "rerank"]
Combine = Literal["mean", "minimum"]
WhenOverloaded = Literal["queue", "refuse"]
ACCEPTS_ALL = 0.0
ACCEPTS_NONE_ABOVE = 100.0


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """`url`: the engine's address without `/v1`. `health_path` None: it is taken to be ready always.

    `resolve`: there is one such replica at each address of the name in `url`; share and room are each one's.
    """

    url: str
    share: float = 1.0
    max_concurrency: int = 256
    health_path: str | None = "/health"
    api_key: str | None = field(default=None, repr=False)
    resolve: Literal["dns"] | None = None
    requests_per_minute: int | None = None
    """Of somebody else's API: what this process sends it in any minute at most."""
    planned: int = 1
    """How many there are to be, at the addresses of a name: gears come by the share of them that is ready."""
    kind: str | None = None
    """Replicas of one kind take as long, given as much in hand; None: those of one share do."""
    latency: tuple[float, float, float, float] | None = None
    """Of its kind, where a balancing that learns begins: `cascadia.dispatch.latency_model.Coefficients`."""
    address: str | None = None
    """The one of them that this replica is at: no file says so, `replicas/dns_names.py` does."""


@dataclass(frozen=True, slots=True)
class HedgeSettings:
    """A second replica is asked after the `quantile` of the time that answers took, for at most `ratio` of requests."""

    quantile: float = 0.95
    ratio: float = 0.05


@dataclass(frozen=True, slots=True)
class ExitSettings:
    """Point after so many tokens of thinking: a trial answer is given there if it scores `threshold` or more. `last`:
    nobody thinks on behind it. `foreseen`: it is written only where the question alone promises so much."""

    thinking_tokens: int
    threshold: float
    last: bool = False
    foreseen: float | None = None


ENDS_THINKING = "\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class StageSettings:
    """`name` is what clients call it, `model` what its engines do. `threshold` 0-100 is not used of the last stage."""

    name: str
    model: str
    replicas: tuple[ReplicaSettings, ...]
    threshold: float = ACCEPTS_ALL
    max_model_len: int | None = None
    max_tokens: int | None = None
    """Of an answer whose request sets no limit; None: the engine's own, mostly up to the end of its context."""
    balancing: Balancing = "least-outstanding"
    cost: float | None = None
    """Of a token, on any scale that all stages share: active parameters, or dollars a million tokens."""
    price: tuple[float, float] | None = None
    """Dollars of a million tokens read and of a million written, for what keys spend; None: not known."""
    load: float | None = None
    """Planned share of what all its replicas sustain: with gears, the more of it the sooner a lost replica counts."""
    planned_share: float | None = None
    """Sum of the shares of the replicas that gears were planned for; None: of those that it has."""
    hedge: HedgeSettings | None = None
    passes_priority: bool = False
    """Whether its engines are told the requests' priority, which they refuse unless started with such a scheduler."""
    skip_below: float | None = None
    """Passed over where an embedding judge, by the question alone, expects an answer worth less."""
    verifiers: tuple[Verifier, ...] = ()
    """An answer that fails one has score 0. Of one that passes all, see `verified`."""
    verified: Literal["judge", "accept"] = "judge"
    """Whether an answer that passes all verifiers is still judged."""
    on_overload: Literal["wait", "escalate"] = "wait"
    """What a request does where all replicas are busy and a larger stage has room: wait here, or go there."""
    latency_max_s: float | None = None
    """Within it answers are wanted, where `balancing` looks at that; None: as soon as can be."""
    task: Task = "generate"
    """What its models do; all stages of a router do the same."""
    group: str | None = None
    """Group whose models its workers have: they get batches, one at a time."""
    earlier_weight: float = 0.0
    """Of what the stages before a classifier said, in the logarithms of the probabilities; 0: it alone counts."""
    slow_s: float | None = None
    """What took as long and was then given up is the engine's failure, whosever deadline it was."""
    exits: tuple[ExitSettings, ...] = ()
    """In order, where it may answer before it has thought to the end."""
    promise: ExitPromise | None = None
    """By which its exits are certified while it serves; None: they are in force as they are."""
    ends_thinking: str = ENDS_THINKING
    ends_answer: str | None = None
    """Text at which a trial answer ends; None: where its model ends it."""
    """Text that makes its model answer, put behind what it has thought."""
    echoes: bool = False
    """Whether its engines, told to go on from a text, say that text once more."""
    budget_field: str | None = None
    """Field of a request by which its engines bound thinking, with dots between members: its exits are then budgets,
    chosen from the question alone; None: each has a trial."""

    @property
    def looks(self) -> bool:
        """Tells whether its exits ask the question alone: for a budget, or whether a trial is worth it."""
        return bool(self.asking)

    @property
    def asking(self) -> tuple[int, ...]:
        """Exits that ask the question alone."""
        return asking([each.foreseen for each in self.exits], budgets=self.budget_field is not None)


TokenCost = tuple[float, float]
"""Cost of a token that a stage reads, and of one that it writes."""


def token_costs(stages: Sequence[StageSettings]) -> list[TokenCost | None]:
    """Dollars a million tokens where all `stages` have a price, else their costs on the scale that they share; None of
    one without.
    """
    prices = [stage.price for stage in stages]
    if None not in prices:
        return prices
    return [None if stage.cost is None else (stage.cost, stage.cost) for stage in stages]


@dataclass(frozen=True, slots=True)
class MixtureSettings:
    """A `share` (0-1) of the cascade's requests, in turn, goes by these instead of the stages' own `threshold` and
    `skip_below`; by stage. A stage with `skip_below` 101 is never asked."""

    share: float
    thresholds: Mapping[str, float]
    skip_below: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class GearSettings:
    """Setting of the cascade for up to `max_in_flight` requests under way in all routers; None: for any number.

    `number` is its place among the gears, 0 the heaviest. `stages` are asked, in order, and no other. What `thresholds`
    and `skip_below` do not name is the stage's own.
    """

    number: int
    max_in_flight: float | None
    stages: tuple[str, ...]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    skip_below: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """One-pass models on the same workers. Who names the group as a model is served by `policies`; who names a stage of
    it, or the cascade, by that stage's own of `stages`."""

    name: str
    stages: Mapping[str, Policies]
    policies: Policies | None = None


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """Predictions of a stage: parts of the requests that reach it and that it answers, and dollars of its GPUs."""

    reached: float
    answered: float
    p95_s: float
    usd_per_hour: float = 0.0
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class PlannedSettings:
    """Predictions of the plan, which the page sets beside what is measured. `score` is the judge's, of the answers
    given (None: not told); `quality` the table's own."""

    rate_rps: float
    p50_s: float
    p95_s: float
    ttft_p95_s: float
    quality: float
    quality_lower: float
    usd_per_hour: float
    score: float | None = None
    stages: Mapping[str, PlannedStage] = field(default_factory=dict)
    judge: PlannedStage | None = None


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """`stage` holds the replicas of an `llm` or `embedding` judge. A verdict takes at most `timeout_s`, else
    `on_failure` decides.
    """

    kind: Literal["llm", "embedding", "probe", "certainty", "agreement", "ensemble"]
    stage: StageSettings | None = None
    timeout_s: float = 10.0
    on_failure: Literal["escalate", "accept"] = "escalate"
    reads_tokens: int = 8192
    cache_size: int = 4096
    """Verdicts of an `llm` or `embedding` judge that are kept; 0 keeps none."""
    statistic: Statistic = "margin"
    points: tuple[tuple[float, float], ...] = ()
    """Of a `certainty` judge: see `CertaintyGate`."""
    certainty: bool = True
    """Whether an `embedding` judge is told the engine's log-probabilities."""
    samples: int = 2
    temperature: float = 0.8
    extract: str | None = None
    """Of an `agreement` judge: see `AgreementGate`."""
    members: tuple["JudgeSettings", ...] = ()
    scale: float | None = None
    """What the scores of the plan's table went up to; of a plan that says otherwise, another judge made them."""
    weight: float = 1.0
    combine: Combine = "mean"
    """Of an `ensemble`: its members, each with its weight."""

    @property
    def all(self) -> "Iterator[JudgeSettings]":
        """The judge and its members, of members too."""
        yield self
        for member in self.members:
            yield from member.all


@dataclass(frozen=True, slots=True)
class ConversationSettings:
    """`sticky`: a conversation's next turn starts at the stage that answered its last, as long as that is known."""

    start: Literal["fresh", "sticky"] = "fresh"
    kept: int = 100_000
    """Conversations that are remembered, the last used of them."""
    kept_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds. `total_s` is of one exchange with an engine, and of a request where it names no deadline."""

    connect_s: float = 2.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 600.0
    queue_s: float = 60.0
    max_queue: int = 4096
    """Requests that wait for a replica of one stage."""
    max_tries: int = 3
    retry_ratio: float = 0.2
    """Retries per request of a stage, over the long run; ten are free."""
    max_body_bytes: int = 32 * 2**20
    max_head_bytes: int = 32 * 2**10
    max_answer_bytes: int = 64 * 2**20
    max_held_bytes: int = 2**30
    """Of answers that come in whole or wait for their gate, all requests of the router together."""
    head_s: float = 10.0
    body_s: float = 30.0
    max_connections: int = 20_000
    heartbeat_s: float = 10.0
    max_judged_choices: int = 8
    drain_s: float = 120.0
    drain_notice_s: float = 0.0
    """After SIGTERM `/ready` says no for this long before the port is closed."""
    examination_s: float = 0.25
    """CPU time for one schema, verifier or look for what speaks to a judge; beyond it there is no result."""
    stall_s: float = 5.0
    """CPU time without a turn of the event loop after which a process ends, its stack in the log; 0: never."""
    blocked_s: float = 10.0
    """Time that the event loop's thread sleeps without a turn after which a process ends likewise; 0: never."""
    breaker_failures: int = 5
    breaker_first_s: float = 1.0
    breaker_longest_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Health:
    """Each replica is asked every `interval_s`; after `failures` in a row it is down, until it answers again.

    One that has not answered yet is starting for `startup_s`: requests wait for it.
    """

    interval_s: float = 2.0
    again_s: float = 0.5
    timeout_s: float = 5.0
    failures: int = 3
    startup_s: float = 600.0
    resolve_s: float = 1.0
    """How often names of replicas with `resolve` are looked up."""


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Spans go to `endpoint`, a whole URL. `ratio` (0-1) of the requests that begin a trace have them; one that goes on
    with a caller's trace has them iff the caller does, unless `follow` is false. `service` None: as the environment
    says, else `cascadia-router`."""

    endpoint: str
    ratio: float = 1.0
    follow: bool = True
    service: str | None = None


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """The workload log: `ratio` (0-1) of the requests, as Parquet files in `folder`.

    A file is ended after `rows` or `seconds`, whichever comes first; the oldest go when all are above `max_bytes`.
    `token`: who sends it is given the files (`/samples`); nobody where it is None.
    """

    folder: Path
    ratio: float = 1.0
    rows: int = 10_000
    _: KW_ONLY
    seconds: float = 300.0
    max_bytes: int = 2**30
    text: bool = False
    """Whether the question and the held answers are written too."""
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """`ratio` (0-1) of the cascade's requests are asked of all stages once more, when they are answered.

    Only where each stage has less than `busy` (0-1) of its room taken, and within `tokens_per_hour`. For ten minutes
    after a controller asked for more, `burst_ratio` of them, `burst_at_once`, on the tokens of the next `burst_hours`.
    """

    ratio: float = 0.0
    busy: float = 0.5
    tokens_per_hour: int = 100_000
    max_tokens: int = 1024
    """Of an answer whose request sets no limit."""
    burst_ratio: float = 0.5
    burst_at_once: int = 4
    burst_hours: float = 6.0


@dataclass(frozen=True, slots=True)
class KeySettings:
    """`file` holds the keys that may come in. `open`: paths that need none, beside those of `access/guard.py`.

    `redis_url`: where routers share the limits of keys. While it cannot be asked each router holds them by itself
    (`local`), or lets nobody with limits in (`refuse`).
    """

    file: Path
    open: tuple[str, ...] = ()
    redis_url: str | None = field(default=None, repr=False)
    redis_timeout_s: float = 0.1
    on_redis_failure: Literal["local", "refuse"] = "local"
    spend: Path | None = None
    """Folder in which a host's processes keep what keys have spent, without Redis; None: beside `file`."""

    @property
    def spend_folder(self) -> Path:
        return self.spend or self.file.with_name(f"{self.file.stem}-spend")


@dataclass(frozen=True, slots=True)
class CorsSettings:
    """Pages of `allow_origins` may ask the models from a browser: `("*",)` are those of anywhere. Of a header, a name
    that ends in `*` stands for all that begin so."""

    allow_origins: tuple[str, ...]
    allow_methods: tuple[str, ...] = ("GET", "POST")
    allow_headers: tuple[str, ...] = (
        *("authorization", "content-type", "x-request-id", "x-session-id", "x-cascadia-*", "x-stainless-*"),
        *("openai-organization", "openai-project"),
    )
    allow_credentials: bool = False
    """Whether a browser sends what it keeps of this origin (cookies, a remembered password) along."""
    max_age_s: int = 600
    """For how long a browser may remember what it was told."""


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Place where `/admin/` is served: at a port of its own, or where `port` is None at the router's."""

    port: int | None = None
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """`stages` from small to large, deployed ones only; `names` are of all, where some are not deployed."""

    stages: tuple[StageSettings, ...]
    judge: JudgeSettings | None
    foresight: JudgeSettings | None = None
    """Heads that tell of the question alone, as an embedding judge; where there are none, the judge is asked."""
    names: tuple[str, ...] = ()
    mixture: MixtureSettings | None = None
    gears: tuple[GearSettings, ...] = ()
    """Empty: the stages' own setting serves any load."""
    groups: tuple[GroupSettings, ...] = ()
    """Groups whose requests are served in batches."""
    when_overloaded: WhenOverloaded = "queue"
    """What becomes of a request where even the lightest gear's stages have no room: it waits, or is refused."""
    cost_unit: CostUnit | None = None
    """What the stages' `cost` is in; None: any scale that they share."""
    planned: PlannedSettings | None = None
    """What the plan predicts, for the page; None: it says nothing of a plan."""
    cascade: str = "cascadia"
    conversations: ConversationSettings = field(default_factory=ConversationSettings)
    limits: Limits = field(default_factory=Limits)
    health: Health = field(default_factory=Health)
    host: str = "127.0.0.1"
    port: int = 8000
    tracing: TracingSettings | None = None
    samples: SampleSettings | None = None
    shadow: ShadowSettings = field(default_factory=ShadowSettings)
    page: bool = True
    """Whether `/ui` is served."""
    playground: bool = True
    """Tells whether who asks may be told each stage's answer, and the page may ask."""
    keys: KeySettings | None = None
    admin: AdminSettings | None = None
    cors: CorsSettings | None = None
    """None: no page of another origin may ask from a browser."""
    exit_states: Path | None = None
    """Folder in which the processes of a host keep what exits were certified for; None: each for itself."""
    watch_s: float = 1.0
    """How often `files` are looked at for changes; 0: never."""
    revision: str = ""
    """What whoever wrote the file calls it."""
    files: tuple[Path, ...] = ()
    """What these settings were read from, and what it names: secrets and keys."""

    @property
    def task(self) -> Task:
        return self.stages[0].task
