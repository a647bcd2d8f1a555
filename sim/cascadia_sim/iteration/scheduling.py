"""Rules on which engines differ beyond chunked or whole prompts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The defaults are those of vLLM V1; docs/models/simulator.md, "Scheduling", says who does otherwise.

    `watermark_blocks` stay free when a request is admitted beside others. `batch_seqs` is the most sequences in
    one of a pipeline's batches (None: as many as are ready). `padded_prompts`: whole prompts count as their number
    times the longest of them against the token budget. In a pipeline, with `chunks_in_step` the next chunk of a
    prompt may follow before the one before has left it, and with `starts_between` what arrives while there is room
    for a batch starts one at once; else it waits until the next batch ends, as the engine does.
    """

    watermark_blocks: int = 0
    batch_seqs: int | None = None
    padded_prompts: bool = False
    chunks_in_step: bool = True
    starts_between: bool = False


VLLM_V1 = Scheduling()


def vidurs(*, kv_blocks: int, max_num_seqs: int, stages: int) -> Scheduling:
    """Scheduling of Vidur's `vllm` and `sarathi` schedulers with its default settings (microsoft/vidur)."""
    return Scheduling(
        watermark_blocks=kv_blocks // 100,
        batch_seqs=max_num_seqs // stages,
        padded_prompts=True,
        chunks_in_step=False,
        starts_between=True,
    )
