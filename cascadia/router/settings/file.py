"""`router.yaml`: pydantic at the edge. Unknown keys are errors that name the nearest known one."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from cascadia.domain.errors import BadInput
from cascadia.domain.names import CASCADE, FORESIGHT, JUDGE, LONGEST_NAME, LONGEST_STAGE, NAME, STAGE
from cascadia.domain.plan import ASKS_NONE, ExitPromise
from cascadia.files.addresses import api_root
from cascadia.files.field_errors import bad_input
from cascadia.files.kinds import refuse_other
from cascadia.files.strict_yaml import parse_yaml
from cascadia.files.text import read_text
from cascadia.router.settings.gears import GearSection, check_gears, gears_of
from cascadia.router.settings.groups import GroupSection, check_groups, groups_of
from cascadia.router.settings.judge import JudgeFields, VerifierFields
from cascadia.router.settings.model import (
    ENDS_THINKING,
    AdminSettings,
    Balancing,
    ConversationSettings,
    CorsSettings,
    CostUnit,
    ExitSettings,
    Health,
    HedgeSettings,
    JudgeSettings,
    KeySettings,
    Limits,
    MixtureSettings,
    ReplicaSettings,
    RouterSettings,
    ShadowSettings,
    StageSettings,
    Task,
    WhenOverloaded,
)
from cascadia.router.settings.planned import PlannedSection, planned_of
from cascadia.router.settings.secret_values import Secrets
from cascadia.router.settings.telemetry import SamplesSection, ShadowSection, TracingSection

MAX_BYTES = 1_000_000
EXIT_STATES = "exits-state"
_ORIGIN = r"^(\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?|null)$"
_CORS = CorsSettings(("*",))

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME)]
StageName = Annotated[str, Field(min_length=1, max_length=LONGEST_STAGE, pattern=STAGE)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Latency(_Section):
    """Seconds that answers take: see docs/models/unequal.md."""

    base_s: Positive
    read_s: Positive
    step_s: Positive
    load_s: Positive


class _Replica(_Section):
    url: str = Field(description="http://host:port, with the path before /v1 where there is one.")
    share: Positive = 1.0
    max_concurrency: int = Field(256, ge=1, le=100_000)
    health_path: str | None = Field("/health", pattern=r"^/[\x21-\x7e]*$", max_length=200)
    requests_per_minute: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Most requests in any minute, of each of the router's processes.",
    )
    api_key_env: str | None = Field(None, description="Variable that holds the engine's key.")
    api_key_file: Path | None = Field(None, description="File that holds the engine's key.")
    kind: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Its GPU and shape: replicas of one kind take as long. Default: those of one share do.",
    )
    latency: _Latency | None = Field(
        None, description="What a balancing that learns takes its kind's latency for, before it has learnt."
    )
    resolve: Literal["dns"] | None = Field(None, description="A replica at each address of the name in url.")
    planned: int = Field(
        1, ge=1, le=100_000, description="How many there are to be, where a name is resolved."
    )


class _Hedge(_Section):
    quantile: float = Field(0.95, ge=0.5, lt=1)
    ratio: float = Field(0.05, gt=0, le=1)


class _Conversations(_Section):
    start: Literal["fresh", "sticky"] = "fresh"
    kept: int = Field(default=100_000, ge=1, le=10_000_000)
    kept_s: Positive = 3600.0


class _Exit(_Section):
    thinking_tokens: int = Field(
        ge=0, description="Tokens of thinking after which a trial answer is written."
    )
    threshold: float = Field(ge=0, le=1000, description="Least score by which the trial answer is given.")
    last: bool = Field(False, description="Nobody thinks on behind it, whatever the trial's score.")
    foreseen: float | None = Field(
        None,
        gt=0,
        le=100,
        description="A trial is written only where foresight promises so much: 100 less the points that thinking on "
        "adds.",
    )


class _ExitPromise(_Section):
    """Promise by which exits of thinking models are in force: the judge finds the whole answer better, by more than 5
    points, on no more than `risk` of the requests."""

    risk: float = Field(0.01, gt=0, lt=1, description="Share of the requests (0-1).")
    confidence: float = Field(0.9, gt=0, lt=1, description="Probability with which it is kept.")
    shadow: float = Field(
        0.1, gt=0, le=1, description="Share of the requests that think to the end, as evidence (0-1)."
    )
    state: str = Field(
        EXIT_STATES,
        min_length=1,
        description="Folder in which the processes of a host keep their evidence, for all and for later.",
    )


class _Stage(_Section):
    name: StageName
    model: str | None = Field(
        None, description="Name that its engines serve it under; the stage's where absent."
    )
    replicas: list[_Replica] = Field(min_length=1)
    threshold: float = Field(0.0, ge=0, le=1000)
    task: Task = Field("generate", description="What its models do; the same for all stages of a router.")
    group: Name | None = Field(None, description="Group, of `groups`, whose workers have all its models.")
    earlier_weight: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Weight of what the stages before a classifier said of the same input; 0: none.",
    )
    max_model_len: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1, description="Longest answer to a request that sets no limit.")
    balancing: Balancing = "least-outstanding"
    latency_max_s: Positive | None = Field(
        None, description="Within it answers are wanted, where balancing is earliest-finish or matching."
    )
    cost: float | None = Field(None, gt=0, description="Cost of a token, on any scale that all stages share.")
    usd_per_million_input_tokens: float | None = Field(
        None, ge=0, description="Price of what it reads, for keys' budgets."
    )
    usd_per_million_output_tokens: float | None = Field(None, ge=0, description="And of what it writes.")
    load: Positive | None = Field(
        None, description="Planned share of what all its replicas sustain; gears count what is lost by it."
    )
    planned_share: Positive | None = Field(
        None,
        description="Sum of the shares of the replicas that gears were planned for: borders grow with more. Default: "
        "of those listed.",
    )
    exits: list[_Exit] = Field(
        default_factory=list,
        max_length=4,
        description="Points, in order, at which a thinking model may answer early.",
    )
    ends_thinking: str = Field(
        ENDS_THINKING, max_length=1000, description="Text behind its thoughts that makes its model answer."
    )
    ends_answer: str | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="Text at which a trial answer ends, where its model would go on, e.g. a line's end.",
    )
    echoes: bool = Field(
        False,
        description="Whether its engines repeat the text they are told to go on from, as llama.cpp does.",
    )
    budget_field: str | None = Field(
        None,
        max_length=200,
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$",
        description="Field by which its engines bound thinking, e.g. thinking_token_budget (vLLM): exits are then "
        "budgets, chosen by foresight from the question alone.",
    )
    hedge: _Hedge | None = Field(None, description="A second request where the first is unusually slow.")
    passes_priority: bool = Field(False, description="Its engines schedule by priority.")
    skip_below: float | None = Field(
        None, ge=0, le=101, description="Pass it over where the question alone promises less; 101: always."
    )
    verifiers: list[VerifierFields] = Field(default_factory=list, max_length=32)
    verified: Literal["judge", "accept"] = "judge"
    on_overload: Literal["wait", "escalate"] = Field(
        "wait", description="Rule where all replicas are busy and a larger stage has room: wait, or go there."
    )


class _Mixture(_Section):
    share: float = Field(gt=0, lt=1, description="Share of the requests, in turn.")
    thresholds: dict[Name, Annotated[float, Field(ge=0, le=1000)]] = Field(
        description="Thresholds by stage, in place of its own."
    )
    skip_below: dict[Name, Annotated[float, Field(ge=0, le=101)]] = Field(
        default_factory=dict,
        description="Least qualities foreseen, by stage, in place of its own; 101: it is never asked.",
    )


class _UnderLoad(_Section):
    """Rule for requests that even the lightest gear's stages have no room for: they wait, or are refused."""

    then: WhenOverloaded = "queue"


