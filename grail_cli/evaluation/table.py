"""The table that `grail eval` prints: a row a model and suite, accuracy with its interval, what was not counted."""


def summary_table(documents: list[dict]):
    """A rich table of evaluation summaries."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("model", "suite"):
        table.add_column(column)
    for column in (
        "problems",
        "n",
        "acc %",
        "95 % interval",
        "pass@n %",
        "maj@n %",
        "tokens",
        "truncated",
        "no box",
        "unsettled",
        "failed",
    ):
        table.add_column(column, justify="right")
    for document in documents:
        for suite, scores in document["suites"].items():
            if "verdicts" in scores:
                table.add_row(document["label"], suite, *_cells(scores))
        for name in ("average", "weighted_average"):
            entry = document["suites"].get(name)
            if entry and entry["suites"] > 1:
                key = next(key for key in entry if key.startswith("acc@"))
                table.add_row(
                    document["label"],
                    name.replace("_", " "),
                    "",
                    key[4:],
                    _percent(entry[key]),
                    _interval(entry["low"], entry["high"]),
                    _percent(entry.get(f"pass@{key[4:]}")),
                    "",
                    _number(entry.get("avg_tokens")),
                    "",
                    "",
                    "",
                    "",
                )
    return table


def _cells(scores: dict) -> list[str]:
    n = scores["n"]
    acc = scores.get("acc") or {}
    return [
        str(scores["samples"]),
        str(n),
        _percent(scores[f"acc@{n}"]),
        _interval(acc.get("low"), acc.get("high")),
        _percent(scores[f"pass@{n}"]),
        _percent(scores.get(f"maj@{n}")),
        _number(scores["avg_tokens"]),
        str(scores["truncated"]),
        str(scores["null_count"]),
        str(scores["unsettled"]),
        str(scores["failed"]),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{100 * low:.1f} .. {100 * high:.1f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
