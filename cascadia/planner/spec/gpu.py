"""The `gpu` of a pool where the catalogue has none like it: a mapping in the spec, or a file that holds one."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from cascadia.files.field_errors import DESCRIBED, NAMED
from cascadia.planner.spec.models import Name, Section, Text

Figure = Annotated[float, Field(gt=0, le=1e7)]
Units = Annotated[float, Field(ge=0, le=1e7)]


class TflopsSpec(Section):
    """Dense tensor-core peaks (no sparsity), TFLOP/s."""

    bf16: Figure = Field(description="16-bit peak; FP16's where it knows no BF16.")
    fp8: Units = Field(0.0, description="0 where it has no such units.")
    int8: Units = Field(0.0, description="0 where it has no such units.")
    fp4: Units = Field(0.0, description="0 where it has no such units.")


class GpuSpec(Section):
    """A GPU of one's own, by its data sheet. Nobody measured it: a plan that rests on it says so."""

    name: Name = Field(max_length=60, description="Any that the catalogue does not have.")
    memory_gib: Figure = Field(description="Memory of one GPU, GiB.")
    bandwidth_gb_s: Figure = Field(description="Bandwidth of its memory, GB/s.")
    tflops: TflopsSpec = Field(description="Its dense peaks by precision.")
    link_gb_s: Figure = Field(
        32.0, description="Between GPUs of a node, GB/s a GPU and direction; PCIe 4's where absent."
    )
    inter_node_gb_s: Figure = Field(12.5, description="Between nodes, GB/s a GPU and direction.")
    generation: Text | None = Field(
        None,
        description="Generation whose kernels it runs as well as, e.g. `hopper`; the nearest GPU's where absent.",
    )
    vendor: Literal["nvidia", "amd"] = Field("nvidia", description="Decides images and device variables.")
    product: Text | None = Field(
        None, description="What the cluster's node label calls it; Kubernetes manifests need it."
    )


def _way(value: object) -> str:
    return DESCRIBED if isinstance(value, Mapping | GpuSpec) else NAMED


GpuChoice = Annotated[Annotated[Text, Tag(NAMED)] | Annotated[GpuSpec, Tag(DESCRIBED)], Discriminator(_way)]