class _Judge(JudgeFields):
    replicas: list[_Replica] = Field(default_factory=list)
    members: list["_Judge"] = Field(default_factory=list, max_length=8)


class _Foresight(_Section):
    replicas: list[_Replica] = Field(
        min_length=1, description="Addresses of `cascadia judge serve FORESIGHT`."
    )
    timeout_s: Positive = Field(2.0, description="Who is not told within it skips nothing.")


class _Keys(_Section):
    file: Path = Field(description="Made by `cascadia keys add`.")
    open: list[Annotated[str, Field(pattern=r"^/[\x21-\x7e]*$", max_length=200)]] = Field(
        default_factory=list
    )
    redis_url: str | None = Field(None, description="redis://host:port/0, where it holds no secret.")
    redis_url_env: str | None = None
    redis_url_file: Path | None = None
    redis_timeout_s: Positive = 0.1
    on_redis_failure: Literal["local", "refuse"] = "local"
    spend: Path | None = Field(
        None, description="Folder for what keys have spent, without Redis. Default: beside file."
    )


class _Admin(_Section):
    port: int | None = Field(None, ge=0, le=65535, description="Port of its own; the router's where absent.")
    host: str = "127.0.0.1"


class _Cors(_Section):
    allow_origins: list[Annotated[str, Field(pattern=_ORIGIN, max_length=300)]] = Field(
        min_length=1,
        description='Origins as browsers write them, e.g. https://chat.example.com; ["*"] for any.',
    )
    allow_methods: list[Literal["GET", "POST"]] = Field(["GET", "POST"], min_length=1)
    allow_headers: list[Annotated[str, Field(pattern=r"^[a-z0-9-]*\*?$", min_length=1, max_length=100)]] = (
        Field(
            default_factory=lambda: list(_CORS.allow_headers),
            description="Names in lower case; one that ends in * stands for all that begin so.",
        )
    )
    allow_credentials: bool = Field(False, description="Not with any origin.")
    max_age_s: int = Field(600, ge=0, le=86_400)


