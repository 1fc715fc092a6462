"""What a person looks at: tables on the terminal, CSV and JSON files, figures, and the page of token maps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from . import figures, figures_tokens
from .agreement import compare_table
from .figure_style import save_figure
from .records import Scored
from .options import Options
from .run import Reading
from .store import write_table
from .tokenmap import page, page_data
from ..files import write_json, write_text
from ..models import load_tokenizer

if TYPE_CHECKING:
    from rich.console import Group

OVER_TRAINING = ("effective sample size / n", "share at w_min", "share at w_max", "sd of log score")
PAGE_ROLLOUTS = 200  # rollouts on the page; more make a file that browsers open slowly


def write_data(readings: list[Reading], skipped: dict[str, str], options: Options, out: Path) -> dict:
    """Write positional.json, the reference's summaries, the tables (CSV, JSON) and analysis.json; return the last."""
    write_json(out / "positional.json", {r.task.label: r.summary["positional"] for r in readings})
    runs = {r.task.run for r in readings}
    for r in readings:
        if r.task.step is not None:
            prefix = f"{r.task.run}_" if len(runs) > 1 else ""
            write_json(out / f"{prefix}checkpoint_{r.task.step}_pos_summary.json", r.summary["reference"])
    write_table(out / "tables", "coverage", coverage_rows(readings))
    write_table(out / "tables", "neighbours", neighbour_rows(readings, options))
    for name in dict.fromkeys(n for r in readings for n in r.summary["tables"]):
        write_table(out / "tables", name, [{"checkpoint": r.task.label, **row} for r in readings
                                           for row in r.summary["tables"].get(name, [])])
    document = {"checkpoints": [r.task.label for r in readings], "skipped": skipped, "settings": options.facts(),
                "texts": {r.task.label: r.task.texts for r in readings},
                "coverage": {r.task.label: r.summary["coverage"] for r in readings},
                "seconds_per_rollout": {r.task.label: r.summary["seconds_per_rollout"] for r in readings}}
    write_json(out / "analysis.json", document)
    return document


def coverage_rows(readings: list[Reading]) -> list[dict]:
    """The coverage table: read, usable, and a line a cause."""
    rows = []
    for r in readings:
        c = r.coverage
        rows += [{"checkpoint": r.task.label, "what": what, "rollouts": n} for what, n in (
            ("read", c.read), ("usable", c.usable), *((f"left out: {k}", v) for k, v in sorted(c.left_out.items())),
            *((f"remark: {k}", v) for k, v in sorted(c.remarks.items())))]
    return rows


def neighbour_rows(readings: list[Reading], options: Options) -> list[dict]:
    """Agreement of the weights of neighbouring checkpoints of a run, where both saw the same texts; else no row."""
    rows = []
    for one, other in zip(readings, readings[1:], strict=False):
        texts = [[s.rollout.completion_ids for s in r.scored] for r in (one, other)]
        if one.task.run == other.task.run and texts[0] == texts[1]:
            rows += compare_table({one.task.label: one.scored, other.task.label: other.scored},
                                  draws=options.section.bootstrap, seed=options.section.seed)
    return rows


