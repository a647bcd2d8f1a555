import json
from dataclasses import replace

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPlan, ReplicaGroup
from cascadia.render import render
from cascadia.render.engine_args import Launch, Ranks, arguments, command
from cascadia.render.engine_groups import engine_groups
from cascadia.testing.plans import POOLS, plan, stage
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.speculation import Speculation

CONFIG = EngineConfig(max_model_len=8192)


def launch(engine: str = "vllm", **changes: object) -> Launch:
    base = Launch(
        engine,
        "org/model",
        "org/model",
        served_name="small",
        config=CONFIG,
        gpu=gpu("h100-sxm"),
        tp=2,
        pp=1,
        host="0.0.0.0",
        port=8000,
        drain_s=120,
    )
    return replace(base, **({"weights": changes.get("model", "org/model")} | changes))  # type: ignore[arg-type]


def flags(of: Launch) -> dict[str, str]:
    """Name -> value; what stands alone has the value ""."""
    return {name: value for name, _, value in (argument.partition("=") for argument in arguments(of))}


def test_engines_start_as_they_were_simulated() -> None:
    config = replace(CONFIG, max_num_seqs=64, max_num_batched_tokens=2048, gpu_memory_utilization=0.85)
    vllm = flags(launch("vllm", config=config))
    assert (vllm["--max-num-seqs"], vllm["--max-num-batched-tokens"]) == ("64", "2048")
    assert vllm["--gpu-memory-utilization"] == "0.85"
    assert vllm["--max-model-len"] == "8192"
    sglang = flags(launch("sglang", config=config))
    assert (sglang["--max-running-requests"], sglang["--chunked-prefill-size"]) == ("64", "2048")
    assert sglang["--mem-fraction-static"] == "0.800"
    assert sglang["--context-length"] == "8192"


def test_without_chunks_a_batch_holds_the_longest_prompt() -> None:
    """vLLM refuses to start otherwise."""
    config = replace(CONFIG, enable_chunked_prefill=False, max_num_batched_tokens=2048)
    vllm = flags(launch("vllm", config=config))
    assert "--no-enable-chunked-prefill" in vllm
    assert vllm["--max-num-batched-tokens"] == "8192"
    sglang = flags(launch("sglang", config=config))
    assert (sglang["--chunked-prefill-size"], sglang["--max-prefill-tokens"]) == ("-1", "2048")


def test_a_batch_never_holds_fewer_tokens_than_sequences() -> None:
    """vLLM refuses to start otherwise."""
    config = replace(CONFIG, max_num_batched_tokens=100)
    assert flags(launch(config=config))["--max-num-batched-tokens"] == "256"


def test_vllm_is_told_how_thinking_is_marked_where_requests_bring_budgets() -> None:
    """vLLM 0.32 refuses `thinking_token_budget` with 400 otherwise (`v1/engine/input_processor.py`)."""
    thinker = replace(
        stage("thinker", ReplicaGroup("h100", 1, 1, 1, 1.0)),
        exits=(ExitPlan(512, 95.0, 0.3),),
        budget_field="thinking_token_budget",
    )
    flag = '--reasoning-config={"reasoning_start_str":"<think>","reasoning_end_str":"</think>"}'
    for of, said in ((thinker, True), (replace(thinker, budget_field=None), False)):
        made = plan([of], POOLS)
        assert (flag in json.loads(render(made, made.cluster, "local"))[0]["argv"]) is said
        args = [group.launch(weights="m", host="h", port=1) for group in engine_groups(made, made.cluster)]
        assert (flag in arguments(args[0])) is said


@pytest.mark.parametrize(("engine", "flag"), [("vllm", "fp8_per_tensor"), ("sglang", "fp8")])
def test_fp8_is_made_on_loading_from_a_bf16_checkpoint(engine: str, flag: str) -> None:
    config = replace(CONFIG, quantization="fp8")
    model = "meta-llama/Llama-3.1-70B-Instruct"
    assert flags(launch(engine, model=model, config=config))["--quantization"] == flag


@pytest.mark.parametrize(
    ("model", "quantization"),
    [
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "fp8"),
        ("deepseek-ai/DeepSeek-R1", "fp8"),
        ("openai/gpt-oss-120b", "mxfp4"),
        ("org/Model-AWQ", "awq-int4"),
        ("org/model", "awq-int4"),
        ("org/model", None),
    ],
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_a_checkpoint_says_itself_is_not_said_again(
    engine: str, model: str, quantization: str | None
) -> None:
    """Both engines refuse a method that differs from the checkpoint's."""
    config = replace(CONFIG, quantization=quantization)
    assert "--quantization" not in flags(launch(engine, model=model, config=config))


def test_the_key_value_cache_has_each_engines_word_for_its_format() -> None:
    config = replace(CONFIG, kv_cache_dtype="fp8")
    assert flags(launch("vllm", config=config))["--kv-cache-dtype"] == "fp8"
    assert flags(launch("sglang", config=config))["--kv-cache-dtype"] == "fp8_e4m3"
    assert "--kv-cache-dtype" not in flags(launch())