_NEVER_0 = frozenset(
    {
        *("connect_s", "first_byte_s", "idle_s", "total_s", "head_s", "body_s", "heartbeat_s"),
        *("max_body_bytes", "max_head_bytes", "max_answer_bytes", "max_held_bytes", "max_connections"),
        *("interval_s", "timeout_s", "resolve_s"),
    }
)
"""Limits at which, were they 0, nothing would come through, or that would be done without a pause."""


def _numbers(name: str, values: type[Limits] | type[Health]) -> type[_Section]:
    """A section with the fields and defaults of `values`, all of them numbers that are not negative."""
    members: dict[str, Any] = {}
    for field in fields(values):
        kind = int if isinstance(field.default, int) else float
        least = Field(gt=0) if field.name in _NEVER_0 else Field(ge=0)
        members[field.name] = (Annotated[kind, least], field.default)
    return create_model(name, __base__=_Section, **members)


class _File(_Section):
    stages: list[_Stage] = Field(min_length=1, description="Stages, from small to large.")
    judge: _Judge | None = None
    foresight: _Foresight | None = Field(None, description="Asked for `skip_below` in the judge's stead.")
    names: list[StageName] = Field(
        default_factory=list,
        description="What clients call the stages, from small to large; one without engines is the next larger's.",
    )
    mixture: _Mixture | None = Field(None, description="Other thresholds for a share of the requests.")
    gears: list[GearSection] = Field(
        default_factory=list,
        max_length=64,
        description="Settings for rising load, the heaviest first; without any the stages' own serves all of it.",
    )
    groups: list[GroupSection] = Field(
        default_factory=list,
        max_length=64,
        description="One-pass models on the same workers, which are sent batches, one at a time.",
    )
    exits: _ExitPromise | None = Field(
        None, description="Promise by which stages' exits are certified; none where absent: all are in force."
    )
    under_load: _UnderLoad = _UnderLoad()
    cost_unit: CostUnit | None = Field(None, description="Unit of the stages' cost; any where absent.")
    planned: PlannedSection | None = Field(
        None, description="What the plan predicts; the page sets it beside what is measured."
    )
    cascade: Name = CASCADE
    conversations: _Conversations = _Conversations()
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    page: bool = Field(True, description="Whether /ui is served.")
    playground: bool = Field(
        True,
        description="Whether the page asks the cascade, and a request with `x-cascadia-explain: 1` gets each stage's "
        "answer; both need a key as any request does.",
    )
    tracing: TracingSection | None = None
    samples: SamplesSection | None = None
    shadow: ShadowSection | None = None
    keys: _Keys | None = None
    admin: _Admin | None = None
    cors: _Cors | None = Field(None, description="Pages of other origins that may ask from a browser.")
    watch_s: float = Field(1.0, ge=0, le=3600)
    revision: str = Field(
        "", max_length=100, description="Name of this version of the file: /ready says which is in force."
    )
    limits: _numbers("limits", Limits) = Field(default_factory=dict, validate_default=True)  # type: ignore[valid-type]
    health: _numbers("health", Health) = Field(default_factory=dict, validate_default=True)  # type: ignore[valid-type]


