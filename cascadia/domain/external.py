"""Stages that are somebody else's API."""

from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True, slots=True)
class External:
    """Somebody else's API as a stage: it takes no GPU, and its tokens have a price.

    TTFT and TPOT are lognormal through both quantiles each; `requests_per_minute` None: it has no limit. `base_url` is
    without `/v1`; `api_key_env` names the variable that holds the key.
    """

    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    _: KW_ONLY
    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    requests_per_minute: int | None = None
    base_url: str | None = None
    api_key_env: str | None = None

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """Dollars for so many tokens."""
        read, wrote = self.usd_per_million_input_tokens, self.usd_per_million_output_tokens
        return (input_tokens * read + output_tokens * wrote) / 1e6