def draw(readings: list[Reading], options: Options, out: Path) -> list[Path]:
    """All figures (PNG and PDF) and the page of token maps; gives the paths."""
    folder, last = out / "figures", readings[-1]
    caption = options.caption(last.task.texts)
    positional = {r.task.label: r.summary["positional"] for r in readings}
    made = {"reference": figures.reference_figure({r.task.label: r.summary["reference"] for r in readings},
                                                  caption=caption),
            "p1_profile": figures.profile_figure(positional, caption=caption),
            "p1_profile_score": figures.profile_figure(positional, caption=caption, quantity="log_score"),
            "p2_correct_wrong": figures.signs_figure(last.task.label, last.summary["positional"], caption=caption),
            "p3_map": figures.heat_figure(positional, caption=caption)}
    c = options.settings
    of_last = f"{last.task.label}: {caption}"
    made["p4_histograms"] = figures_tokens.histogram_figure(last.scored, w_min=c.w_min, w_max=c.w_max, mean=c.mean,
                                                            caption=of_last)
    entropy = next((r for r in last.summary["tables"]["agreement"]
                    if r["reading"] == "entropy" and r["sign"] == "all"), {})
    made["p5_entropy"] = figures_tokens.entropy_figure(
        last.scored, *(_number(entropy.get(k)) for k in ("spearman", "spearman_low", "spearman_high")), caption=of_last)
    if any(r.task.step is not None for r in readings):
        made["p6_training"] = figures_tokens.training_figure(training_rows(readings), caption=caption)
    for name, key, function in (("tail", "tail_lengths", figures_tokens.tail_figure),
                                ("methods", "compare", figures_tokens.matrix_figure),
                                ("deletion", "deletion", figures_tokens.deletion_figure)):
        if last.summary["tables"].get(key):
            made[name] = function(last.summary["tables"][key], caption=of_last)
    paths = [path for name, figure in made.items() for path in save_figure(figure, folder, name)]
    return [*paths, write_page(readings, options, out / "tokens.html")]


