"""Request for a plan, as the page makes it: values in place of the spec's."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.files.field_errors import bad_input
from cascadia.files.written import as_written

MOST_BYTES = 10_000


class Asked(BaseModel):
    """Values to plan with: None leaves the spec's own, `gpus` are by pool."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    quality_min: float | None = Field(default=None, ge=0, le=100)
    rate_rps: float | None = Field(default=None, gt=0, le=1e6)
    gpus: dict[str, int] = Field(default_factory=dict, max_length=64)
    budget_usd_per_hour: float | None = Field(default=None, gt=0, le=1e9)
    latency_max_s: float | None = Field(default=None, gt=0, le=1e6)

    @property
    def flags(self) -> list[str]:
        """The same as flags of `cascadia plan`."""
        flags = [text for pool, n in self.gpus.items() for text in ("--gpus", f"{pool}={n}")]
        told = {
            "--rate": self.rate_rps,
            "--quality-min": self.quality_min,
            "--latency-max": self.latency_max_s,
            "--budget": self.budget_usd_per_hour,
        }
        return [
            *flags,
            *(text for flag, v in told.items() if v is not None for text in (flag, as_written(v))),
        ]

    def document(self) -> dict[str, Any]:
        return self.model_dump(exclude_defaults=True)


def read_asked(text: bytes) -> Asked:
    """Raises `BadInput`, in one line."""
    try:
        return Asked.model_validate_json(text)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] == "json_invalid":
            raise BadInput("what is asked", "is not JSON", 'send e.g. {"quality_min": 82}') from None
        raise bad_input(error, Asked, "what is asked") from None