def test_block_sizes_other_than_the_engines_own_are_given() -> None:
    config = replace(CONFIG, block_size=32)
    assert flags(launch("vllm", config=config))["--block-size"] == "32"
    assert flags(launch("sglang", config=config))["--page-size"] == "32"
    assert "--block-size" not in flags(launch())


def test_ranks_meet_at_the_first_and_only_the_first_serves() -> None:
    ranks = Ranks(2, "0", "h100-0", 20000)
    first, second = (flags(launch(ranks=replace(ranks, rank=rank))) for rank in ("0", "1"))
    assert first["--nnodes"] == second["--nnodes"] == "2"
    assert (second["--master-addr"], second["--master-port"]) == ("h100-0", "20000")
    assert "--headless" not in first
    assert "--headless" in second
    sglang = flags(launch("sglang", ranks=replace(ranks, rank="1")))
    assert (sglang["--node-rank"], sglang["--dist-init-addr"]) == ("1", "h100-0:20000")


def test_sglang_is_told_to_publish_metrics() -> None:
    assert "--enable-metrics" in flags(launch("sglang"))


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(
        BadInput, match=r"no engine is called 'trt'; use one of vllm, sglang, trtllm, llama\.cpp"
    ):
        command(launch("trt"))


def test_sglang_gets_the_kv_cache_that_was_simulated() -> None:
    """Its share leaves out what the simulator reserves beside weights and KV cache: 2.7 GB of 86 here."""
    known = launch("sglang", model="meta-llama/Llama-3.1-8B-Instruct", tp=1)
    assert flags(known)["--mem-fraction-static"] == "0.869"
    lone = launch("sglang", config=replace(CONFIG, gpu_memory_utilization=0.01))
    assert flags(lone)["--mem-fraction-static"] == "0.050"


def test_attention_dp_takes_the_ranks_from_the_tensor_parallel_gpus() -> None:
    config = replace(CONFIG, attention_dp=4, enable_expert_parallel=True, max_num_seqs=64)
    vllm = flags(launch("vllm", config=config, tp=8))
    assert (vllm["--tensor-parallel-size"], vllm["--data-parallel-size"]) == ("2", "4")
    assert "--enable-expert-parallel" in vllm
    assert vllm["--max-num-seqs"] == "64"
    sglang = flags(launch("sglang", config=config, tp=8))
    assert (sglang["--tp-size"], sglang["--dp-size"], sglang["--ep-size"]) == ("8", "4", "8")
    assert "--enable-dp-attention" in sglang
    assert sglang["--max-running-requests"] == "256"


def test_plain_replicas_get_no_flags_of_mixtures() -> None:
    given = {*flags(launch("vllm")), *flags(launch("sglang"))}
    assert not given & {"--enable-expert-parallel", "--enable-dp-attention", "--ep-size"}


def test_vllm_ranks_stay_within_a_node() -> None:
    config = replace(CONFIG, attention_dp=2)
    with pytest.raises(BadInput, match="within a node"):
        arguments(launch("vllm", config=config, tp=16, ranks=Ranks(2, "0", "a", 1)))


def test_a_prefix_cache_that_is_not_planned_with_is_turned_off() -> None:
    off = replace(CONFIG, prefix_caching=False)
    assert "--no-enable-prefix-caching" in flags(launch("vllm", config=off))
    assert "--disable-radix-cache" in flags(launch("sglang", config=off))
    for engine in ("vllm", "sglang"):
        assert not {"--no-enable-prefix-caching", "--disable-radix-cache"} & flags(launch(engine)).keys()


def test_drafts_are_told_as_they_were_simulated() -> None:
    """vLLM takes a schedule by the number of sequences; SGLang counts the model's own token among its draft tokens."""
    config = replace(CONFIG, speculation=Speculation("eagle3", 5, 0.7, "org/head"))
    schedule = ((1, 20, 5), (21, 256, 1))
    told = json.loads(flags(launch("vllm", config=config, drafts=schedule))["--speculative-config"])
    assert told == {
        "method": "eagle3",
        "model": "org/head",
        "num_speculative_tokens": 5,
        "num_speculative_tokens_per_batch_size": [[1, 20, 5], [21, 256, 1]],
    }
    sglang = flags(launch("sglang", config=config, drafts=((1, 256, 4),)))
    assert sglang["--speculative-algorithm"] == "EAGLE3"
    assert sglang["--speculative-draft-model-path"] == "org/head"
    assert (sglang["--speculative-num-steps"], sglang["--speculative-num-draft-tokens"]) == ("4", "5")


def test_an_engine_without_drafts_has_no_flag_of_them() -> None:
    config = replace(CONFIG, speculation=Speculation("ngram", 5, 0.7))
    for engine in ("vllm", "sglang"):
        assert not [name for name in flags(launch(engine, config=config)) if "spec" in name]
    ngram = flags(launch("sglang", config=config, drafts=((1, 256, 4),)))
    assert "--speculative-num-steps" not in ngram
    assert ngram["--speculative-num-draft-tokens"] == "5"
