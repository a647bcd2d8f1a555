"""Outputs of `cascadia judge train` on the heads that it made."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from cascadia_judge.head.head import Head

LOOKS_AT = {"question": "question", "answer": "answer", "certainty": "log-probabilities"}


def told(head: "Head") -> dict[str, Any]:
    return {"stage": head.stage, "looks_at": list(head.groups), **head.measured}


def heads_table(heads: list[dict[str, Any]], title: str) -> "Table":
    from rich.table import Table

    shown = Table(title=title, title_justify="left")
    for name in ("stage", "looks at", "answers", "mean quality", "AUC", "ECE"):
        shown.add_column(name, justify="left" if name in ("stage", "looks at") else "right")
    for head in heads:
        auc = head["auc"]
        shown.add_row(
            head["stage"] or "any",
            ", ".join(LOOKS_AT[group] for group in head["looks_at"]),
            f"{head['rows']:,}",
            f"{head['mean_quality']:.1f}",
            "-" if auc is None else f"{auc:.3f} ± {1.96 * head['auc_standard_error']:.3f}",
            f"{head['ece']:.1f}",
        )
    return shown
