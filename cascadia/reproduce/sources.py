"""Public files that the reproductions read: where each comes from, under which licence, and what it must hold."""

from dataclasses import dataclass
from hashlib import sha256

from cascadia.domain.errors import BadInput
from cascadia.reproduce.public_data import FOLDER_VARIABLE, content, data_folder, found


@dataclass(frozen=True, slots=True)
class Source:
    """`sha256` is of the file uncompressed: `path` or `path`.gz may lie there."""

    path: str
    origin: str
    licence: str
    sha256: str


AZURE_CONV = Source(
    "traces/azure_2023_conv.csv",
    "github.com/Azure/AzurePublicDataset, AzureLLMInferenceTrace_conv",
    "CC-BY-4.0",
    "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
)
AZURE_CODE = Source(
    "traces/azure_2023_code.csv",
    "github.com/Azure/AzurePublicDataset, AzureLLMInferenceTrace_code",
    "CC-BY-4.0",
    "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
)
MOONCAKE = Source(
    "traces/mooncake_conversation.jsonl",
    "github.com/kvcache-ai/Mooncake, conversation trace",
    "Apache-2.0",
    "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
)
WILDBENCH = Source(
    "quality/wildbench_scores.csv",
    "github.com/allenai/WildBench v2.0625, GPT-4o's scores as one table",
    "Apache-2.0",
    "6892bcde17cac8956686dedcc4b589e09cdd45b7f9b8f219462d574a74cb712b",
)
GSM8K = Source(
    "quality/zeroeval_gsm8k.csv",
    "github.com/WildEval/ZeroEval, right and wrong answers as one table",
    "Apache-2.0",
    "052f659a92e4512c5a2bb3f8f22e2b745b56cb2380eb3b1f3d0eeb82add0b4fb",
)
ALL_REDUCE = Source(
    "perf/vidur_profiling/network/a100_pairwise_nvlink/all_reduce.csv",
    "github.com/microsoft/vidur, data/profiling",
    "MIT",
    "27428d884ae095800e81366c7517af93fd7476633cfe5e55bdd155e004485dab",
)

COMPARISON = (AZURE_CONV, MOONCAKE, WILDBENCH, GSM8K)
PAPER = (AZURE_CONV, AZURE_CODE, MOONCAKE, WILDBENCH, GSM8K, ALL_REDUCE)
ADAPT = (AZURE_CONV, AZURE_CODE)


def check(sources: tuple[Source, ...]) -> None:
    """Raises BadInput with the whole list unless each file is there and is the one that the figures rest on."""
    wrong = [(source, why) for source in sources if (why := _wrong(source))]
    if wrong:
        listed = "; ".join(
            f"{s.path} {why} ({s.origin}, {s.licence}, SHA-256 {s.sha256})" for s, why in wrong
        )
        folder = data_folder()
        raise BadInput(
            FOLDER_VARIABLE if folder is None else f"{FOLDER_VARIABLE}={folder}",
            "is not set" if folder is None else f"{len(wrong)} of {len(sources)} public files cannot be used",
            f"lay these under the folder that it names, each as it is or with .gz: {listed}",
        )


def _wrong(source: Source) -> str:
    """Reason why the file cannot be used; empty where it can."""
    path = found(source.path)
    if path is None:
        return "is missing"
    try:
        held = sha256(content(path)).hexdigest()
    except (OSError, EOFError) as error:
        return f"cannot be read: {error}"
    return "" if held == source.sha256 else f"holds something else (SHA-256 {held[:12]}…)"