def training_rows(readings: list[Reading]) -> list[dict]:
    """What P6 draws: per checkpoint the effective sample size, shares at the bounds, and rollouts with an answer."""
    rows = []
    for r in readings:
        if r.task.step is None:
            continue
        names = {"run": r.task.run, "step": r.task.step}
        rows += [{**names, **{k: row[k] for k in ("quantity", "mean", "low", "high")}}
                 for table in ("weights", "signal") for row in r.summary["tables"][table]
                 if row["sign"] == "all" and row["quantity"] in OVER_TRAINING]
        read = r.coverage.read
        for quantity, n in (("share of rollouts with an answer", sum(s.answer is not None for s in r.scored)),
                            ("share of rollouts reweighted", sum(s.reweighted for s in r.scored))):
            low, high = wilson(n, read)
            rows.append({**names, "quantity": quantity, "mean": n / read, "low": low, "high": high})
    return rows


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson score)."""
    z, p = 1.959964, hits / n
    centre, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (centre - reach) / (1 + z * z / n), (centre + reach) / (1 + z * z / n)


def write_page(readings: list[Reading], options: Options, path: Path) -> Path:
    """The page of token maps: methods side by side, or checkpoints where they share their texts."""
    variants: dict[str, list[Scored]] = {}
    shared = len(readings) > 1 and readings[0].task.texts.startswith("shared")
    several = len(readings) > 1
    prompts: dict[str, str] = {}
    each = max(1, PAGE_ROLLOUTS // (1 if shared else len(readings)))
    for r in readings:
        tokenizer = load_tokenizer(r.task.checkpoint, **options.source)
        views = {options.settings.method: r.scored, **{f"{m} (compared)" if m == options.settings.method else m: v
                                                       for m, v in r.variants.items()}}
        for name, scored in views.items():
            label = f"{r.task.label} {name}" if shared else name
            for one in scored[:each]:
                id = one.rollout.id if shared or not several else f"{r.task.label} {one.rollout.id}"
                variants.setdefault(label, []).append(_renamed(one, id))
                if id not in prompts:
                    prompts[id] = tokenizer.decode(one.rollout.prompt_ids)
    most = max(len(r.scored) for r in readings)
    title = "Token map: " + (readings[0].task.label if not several else
                             f"{readings[0].task.label} to {readings[-1].task.label}")
    note = f" The first {each} of {most} rollouts a checkpoint." if most > each else ""
    data = page_data(variants, prompts, title=title, centre=options.settings.mean,
                     settings=options.caption(readings[-1].task.texts) + note)
    write_text(path, page(data))
    return path


def _renamed(one: Scored, id: str) -> Scored:
    from dataclasses import replace

    return replace(one, rollout=replace(one.rollout, id=id))


def summary_view(readings: list[Reading], options: Options, out: Path) -> Group:
    """What the command prints: coverage, the weights, agreement, and the optional tables of the last checkpoint."""
    from rich.console import Group
    from rich.text import Text

    last, neighbours = readings[-1], neighbour_rows(readings, options)
    parts: list = [_table("Rollouts", coverage_rows(readings), ("checkpoint", "what", "rollouts")),
                   _pivot(f"Weights over the reasoning, {last.task.label} (mean over rollouts, 95 % interval)",
                          last.summary["tables"]["weights"] + last.summary["tables"]["signal"]),
                   _agreement(f"Is it something simpler? {last.task.label}", last.summary["tables"]["agreement"],
                              ("reading", "sign"))]
    if neighbours:
        parts.append(_agreement("Neighbouring checkpoints on the same texts", neighbours, ("first", "second")))
    t = last.summary["tables"]
    for name, title in (("tail", "Tail effect: sd of the reasoning weights by tokens after the answer"),
                        ("tail_lengths", "Tail effect, all rollouts recomputed for several tail lengths")):
        if t.get(name):
            parts.append(_table(title, [
                {**r, "tokens after": r["post_tokens"], "sd of weights": within(r),
                 "effective sample size / n": "" if r["effective_share"] is None else f"{r['effective_share']:.3f}"}
                for r in t[name]],
                ("tokens after", "stats", "sd of weights", "effective sample size / n", "rollouts")))
    if t.get("compare"):
        parts.append(_agreement("Methods on the same rollouts", t["compare"], ("first", "second")))
        parts.append(_pivot("Methods", [{**r, "sign": r["method"]} for r in t["methods"]]))
    if t.get("deletion"):
        parts.append(_pivot("Faithfulness: drop of the answer's log-probability (nats) after deleting tokens", [
            {**r, "sign": r["kind"] if r["share"] is None else f"top {r['share']:.0%}", "quantity": r["ranking"]}
            for r in t["deletion"]]))
        references = t["against_oar_p"] + t["against_random_model"]
        parts.append(_table("Faithfulness: Spearman of scores", [
            {**r, "spearman": within({**r, "mean": r["spearman"]})} for r in references],
            ("ranking", "reference", "spearman", "rollouts")))
    return Group(*[item for part in parts for item in (part, Text(""))], Text(f"written to {out.resolve()}"))


def within(row: dict) -> str:
    """`0.83 [0.81, 0.85]`; the interval is left out where it is blank."""
    mean, low, high = (_number(row[k]) for k in ("mean", "low", "high"))
    if math.isnan(mean):
        return ""
    return f"{mean:.3f}" + ("" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]")


def _table(title: str, rows: list[dict], columns: tuple[str, ...]):
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        numeric = bool(rows) and isinstance(rows[0][column], int | float)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*("" if row[c] is None else str(row[c]) for c in columns))
    return table


def _pivot(title: str, rows: list[dict]):
    """A line a quantity, a column a sign (or kind)."""
    signs = list(dict.fromkeys(r["sign"] for r in rows))
    cells = {(r["quantity"], r["sign"]): within(r) for r in rows}
    table = [{"": q, **{s: cells.get((q, s), "") for s in signs}} for q in dict.fromkeys(r["quantity"] for r in rows)]
    return _table(title, table, ("", *signs)) if table else title


def _agreement(title: str, rows: list[dict], names: tuple[str, str]):
    shown = [{**{n: r[n] for n in names},
              "spearman": within({"mean": r["spearman"], "low": r["spearman_low"], "high": r["spearman_high"]}),
              "top 20 % overlap (chance 0.2)": within({"mean": r["top20_overlap"], "low": r["top20_low"],
                                                       "high": r["top20_high"]}),
              "rollouts": r["rollouts"]} for r in rows]
    return _table(title, shown, (*names, "spearman", "top 20 % overlap (chance 0.2)", "rollouts")) if shown else title


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
