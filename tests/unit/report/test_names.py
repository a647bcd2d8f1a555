"""Things go by the names people give them."""

import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import ReplicaGroup
from cascadia.report.names import gpu_label, gpus_in_words, model_label, model_short, printable, replicas


@pytest.mark.parametrize(
    ("model", "short"),
    [("meta-llama/Llama-3.1-8B-Instruct", "8B"), ("google/gemma-2b-it", "2B"), ("mistralai/Mixtral-8x7B-v0.1", "8x7B"),
     ("HuggingFaceTB/SmolLM2-135M", "135M"), ("Qwen/Qwen2.5-0.5B", "0.5B"), ("Qwen/Qwen3-30B-A3B", "30B"),
     ("deepseek-ai/DeepSeek-R1", "DeepSeek-R1"), ("models/mine/config.json", "mine")],
)  # fmt: skip
def test_a_model_goes_by_its_size_where_its_name_tells_it(model: str, short: str) -> None:
    assert model_short(model) == short


def test_gpus_lose_their_form_factor() -> None:
    labels = [gpu_label(gpu, {}) for gpu in ("h100-sxm", "a100-80gb-pcie", "mi300x", "l40s")]
    assert labels == ["H100", "A100 80GB PCIe", "MI300X", "L40S"]
    assert gpu_label("h100-sxm", {"h100-sxm": "H100 SXM"}) == "H100 SXM"


def test_groups_in_several_pools_say_where_they_are() -> None:
    pools = (Pool("big", "h100-sxm", 2, 8, 2.67), Pool("old", "l40s", 4, 4, 0.8))
    groups = (ReplicaGroup("big", 4, 2, 1, 0.9), ReplicaGroup("old", 1, 1, 2, 0.1))
    assert replicas(groups, Cluster(pools)) == "1 × TP4 PP2 on big + 2 × TP1 on old"
    assert replicas(groups[:1], Cluster(pools[:1])) == "1 × TP4 PP2"
    assert gpus_in_words(groups, Cluster(pools), {}) == "8 H100 and 2 L40S GPUs"
    assert replicas((), Cluster(pools)) == "–"


def test_control_characters_never_reach_a_terminal() -> None:
    assert printable("a\x1b[31mb\u202ec\n") == "a�[31mb�c�"
    assert model_label("evil/\x1b]0;title\x07") == "�]0;title�"
