"""The parts of a spec that name models: stages and the judge, with the settings of their engines."""

from math import isnan
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from cascadia.domain.names import LONGEST_NAME, NAME, name_fault
from cascadia.domain.problem import Engine
from cascadia.files.addresses import api_root
from cascadia.files.written import written_number
from cascadia_sim.iteration.engine_config import LLAMA_CPP, TRTLLM

Positive = Annotated[int, Field(ge=1, le=2**31)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
Usd = Annotated[float, Field(ge=0, le=1e6)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME)]


def _of_the_users(name: str) -> str:
    if (fault := name_fault(name)) is not None:
        raise ValueError(fault)
    return name


StageName = Annotated[Name, AfterValidator(_of_the_users)]
"""Of a stage or a group: what `model` names in the OpenAI API."""


def _asked(url: str) -> str:
    try:
        return api_root(url)
    except ValueError:
        raise ValueError(
            f"{url!r} is no address that a router can ask; write e.g. https://api.example.com/v1"
        ) from None


Address = Annotated[Text, AfterValidator(_asked)]
Quantization = Literal[
    "fp8", "awq-int4", "gptq-int4", "int8", "int4-experts", "mxfp4", "nvfp4", "nvfp4-experts",
    "f16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_1", "q4_0",
]  # fmt: skip
GGUF = ("f16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_1", "q4_0")
"""What llama.cpp reads, and nobody else."""
LLAMA_CPP_LIMITS = {"max_num_seqs": 4, "max_num_batched_tokens": 2048}
"""Its slots and tokens an iteration where a spec names none."""