def settings_schema() -> dict[str, Any]:
    """The JSON schema of `router.yaml`."""
    return _File.model_json_schema()


def read_settings(path: Path, environment: Mapping[str, str] = os.environ) -> RouterSettings:
    """Raises `BadInput`, naming the key."""
    where = str(path)
    document = parse_yaml(read_text(path, MAX_BYTES), where)
    refuse_other(document, "router", where)
    try:
        found = _File.model_validate(document)
    except ValidationError as error:
        raise bad_input(error, _File, where) from None
    secrets = Secrets(path.parent, environment)
    told = found.exits
    if told is not None and not any(stage.exits for stage in found.stages):
        raise BadInput(
            f"{where}: exits",
            "promises something of exits, and no stage has any",
            "leave it out, or list exits: [{thinking_tokens: 512, threshold: 80}] of a stage",
        )
    promise = None if told is None else ExitPromise(told.risk, told.confidence, told.shadow)
    stages = tuple(
        replace(_stage(where, i, stage, secrets, found.cost_unit), promise=promise)
        for i, stage in enumerate(found.stages)
    )
    judge = found.judge
    keys = None if found.keys is None else _keys(where, found.keys, secrets)
    settings = RouterSettings(
        stages=stages,
        judge=None if judge is None else _judge(f"{where}: judge", judge, secrets),
        foresight=None if found.foresight is None else _foresight(where, found.foresight, secrets),
        names=_names(where, found.names, stages),
        mixture=None if found.mixture is None else MixtureSettings(**found.mixture.model_dump()),
        gears=gears_of([gear.model_dump() for gear in found.gears]),
        groups=groups_of(found.groups, stages, path.parent, where),
        when_overloaded=found.under_load.then,
        cost_unit=found.cost_unit,
        planned=None if found.planned is None else planned_of(found.planned.model_dump()),
        cascade=found.cascade,
        conversations=ConversationSettings(**found.conversations.model_dump()),
        limits=Limits(**found.limits.model_dump()),
        health=Health(**found.health.model_dump()),
        host=found.host,
        port=found.port,
        page=found.page,
        playground=found.playground,
        tracing=found.tracing.settings() if found.tracing else None,
        samples=found.samples.settings(f"{where}: samples", secrets) if found.samples else None,
        shadow=found.shadow.settings() if found.shadow else ShadowSettings(),
        keys=keys,
        admin=None if found.admin is None else AdminSettings(found.admin.port, found.admin.host),
        cors=None if found.cors is None else _cors(where, found.cors),
        exit_states=secrets.path(Path(EXIT_STATES if told is None else told.state)),
        watch_s=found.watch_s,
        revision=found.revision,
        files=(path, *secrets.files),
    )
    check_settings(settings, where)
    return settings


def _cors(where: str, cors: _Cors) -> CorsSettings:
    """Raises `BadInput` where any page might ask with what a browser keeps for this router."""
    if "*" in cors.allow_origins and len(cors.allow_origins) > 1:
        raise BadInput(
            f"{where}: cors.allow_origins", "names others beside *", 'write ["*"] alone, or origins'
        )
    if "*" in cors.allow_origins and cors.allow_credentials:
        raise BadInput(
            f"{where}: cors.allow_credentials",
            "would let any page in",
            "name the origins, or set it to false",
        )
    return CorsSettings(
        tuple(cors.allow_origins),
        tuple(cors.allow_methods),
        tuple(cors.allow_headers),
        cors.allow_credentials,
        cors.max_age_s,
    )


def _names(where: str, names: Sequence[str], stages: Sequence[StageSettings]) -> tuple[str, ...]:
    """Raises `BadInput` where `names` are not those of the stages, in their order, and others."""
    deployed = [stage.name for stage in stages]
    if not names:
        return tuple(deployed)
    if [name for name in names if name in deployed] != deployed:
        raise BadInput(
            f"{where}: names",
            "lack a stage, or have another order",
            f"name {', '.join(deployed)} in this order",
        )
    return tuple(names)


