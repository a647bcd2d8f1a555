"""Rules on which engines differ beyond chunked or whole prompts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The defaults are those of vLLM V1; docs/models/simulator.md, "Scheduling", says who does otherwise.

    `watermark_blocks` stay free when a request is admitted beside others. `batch_seqs` is the most sequences in
    one of a pipeline's batches (None: as many as are ready). `padded_prompts`: whole prompts count as their number
    times the longest of them against the token budget. `chunks_in_step`: the next chunk of a prompt may follow
    before the one before has left the pipeline.
    """

    watermark_blocks: int = 0
    batch_seqs: int | None = None
    padded_prompts: bool = False
    chunks_in_step: bool = True


VLLM_V1 = Scheduling()
