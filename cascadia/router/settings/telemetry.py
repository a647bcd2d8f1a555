"""Sections of router.yaml about what is seen: spans, workload samples, shadows."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from cascadia.domain.errors import BadInput
from cascadia.router.settings.model import SampleSettings, ShadowSettings, TracingSettings
from cascadia.router.settings.secret_values import Secrets

LEAST_TOKEN = 16
Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TracingSection(_Section):
    endpoint: str = Field(
        pattern=r"^https?://[\x21-\x7e]+$",
        description="Address of OTLP over HTTP, with its path: .../v1/traces.",
    )
    ratio: Ratio = Field(1.0, description="Share of the traces that begin here.")
    follow: bool = Field(True, description="Whether a caller's trace decides for what belongs to it.")
    service: str | None = Field(None, min_length=1, max_length=100)

    def settings(self) -> TracingSettings:
        return TracingSettings(self.endpoint, self.ratio, self.follow, self.service)


class SamplesSection(_Section):
    folder: str = Field(min_length=1, description="Folder of the Parquet files, relative to this file.")
    ratio: Ratio = Field(1.0, description="Share of the requests.")
    rows: int = Field(10_000, ge=1, le=1_000_000, description="After so many a file is ended.")
    seconds: float = Field(300.0, ge=1, le=86_400, description="Or after so long.")
    max_bytes: int = Field(2**30, ge=2**20, description="The oldest files go when all are larger.")
    text: bool = Field(False, description="Write the question and the held answers too.")
    token_env: str | None = Field(None, description="Variable with the token that opens /samples.")
    token_file: Path | None = Field(None, description="File with it.")

    def settings(self, where: str, secrets: Secrets) -> SampleSettings:
        """Raises `BadInput` for a token that cannot be had, or could be guessed."""
        token = secrets.one(where, "token", self.token_env, self.token_file)
        if token is not None and len(token) < LEAST_TOKEN:
            what = f"is shorter than {LEAST_TOKEN} characters"
            raise BadInput(f"{where}.token", what, "make one, e.g. with `openssl rand -hex 32`")
        folder = secrets.path(Path(self.folder))
        return SampleSettings(
            folder,
            self.ratio,
            self.rows,
            seconds=self.seconds,
            max_bytes=self.max_bytes,
            text=self.text,
            token=token,
        )


class ShadowSection(_Section):
    ratio: Ratio = Field(0.0, description="Share of the cascade's requests.")
    busy: Ratio = Field(0.5, description="A stage with this share of its room taken is left alone.")
    tokens_per_hour: int = Field(100_000, ge=0)
    max_tokens: int = Field(1024, ge=1, description="Longest answer to a request that sets no limit.")

    burst_ratio: Ratio = Field(0.5, description="The same for ten minutes after a controller asked for more.")
    burst_at_once: int = Field(4, ge=1, le=64, description="Looks at a time meanwhile.")
    burst_hours: float = Field(
        6.0, ge=0, le=168, description="Hours whose tokens may be spent ahead; 0: no bursts."
    )

    def settings(self) -> ShadowSettings:
        return ShadowSettings(**dict(self))