class Section(BaseModel):
    """A mapping of the spec: unknown keys, silent conversions and NaN are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


_NOT_LLAMA_CPP = {
    "enable_chunked_prefill",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "enable_expert_parallel",
    "attention_dp",
    "prefix_caching",
}


def share(text: str) -> float:
    """`3%` or `0.03` as a share of 1. Raises `ValueError`."""
    percent = text.strip().endswith("%")
    value = written_number(text.strip().removesuffix("%"))
    if isnan(value):
        raise ValueError(f"{text!r} is neither a percentage such as 3% nor a number such as 0.03")
    return value / 100 if percent else value


class EngineOptions(Section):
    engine: Engine = Field(
        "vllm",
        description=(
            "Serving engine. `trtllm` is TensorRT-LLM, on replicas within a node; `llama.cpp` runs on one GPU, or one "
            "core, a replica."
        ),
    )
    quantization: Quantization | None = Field(
        None,
        description=(
            "Weight format; the checkpoint's own where absent. `f16` and the `q` formats are GGUF's, which "
            "`llama.cpp` needs one of."
        ),
    )
    weights: Text | None = Field(
        None,
        description=(
            "What the engine loads, where that is not `model` itself: a Hugging Face id, a folder, or, for "
            "`llama.cpp`, a `.gguf` file or an id such as `owner/name-GGUF:Q4_K_M`."
        ),
    )
    max_num_seqs: Positive = Field(
        256,
        description="Most sequences in a batch of one replica; for `llama.cpp`, its slots, 4 where absent.",
    )
    max_num_batched_tokens: Positive = Field(
        8192,
        description=(
            "Most tokens in one iteration. Where absent, the planner chooses among 512 to 16384; without chunked "
            "prefill 8192, for `llama.cpp` 2048."
        ),
    )
    enable_chunked_prefill: bool = Field(True, description="Mix chunks of prefill with decoding.")
    gpu_memory_utilization: float = Field(
        0.9, gt=0, le=1, description="Share of each GPU's memory for weights and KV cache (0-1)."
    )
    kv_cache_dtype: Literal["auto", "fp8"] = Field(
        "auto", description="KV cache precision; `auto` is 16 bit."
    )
    prefix_cache_hit_rate: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "Share of a request's `prefix_tokens` found in the prefix cache (0-1). Where absent and the trace "
            "has `hash_ids` or `session_id`, the caches are simulated."
        ),
    )
    prefix_caching: bool = Field(True, description="Whether the engine keeps prefixes of prompts.")
    enable_expert_parallel: bool = Field(
        False, description="Spread a mixture's experts over the GPUs whole, in place of a slice of each."
    )
    attention_dp: Annotated[int, Field(ge=1, le=64)] = Field(
        1,
        description=(
            "Ranks of the tensor-parallel GPUs that attend to requests of their own; they need no more GPUs. "
            "`max_num_seqs` and `max_num_batched_tokens` are then those of a rank."
        ),
    )
    max_model_len: Positive | None = Field(
        None, description="Longest context served, in tokens; the model's own limit where absent."
    )
    calibration: Text | None = Field(
        None,
        description=(
            "Path of what `cascadia profile latency` measured on this engine; holds on pools of its GPU. The "
            "bundled catalogue's where absent."
        ),
    )

    @model_validator(mode="after")
    def _of_its_engine(self) -> "EngineOptions":
        if self.engine == LLAMA_CPP:
            if self.quantization not in GGUF:
                raise ValueError(f"llama.cpp reads GGUF files; write quantization: one of {', '.join(GGUF)}")
            for name in sorted(_NOT_LLAMA_CPP & self.model_fields_set):
                raise ValueError(f"{name} has no effect on llama.cpp; remove it")
        elif self.engine == TRTLLM and (unknown := self._not_trtllm()):
            raise ValueError(
                f"{unknown} is no flag of trtllm-serve 1.2, which wants a file for it; remove it, or use vllm or sglang"
            )
        if self.engine != LLAMA_CPP and self.quantization in GGUF:
            raise ValueError(f"{self.quantization} is a format of llama.cpp; write engine: llama.cpp")
        return self

    @model_validator(mode="after")
    def _a_token_for_each_sequence(self) -> "EngineOptions":
        usual = LLAMA_CPP_LIMITS if self.engine == LLAMA_CPP else {}
        tokens, sequences = (
            getattr(self, name) if name in self.model_fields_set else usual.get(name, getattr(self, name))
            for name in ("max_num_batched_tokens", "max_num_seqs")
        )
        if tokens < sequences:
            raise ValueError(
                f"max_num_batched_tokens {tokens} is below max_num_seqs {sequences}, which engines refuse;"
                f" write at least {sequences}, or max_num_seqs: {tokens}"
            )
        return self

    def _not_trtllm(self) -> str | None:
        """Option that TensorRT-LLM takes from a file alone."""
        if self.kv_cache_dtype != "auto":
            return "kv_cache_dtype"
        if self.attention_dp > 1:
            return "attention_dp"
        return None if self.prefix_caching else "prefix_caching"


class SpeculationSpec(Section):
    """Speculative decoding: tokens are drafted, and one pass of the model checks them."""

    method: Literal["ngram", "draft_model", "eagle3", "mtp"] = Field(
        description=(
            "What drafts: `ngram` the text so far, `draft_model` a small model, `eagle3` a trained "
            "layer, `mtp` the model's own."
        )
    )
    tokens: Annotated[int, Field(ge=1, le=16)] = Field(
        description="Most tokens drafted for a sequence in an iteration; fewer, or none, where they do not pay."
    )
    acceptance: Annotated[float, Field(ge=0, lt=1)] = Field(
        description=(
            "Measured probability that a drafted token is right where those before it were (0 to below 1): mean "
            "accepted length n with k drafts solves n = (1 - a^(k+1)) / (1 - a)."
        )
    )
    model: Text | None = Field(
        None,
        description=(
            "Model that drafts (`draft_model`), named as a stage's; or the layer that the engine loads (`eagle3`)."
        ),
    )

    @model_validator(mode="after")
    def _has_its_draft(self) -> "SpeculationSpec":
        if self.method in ("draft_model", "eagle3") and self.model is None:
            raise ValueError(f"{self.method} needs model: what drafts; add it, or write method: ngram")
        if self.method in ("ngram", "mtp") and self.model is not None:
            raise ValueError(f"model has no effect on method {self.method}; remove it")
        return self


class ApiLatency(Section):
    """Times of somebody else's API: medians, and where they are known 95th percentiles."""

    ttft_s: Seconds | None = Field(None, description="Median time to the first token.")
    tpot_s: Seconds | None = Field(None, description="Median time per output token after it.")
    ttft_p95_s: Seconds | None = Field(
        None, description="95th percentile of the former; the median where absent."
    )
    tpot_p95_s: Seconds | None = Field(
        None, description="95th percentile of the latter; the median where absent."
    )
    table: Text | None = Field(
        None,
        description="Instead: a CSV, Parquet or JSONL file of measured answers, with `ttft_s` and `tpot_s`.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> "ApiLatency":
        if self.table is not None:
            if len(self.model_fields_set) > 1:
                raise ValueError("table and figures contradict each other; keep one of them")
            return self
        if self.ttft_s is None or self.tpot_s is None:
            raise ValueError("needs ttft_s and tpot_s, or a table")
        for name in ("ttft", "tpot"):
            p50, p95 = getattr(self, f"{name}_s"), getattr(self, f"{name}_p95_s")
            if p95 is not None and p95 < p50:
                raise ValueError(f"{name}_s {p50:g} is above {name}_p95_s {p95:g}; swap them")
        return self


_EXTERNAL_ONLY = (
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
    "requests_per_minute",
    "latency",
    "base_url",
    "api_key_env",
)


class ExitPromiseSpec(Section):
    """Promise by which exits at trained ramps are in force."""

    risk: float = Field(
        0.01, gt=0, lt=1, description="Share of answers that may differ from the whole's, e.g. `1%`."
    )
    confidence: float = Field(0.9, gt=0, lt=1, description="Probability with which that is kept.")
    shadow: float = Field(
        0.1, ge=0, le=1, description="Share of the inputs that run to the end, as evidence, e.g. `10%`."
    )
    ramp_budget: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Share of a pass's time that ramps may add, e.g. `2%`; kept where these are trained.",
    )

    @field_validator("risk", "shadow", "ramp_budget", mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        return share(value) if isinstance(value, str) else value

    @property
    def notes(self) -> tuple[str, ...]:
        """What a plan leaves to others, in words."""
        if self.ramp_budget is None:
            return ()
        to = f"`--ramp-budget {self.ramp_budget:g}` of `cascadia exits train` and `tune`"
        return (f"exits.ramp_budget is for whoever trains ramps ({to}); it changes nothing in a plan",)


BUDGET_FIELDS = {
    "vllm": "thinking_token_budget",
    "sglang": "custom_params.thinking_budget",
    LLAMA_CPP: "thinking_budget_tokens",
}
"""By engine: the field of a request that ends its thinking after so many tokens."""


class ExitSpec(Section):
    """A point at which a stage may answer early."""

    thinking_tokens: int = Field(
        ge=0,
        le=2**31,
        description="After so many tokens of its thinking; 0: before any. The quality table has rows "
        "`<stage>@<tokens>`.",
    )
    foreseen: Annotated[float, Field(gt=0, le=100)] | None = Field(
        None,
        description="A trial is written only where `quality.foresight` promises so much: 100 less the points that "
        "thinking on adds. Default: always.",
    )

    @model_validator(mode="before")
    @classmethod
    def _not_at_layers(cls, value: object) -> object:
        if isinstance(value, dict) and "layer" in value:
            raise ValueError(
                "no engine that writes text lets an answer out behind a layer; write thinking_tokens; `layer` is of "
                "models that answer in one pass (`cascadia schema policy`)"
            )
        return value


class StageSpec(EngineOptions):
    """One model of the cascade."""

    task: Literal["generate"] = Field(
        "generate",
        description="What it does. Stages that all `classify` or `rerank` are another spec: `cascadia schema policy`.",
    )
    name: StageName = Field(description="What clients ask for; letters, digits, `._/-`.")
    model: Text = Field(
        description=(
            "Hugging Face id of the bundled catalogue, or a path to a `config.json`; of an external stage, what its "
            "API calls it."
        )
    )
    balancing: Literal["least-outstanding", "earliest-finish", "matching"] = Field(
        "least-outstanding",
        description=(
            "Which replica gets a request: `least-outstanding`, the one with the fewest tokens in hand for its share; "
            "`earliest-finish`, by learnt times and lengths; `matching`, where requests also wait for the one that "
            "suits them."
        ),
    )
    max_tokens: Positive | None = Field(
        None,
        description=(
            "Longest answer, in tokens, to a request that sets no limit; the engine's own where absent."
        ),
    )
    speculation: SpeculationSpec | None = Field(
        None, description="Speculative decoding, for `vllm` and `sglang`; none where absent."
    )
    exits: Annotated[tuple[ExitSpec, ...], Field(strict=False, max_length=4)] = Field(
        (),
        description=(
            "Points, in order, at which the stage may answer before it has thought to the end. Default: none."
        ),
    )
    exits_by: Literal["answer", "question"] = Field(
        "answer",
        description=(
            "What decides at exits: each one's trial answer, scored; or the `question` alone, by `quality.foresight`."
        ),
    )
    placement: Literal["self-hosted", "external"] = Field(
        "self-hosted", description="On GPUs of this cluster, or behind somebody else's API."
    )
    usd_per_million_input_tokens: Usd | None = Field(None, description="Price of an external stage's input.")
    usd_per_million_output_tokens: Usd | None = Field(
        None, description="Price of an external stage's output."
    )
    requests_per_minute: Positive | None = Field(
        None, description="Limit of an external stage's API; none where absent."
    )
    latency: ApiLatency | None = Field(None, description="Times of an external stage; needed there.")
    base_url: Address | None = Field(
        None, description="Address of an external stage's API, with or without `/v1`; the router needs it."
    )
    api_key_env: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$",
        description="Environment variable that holds the API's key.",
    )

    @model_validator(mode="after")
    def _exits_in_order(self) -> "StageSpec":
        tokens = [each.thinking_tokens for each in self.exits]
        if tokens != sorted(set(tokens)):
            raise ValueError(
                f"exits at {', '.join(map(str, tokens))} tokens are not in order; list each once, rising"
            )
        if self.exits_by == "question" and not self.exits:
            raise ValueError("exits_by is question, and there are no exits; list some, or leave it out")
        if self.exits_by == "question" and any(each.foreseen is not None for each in self.exits):
            raise ValueError("exits_by is question, and foreseen is of trials; leave out one of them")
        if self.exits_by == "question" and self.exits[0].thinking_tokens == 0:
            raise ValueError("exits_by is question, and no engine is told of a budget of 0; write 1 or more")
        if self.exits_by == "question" and (self.placement == "external" or self.engine not in BUDGET_FIELDS):
            told = "an external API" if self.placement == "external" else self.engine
            raise ValueError(
                f"exits_by is question, and {told} has no field for a budget that is known here; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _external_or_not(self) -> "StageSpec":
        given = self.model_fields_set
        if self.speculation is not None and self.engine in (LLAMA_CPP, TRTLLM):
            raise ValueError(
                f"speculation is not planned for {self.engine}; remove it, or use vllm or sglang"
            )
        drafts = None if self.speculation is None else self.speculation.method
        if drafts in ("ngram", "draft_model") and self.engine == "sglang" and self.attention_dp > 1:
            raise ValueError(
                f"sglang does not start with attention_dp and speculation by {drafts}; remove one, or use eagle3 or mtp"
            )
        if self.placement == "self-hosted":
            if (name := next((n for n in _EXTERNAL_ONLY if n in given), None)) is not None:
                raise ValueError(
                    f"{name} has no effect on a stage on GPUs; remove it, or write placement: external"
                )
            return self
        unused = (*(n for n in EngineOptions.model_fields if n != "max_model_len"), "speculation")
        if (name := next((n for n in unused if n in given), None)) is not None:
            raise ValueError(f"{name} has no effect on a stage that is external; remove it")
        needed = ("usd_per_million_input_tokens", "usd_per_million_output_tokens", "latency")
        if (name := next((n for n in needed if getattr(self, n) is None), None)) is not None:
            raise ValueError(f"an external stage needs {name}; add it")
        return self


# Fields of a judge that only some kinds use, and which.
_USED_BY = {
    "model": {"self-hosted", "external", "embedding", "probe"},
    "prompt_tokens": {"self-hosted", "external"},
    "output_tokens": {"self-hosted", "external"},
    "exits": {"embedding"},
    "latency_p50_s": {"external", "embedding", "probe", "certainty"},
    "latency_p95_s": {"external", "embedding", "probe", "certainty"},
    "usd_per_million_input_tokens": {"external"},
    "usd_per_million_output_tokens": {"external"},
} | {name: {"self-hosted"} for name in EngineOptions.model_fields}


class JudgeSpec(EngineOptions):
    """Judge that scores an answer at a gate."""

    kind: Literal["llm", "external", "embedding", "probe", "certainty"] = Field(
        description=(
            "`llm` asks a model for a score; `external` is short for an llm elsewhere; `embedding` and `certainty` "
            "take no GPU; `probe` reads the engine's own hidden states."
        )
    )
    model: Text | None = Field(
        None,
        description=(
            "The judge's model; needed where self-hosted. Of an `embedding` judge or a `probe` the file that `cascadia "
            "judge train` wrote, which `cascadia up` serves."
        ),
    )
    placement: Literal["self-hosted", "external"] | None = Field(
        None,
        description="Place of an llm judge: on GPUs of this cluster (default) or behind someone else's API.",
    )
    latency_p50_s: Seconds | None = Field(None, description="Median time of a verdict not self-hosted.")
    latency_p95_s: Seconds | None = Field(None, description="95th percentile of the same.")
    usd_per_million_input_tokens: Usd = Field(0.0, description="Price of an external judge's input.")
    usd_per_million_output_tokens: Usd = Field(0.0, description="Price of an external judge's output.")
    prompt_tokens: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Tokens of the judge's instructions, beside question and answer; ours where absent.",
    )
    output_tokens: Positive = Field(1, description="Length of a verdict in tokens.")
    exits: ExitPromiseSpec | None = Field(
        None,
        description=(
            "Early verdicts of an `embedding` judge, at the ramp that `cascadia judge train-exits` has put beside its "
            "file; plans count whole verdicts. Default: none."
        ),
    )

    @property
    def runs(self) -> Literal["self-hosted", "external", "embedding", "probe", "certainty"]:
        """Place where verdicts are made: the one word that decides which of the fields are used."""
        if self.kind == "llm":
            return self.placement or "self-hosted"
        return self.kind

    @model_validator(mode="after")
    def _consistent(self) -> "JudgeSpec":
        if self.placement and self.kind != "llm" and self.placement != self.kind:
            raise ValueError(
                f"kind {self.kind} and placement {self.placement} contradict each other; remove placement"
            )
        if self.runs == "self-hosted" and self.model is None:
            raise ValueError("a self-hosted llm judge has no model; add `model: <Hugging Face id>`")
        for name in sorted(self.model_fields_set):
            if self.runs not in _USED_BY.get(name, {self.runs}):
                raise ValueError(f"{name} has no effect on a judge that is {self.runs}; remove it")
        p50, p95 = self.latency_p50_s, self.latency_p95_s
        if (p50 is None) != (p95 is None):
            raise ValueError("latency_p50_s and latency_p95_s belong together; give both or neither")
        if p50 is not None and p95 is not None and p50 > p95:
            raise ValueError(f"latency_p50_s {p50:g} is above latency_p95_s {p95:g}; swap them")
        return self