def check_settings(settings: RouterSettings, where: str) -> None:
    """Checks what must hold between the parts. Raises `BadInput`."""
    if settings.admin is not None and settings.keys is None:
        raise BadInput(f"{where}: admin", "needs keys, or anyone could use it", "add keys: {file: keys.json}")
    names = [stage.name for stage in settings.stages]
    for i, name in enumerate(names):
        if name in names[:i] or name in (settings.cascade, JUDGE, FORESIGHT):
            raise BadInput(
                f"{where}: stages[{i}].name", f"{name!r} is taken", "give each stage a name of its own"
            )
    _check_tasks(settings, where)
    _check_mixture(settings, where)
    check_gears(settings, where)
    check_groups(settings, where)
    if _needs_scores(settings) and settings.judge is None:
        raise BadInput(
            f"{where}: judge",
            "is missing, and a threshold needs scores",
            "add a judge, e.g. of kind llm or certainty",
        )
    if settings.shadow.ratio and settings.samples is None:
        raise BadInput(
            f"{where}: shadow", "has nowhere to write to", "add samples: {folder: samples}, or set ratio: 0"
        )
    if settings.shadow.ratio and settings.judge is None:
        raise BadInput(f"{where}: shadow", "has no judge whose scores it could write", "add a judge")
    judge = settings.judge
    if judge is not None and judge.kind in ("llm", "embedding") and judge.stage is None:
        raise BadInput(f"{where}: judge.replicas", "is empty", "name the addresses of the judge's engine")
    for i, stage in enumerate(settings.stages):
        at = f"{where}: stages[{i}]"
        if stage.verifiers and not 0 < stage.threshold <= 100 and stage is not settings.stages[-1]:
            raise BadInput(f"{at}.threshold", "decides alone", "set it above 0 and up to 100 for verifiers")
        names = [replica.url for replica in stage.replicas if replica.resolve]
        if len(set(names)) < len(names):
            raise BadInput(
                f"{at}.replicas", "resolve one name twice", "name it once: share is of each address"
            )
        if stage.verified == "accept" and not stage.verifiers:
            raise BadInput(f"{at}.verified", "has no verifiers", "list some")
        _check_exits(settings, stage, at)
        least = [stage.skip_below, *(gear.skip_below.get(stage.name) or None for gear in settings.gears)]
        looks = any(level is not None and level < ASKS_NONE for level in least)
        if looks and settings.foresight is None and not _foresees(judge):
            raise BadInput(
                f"{at}.skip_below",
                "needs foresight, or a judge of kind embedding or probe",
                "add foresight: {replicas: [...]}, or leave it out",
            )


def _check_exits(settings: RouterSettings, stage: StageSettings, where: str) -> None:
    """Raises `BadInput` where nobody could choose one of the stage's budgets, or say where a trial is made."""
    told = next((n for n, each in enumerate(stage.exits) if each.foreseen is not None), None)
    if told is not None:
        at = f"{where}.exits[{told}].foreseen"
        if stage.budget_field is not None:
            raise BadInput(at, "is of trials, and budgets have none", "leave it out, or budget_field")
        if stage.exits[told].last:
            raise BadInput(at, "has no effect: everybody leaves at the last", "leave it out")
        _check_foresight(settings, at)
    if stage.budget_field is None:
        return
    if not stage.exits:
        raise BadInput(
            f"{where}.budget_field", "has no exits", "list exits: [{thinking_tokens: 512, threshold: 95}]"
        )
    if stage.exits[-1].last:
        raise BadInput(
            f"{where}.exits", "are budgets, none of which is the last", "write threshold: 0 in its stead"
        )
    if not stage.exits[0].thinking_tokens:
        raise BadInput(
            f"{where}.exits[0].thinking_tokens",
            "is no budget at 0",
            "write 1 or more, or leave out budget_field",
        )
    _check_foresight(settings, f"{where}.budget_field")


def _check_foresight(settings: RouterSettings, where: str) -> None:
    if settings.foresight is None and not _foresees(settings.judge, ("embedding",)):
        raise BadInput(
            where,
            "needs foresight, or a judge of kind embedding",
            "add foresight: {replicas: [...]}, or leave it out",
        )


