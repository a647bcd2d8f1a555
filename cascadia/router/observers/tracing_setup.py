"""Set-up of tracing: whether spans are wanted and where they go: router.yaml's section `tracing`, and
OpenTelemetry's own variables.
"""

import logging
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from cascadia.domain.errors import BadInput
from cascadia.files.extras import install
from cascadia.router.observers.tracing import Tracing
from cascadia.router.settings.model import TracingSettings

_PROTOCOL = "http/protobuf"
_SAMPLERS = {
    "always_on": (False, False),
    "always_off": (False, False),
    "traceidratio": (False, True),
    "parentbased_always_on": (True, False),
    "parentbased_always_off": (True, False),
    "parentbased_traceidratio": (True, True),
}
"""By OTEL_TRACES_SAMPLER: whether it follows the caller, and whether it has a ratio."""


def tracing_from(environment: Mapping[str, str]) -> TracingSettings | None:
    """Settings of tracing; None where no endpoint is named, or tracing is switched off. Raises `BadInput`."""
    endpoint = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not endpoint and (base := environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")):
        endpoint = base.rstrip("/") + "/v1/traces"
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not endpoint or disabled or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if environment.get(name, _PROTOCOL) != _PROTOCOL:
            raise BadInput(name, f"{environment[name]!r} is not spoken here", f"write {_PROTOCOL}, port 4318")
    sampler = environment.get("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    if sampler not in _SAMPLERS:
        raise BadInput("OTEL_TRACES_SAMPLER", f"{sampler!r} is not known", f"one of {', '.join(_SAMPLERS)}")
    follow, has_ratio = _SAMPLERS[sampler]
    ratio = _ratio(environment.get("OTEL_TRACES_SAMPLER_ARG", "1")) if has_ratio else 1.0
    return TracingSettings(endpoint, 0.0 if sampler.endswith("always_off") else ratio, follow)


def tracing_of(settings: TracingSettings, lost: Callable[[int], None]) -> Tracing:
    """Sends to `settings.endpoint` by OTLP over HTTP. Raises `BadInput` where the extra is not installed."""
    check_endpoint(settings.endpoint, "tracing.endpoint")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        instead = f"{install('otel')}, or leave the endpoint out"
        raise BadInput("tracing", "OpenTelemetry is not installed", instead) from None
    # What it has to say is counted (`spans_lost_total`), and would stand between the lines of our log.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return Tracing(settings, OTLPSpanExporter(endpoint=settings.endpoint), lost)


def check_endpoint(endpoint: str, where: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(where, f"{endpoint!r} is no address", "write e.g. http://127.0.0.1:4318/v1/traces")


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise BadInput("OTEL_TRACES_SAMPLER_ARG", f"{text!r} is no ratio", "write a number from 0 to 1")
    return ratio
