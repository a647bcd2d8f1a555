"""Numbers as a reader wants them: rounded to what matters, with their unit."""

import math


def figures(value: float, digits: int = 3) -> str:
    """`digits` significant figures, thousands apart, no exponent and no trailing zeros after the point.

    12345.6 -> "12,346", 12.34 -> "12.3", 0.01234 -> "0.0123".
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{abs(value):,.{min(decimals, 12)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("−" if value < 0 and text != "0" else "") + text


def seconds(value: float) -> str:
    """Milliseconds below one second, minutes above a thousand: 0.42 -> "420 ms", 12.34 -> "12.3 s"."""
    if not math.isfinite(value):
        return figures(value)
    if value == 0:
        return "0 s"
    if value < 0.9995:
        return f"{figures(value * 1e3, 2 if value < 0.0995 else 3)} ms"
    if value < 999.5:
        return f"{_fixed(value)} s"
    return f"{figures(value / 60)} min"


def percent(fraction: float, decimals: int = 0) -> str:
    """0.623 -> "62 %"; a share that is not quite none or all never reads as "0 %" or "100 %"."""
    if not math.isfinite(fraction):
        return figures(fraction)
    share = fraction * 100
    for extra in range(decimals, decimals + 3):
        text = f"{share:.{extra}f}"
        if 0 < float(text) < 100 or share in (0, 100):
            return f"{text if 0 < share < 100 else f'{share:.0f}'} %"
    return "< 0.01 %" if 0 < share < 50 else "> 99.99 %" if 50 <= share < 100 else f"{share:.{decimals}f} %"


def usd(value: float) -> str:
    """Cents up to a thousand dollars, three figures below ten cents: "$85.44", "$0.0312", "$1,234"."""
    if not math.isfinite(value):
        return figures(value)
    if value == 0:
        return "$0"
    if abs(value) < 0.0995:
        return f"${figures(value)}"
    return f"${value:,.2f}" if abs(value) < 999.995 else f"${value:,.0f}"


def score(value: float) -> str:
    """A quality or a score on 0-100, to a tenth."""
    return f"{value:.1f}".removesuffix(".0") if math.isfinite(value) else figures(value)


def quality(value: float) -> str:
    """A predicted quality, always to a tenth: 87 -> "87.0"."""
    return f"{value:.1f}" if math.isfinite(value) else figures(value)


def asked_for(value: float) -> str:
    """A quality that was asked for, as it was: rounded up it would seem missed. 68.17 -> "68.17"."""
    return f"{value:.8g}"


def lower_bound(value: float, asked: float | None = None) -> str:
    """A bound from below, never rounded up: to a tenth, or as many digits as what was `asked` for. 85.97 -> "85.9"."""
    if not math.isfinite(value):
        return figures(value)
    digits = 1 if asked is None else max(1, len(asked_for(asked).partition(".")[2]))
    return f"{math.floor(value * 10**digits + 1e-6) / 10**digits:.{digits}f}"


def rate(value: float) -> str:
    """Requests per second: 10 -> "10 requests/s", 0.5 -> "0.5 requests/s"."""
    return f"{figures(value)} {'request' if value == 1 else 'requests'}/s"


def plural(count: int, noun: str) -> str:
    """1 -> "1 GPU", 1200 -> "1,200 GPUs"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _fixed(value: float) -> str:
    """Three figures with the zeros kept, so that columns line up: 2 -> "2.00", 12.3 -> "12.3"."""
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def span(least_s: float, most_s: float) -> str:
    """Span from one time to another, with the unit once where they share it."""
    least, most = seconds(least_s), seconds(most_s)
    number, _, unit = least.rpartition(" ")
    return f"{number if most.endswith(f' {unit}') else least} … {most}"