def _check_tasks(settings: RouterSettings, where: str) -> None:
    """Raises `BadInput` where stages do different things, or what answers in one pass has what is for texts."""
    task = settings.task
    for i, stage in enumerate(settings.stages):
        at = f"{where}: stages[{i}]"
        if stage.task != task:
            raise BadInput(
                f"{at}.task",
                f"is {stage.task}, and that of {settings.stages[0].name} is {task}",
                "serve each task by a router of its own",
            )
        if task != "generate" and (stage.verifiers or stage.skip_below is not None):
            raise BadInput(
                at, f"has task {task} and what reads a written answer", "leave out verifiers and skip_below"
            )
        if task != "generate" and stage.exits:
            raise BadInput(
                f"{at}.exits",
                f"are of models that think, and its task is {task}",
                "leave them out: `cascadia engine serve --exits` lets inputs out at ramps",
            )
        if stage.earlier_weight and (i == 0 or task != "classify"):
            raise BadInput(
                f"{at}.earlier_weight",
                "has nothing to weigh: no classifier was asked before it",
                "leave it out, or give it to a later stage that classifies",
            )
    for name, given in (("judge", settings.judge), ("foresight", settings.foresight)):
        if task != "generate" and given is not None:
            raise BadInput(
                f"{where}: {name}", f"is of no use: models that {task} say how sure they are", "leave it out"
            )


def _needs_scores(settings: RouterSettings) -> bool:
    """Tells whether some threshold, of stages, exits, mixture or gears, asks for a judge's score."""
    if settings.task != "generate":
        return False
    tries = [stage for stage in settings.stages if stage.budget_field is None or stage.promise is not None]
    if any(not each.last for stage in tries for each in stage.exits):
        return True
    others = [settings.mixture.thresholds] if settings.mixture is not None else []
    others += [gear.thresholds for gear in settings.gears]
    return any(
        any(0 < level <= 100 for level in (stage.threshold, *(told.get(stage.name, 0.0) for told in others)))
        and stage.verified == "judge"
        for stage in settings.stages[:-1]
    )


def _check_mixture(settings: RouterSettings, where: str) -> None:
    """Raises `BadInput` where it names a stage that is not there, or would look at the question."""
    mixture = settings.mixture
    if mixture is None:
        return
    names = [stage.name for stage in settings.stages]
    for key, told in (("thresholds", mixture.thresholds), ("skip_below", mixture.skip_below)):
        for name, value in told.items():
            at = f"{where}: mixture.{key}.{name}"
            if name not in names:
                raise BadInput(at, "no such stage", f"there are {', '.join(names)}")
            if key == "skip_below" and value not in (0.0, ASKS_NONE):
                raise BadInput(at, f"is {value:g}", "write 0, or 101 to ask it never")


def _foresees(judge: JudgeSettings | None, kinds: tuple[str, ...] = ("embedding", "probe")) -> bool:
    if judge is None:
        return False
    return judge.kind in kinds or any(_foresees(member, kinds) for member in judge.members)


def check_url(url: str, where: str) -> str:
    """An engine's address, less a trailing slash or `/v1`. Raises `BadInput`."""
    try:
        return api_root(url)
    except ValueError as error:
        raise BadInput(where, str(error), "write e.g. http://127.0.0.1:8100") from None


def _exits(where: str, exits: list[_Exit]) -> tuple[ExitSettings, ...]:
    tokens = [each.thinking_tokens for each in exits]
    if tokens != sorted(set(tokens)) or any(each.last for each in exits[:-1]):
        raise BadInput(
            where, "are not in order", "list each once, by rising thinking_tokens; only the end may be last"
        )
    return tuple(
        ExitSettings(each.thinking_tokens, each.threshold, each.last, each.foreseen) for each in exits
    )


def _stage(where: str, index: int, stage: _Stage, secrets: Secrets, unit: CostUnit | None) -> StageSettings:
    at = f"{where}: stages[{index}].replicas"
    return StageSettings(
        name=stage.name,
        model=stage.model or stage.name,
        replicas=_replicas(at, stage.replicas, secrets),
        threshold=stage.threshold,
        task=stage.task,
        group=stage.group,
        earlier_weight=stage.earlier_weight,
        max_model_len=stage.max_model_len,
        max_tokens=stage.max_tokens,
        balancing=stage.balancing,
        latency_max_s=stage.latency_max_s,
        cost=stage.cost,
        price=_price(f"{where}: stages[{index}]", stage, unit),
        load=stage.load,
        planned_share=stage.planned_share,
        hedge=HedgeSettings(stage.hedge.quantile, stage.hedge.ratio) if stage.hedge else None,
        passes_priority=stage.passes_priority,
        skip_below=stage.skip_below,
        exits=_exits(f"{where}: stages[{index}].exits", stage.exits),
        ends_thinking=stage.ends_thinking,
        ends_answer=stage.ends_answer,
        echoes=stage.echoes,
        budget_field=stage.budget_field,
        on_overload=stage.on_overload,
        verifiers=tuple(
            verifier.verifier(f"{where}: stages[{index}].verifiers[{i}]")
            for i, verifier in enumerate(stage.verifiers)
        ),
        verified=stage.verified,
    )


