"""Style of charts. Colours are Okabe and Ito's (2008), told apart by the colour-blind; text is darker of hue.

Each palette entry: the mark's colour, the colour of text of that hue on the page, and of text upon the mark.
"""

_LIGHT = (
    ("#0072b2", "#005f95", "#ffffff"),
    ("#e69f00", "#875b00", "#221800"),
    ("#009e73", "#00704f", "#ffffff"),
    ("#cc79a7", "#97406f", "#2b0f1f"),
    ("#d55e00", "#a84800", "#ffffff"),
    ("#56b4e9", "#17699b", "#06202f"),
    ("#b9a900", "#6b6200", "#1d1b00"),
    ("#6f7780", "#59616a", "#ffffff"),
)
_DARK = (
    ("#3a9bdc", "#6bb8ec", "#04131e"),
    ("#e9a820", "#f0bd57", "#221800"),
    ("#1fb386", "#55cfaa", "#00160f"),
    ("#d58ab5", "#e5acce", "#2b0f1f"),
    ("#e57a2a", "#f29b5b", "#241000"),
    ("#7cc7f2", "#a3d8f7", "#06202f"),
    ("#d8ca3a", "#e4d968", "#1d1b00"),
    ("#8b949e", "#a9b1ba", "#0b0d10"),
)
_LIGHT_BASE = "--ink:#16191d;--muted:#5b636d;--faint:#8b939c;--rule:#e3e6ea;--page:#ffffff;--panel:#f6f7f9;"
_DARK_BASE = "--ink:#e9ecef;--muted:#a4adb7;--faint:#78818b;--rule:#2c3239;--page:#14171a;--panel:#1c2025;"


def _variables(palette: tuple[tuple[str, str, str], ...]) -> str:
    return "".join(f"--c{i}:{mark};--t{i}:{text};--o{i}:{on};" for i, (mark, text, on) in enumerate(palette))


_CLASSES = "".join(
    f".k{i}{{--k:var(--c{i});--kt:var(--t{i});--ko:var(--o{i})}}\n" for i in range(len(_LIGHT))
)

CHART_CSS = f"""\
:root{{color-scheme:light dark;{_LIGHT_BASE}{_variables(_LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_DARK_BASE}{_variables(_DARK)}}}}}
{_CLASSES}\
.k-ink,.k-accent{{--k:var(--ink);--kt:var(--ink);--ko:var(--page)}}
.k-grey{{--k:var(--faint);--kt:var(--muted);--ko:var(--page)}}
svg.chart{{display:block;width:100%;max-width:calc(var(--w)*1.25);height:auto;overflow:visible;
 font:11px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
 font-variant-numeric:tabular-nums;break-inside:avoid}}
.chart text{{fill:var(--muted)}}
.chart .head{{font-size:13px;font-weight:600;fill:var(--ink)}}
.chart .strong{{font-weight:600;fill:var(--ink)}}
.chart .small{{font-size:10px}}
.chart .label{{fill:var(--kt);font-weight:600;paint-order:stroke;stroke:var(--page);stroke-width:3px;
 stroke-linejoin:round}}
.chart .note{{paint-order:stroke;stroke:var(--page);stroke-width:3px;stroke-linejoin:round}}
.chart .on{{fill:var(--ko);font-weight:600}}
.chart .grid{{stroke:var(--rule);stroke-width:1}}
.chart .axis{{stroke:var(--faint);stroke-width:1}}
.chart .line{{fill:none;stroke:var(--k);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}}
.chart .thin{{stroke-width:1.5}}
.chart .bold{{stroke-width:3}}
.chart .dash{{stroke-dasharray:5 4}}
.chart .rule{{stroke:var(--muted);stroke-width:1;stroke-dasharray:3 3}}
.chart .leader{{stroke:var(--faint);stroke-width:1}}
.chart .fill{{fill:var(--k)}}
.chart .flow{{fill:var(--k);opacity:.28}}
.chart .flow:hover,.chart .bar:hover{{opacity:.8}}
.chart .dot{{fill:var(--k);stroke:var(--page);stroke-width:1.5}}
.chart .ring{{fill:none;stroke:var(--k);stroke-width:2}}
.chart .cloud{{fill:none;stroke:var(--k);stroke-width:3;stroke-linecap:round;opacity:.5}}
.chart .large{{stroke-width:6;opacity:1}}
.chart .hit{{fill:transparent}}
.chart .hit:hover{{fill:var(--k)}}
.chart .idle{{fill:none;stroke:var(--faint);stroke-dasharray:2 2}}
.chart .seam{{fill:var(--ko);opacity:.35}}
.chart .cut{{fill:var(--page)}}
.chart .case{{fill:var(--panel);stroke:var(--rule)}}
"""