def _price(where: str, stage: _Stage, unit: CostUnit | None) -> tuple[float, float] | None:
    """The stage's one `cost` where that is in dollars and no other is given. Raises `BadInput` where one of the two is
    missing."""
    read, wrote = stage.usd_per_million_input_tokens, stage.usd_per_million_output_tokens
    if read is None and wrote is None:
        return None if unit is None or stage.cost is None else (stage.cost, stage.cost)
    if read is None or wrote is None:
        missing = "usd_per_million_input_tokens" if read is None else "usd_per_million_output_tokens"
        raise BadInput(f"{where}.{missing}", "is missing beside the other price", "write both, or none")
    return read, wrote


def _foresight(where: str, foresight: _Foresight, secrets: Secrets) -> JudgeSettings:
    replicas = _replicas(f"{where}: foresight.replicas", foresight.replicas, secrets)
    return foresight_at(replicas, foresight.timeout_s)


def foresight_at(replicas: tuple[ReplicaSettings, ...], timeout_s: float = 2.0) -> JudgeSettings:
    return JudgeSettings("embedding", StageSettings(FORESIGHT, FORESIGHT, replicas), timeout_s=timeout_s)


def _keys(where: str, keys: _Keys, secrets: Secrets) -> KeySettings:
    at = f"{where}: keys"
    return KeySettings(
        file=secrets.path(keys.file),
        open=tuple(keys.open),
        redis_url=redis_url_of(secrets, at, keys.redis_url, keys.redis_url_env, keys.redis_url_file),
        redis_timeout_s=keys.redis_timeout_s,
        on_redis_failure=keys.on_redis_failure,
        spend=None if keys.spend is None else secrets.path(keys.spend),
    )


def redis_url_of(
    secrets: Secrets, where: str, given: str | None, variable: str | None, file: Path | None
) -> str | None:
    """An address that may hold a password, so it is never shown. Raises `BadInput`."""
    url = secrets.one(where, "redis_url", variable, file)
    if url is not None and given is not None:
        raise BadInput(f"{where}.redis_url", "is given in two ways", "keep one of them")
    url = url or given
    if url is not None and urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        raise BadInput(
            f"{where}.redis_url", "is no address of a Redis", "write e.g. redis://127.0.0.1:6379/0"
        )
    return url


def _judge(where: str, judge: _Judge, secrets: Secrets, name: str = JUDGE) -> JudgeSettings:
    stage = None
    if judge.replicas:
        replicas = _replicas(f"{where}.replicas", judge.replicas, secrets)
        stage = StageSettings(name, judge.model or JUDGE, replicas)
    members = [
        _judge(f"{where}.members[{i}]", member, secrets, f"{JUDGE}-{i}")
        for i, member in enumerate(judge.members)
    ]
    return judge.settings(where, stage, members)


def _replicas(where: str, replicas: list[_Replica], secrets: Secrets) -> tuple[ReplicaSettings, ...]:
    """Raises `BadInput` where one is there twice: it would be sent twice what it takes, and drained by half."""
    found = tuple(
        ReplicaSettings(
            url=check_url(replica.url, f"{where}[{i}].url"),
            share=replica.share,
            max_concurrency=replica.max_concurrency,
            health_path=replica.health_path,
            api_key=secrets.one(f"{where}[{i}]", "api_key", replica.api_key_env, replica.api_key_file),
            resolve=replica.resolve,
            kind=replica.kind,
            latency=_line(replica.latency),
            planned=replica.planned,
            requests_per_minute=replica.requests_per_minute,
        )
        for i, replica in enumerate(replicas)
    )
    # An API may be asked with several keys, each with a rate of its own.
    own = [(each.url, each.api_key) for each in found if not each.resolve]
    for i, one in enumerate(own):
        if one in own[:i]:
            raise BadInput(
                where, f"name {one[0]} twice", "name it once: share and max_concurrency say how much it takes"
            )
    return found


def _line(latency: _Latency | None) -> tuple[float, float, float, float] | None:
    return None if latency is None else (latency.base_s, latency.read_s, latency.step_s, latency.load_s)
