"""Figures by position: the reference's three panels, and P1 to P3 with intervals over rollouts.

Input are the documents that are also on disk (positional.json, checkpoint_*_pos_summary.json), never models. Each
function returns the figure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .figure_style import (
    DASHES,
    DIVERGING,
    MARKERS,
    SIGN_COLOUR,
    SIGN_DASH,
    empty,
    note,
    numbers,
    step_colours,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POSITION = "position in the reasoning (0 first, 1 last token)"
WEIGHT = "token weight (mean)"


def reference_figure(summaries: dict[str, dict], *, caption: str = "") -> Figure:
    """The reference's figure: a line a checkpoint, correct against wrong at the last one, and a map of all.

    summaries: label -> document of `reference_summary`, in order. Bands are one standard error over pooled tokens,
    as in the reference, and too narrow for a test: tokens of one rollout are not independent.
    """
    with styled(3, 1, width=4.6, height=4.0) as (figure, (left, middle, right)):
        colours = step_colours(len(summaries))
        for i, (label, doc) in enumerate(summaries.items()):
            _pooled_line(left, doc, "all", label, colours[i], DASHES[i % len(DASHES)])
        left.axhline(1.0, color="#888888", linewidth=0.8)
        left.set_title("Weight by position, a line a checkpoint")
        if summaries:
            last_label, last = list(summaries.items())[-1]
            for sign in ("correct", "wrong"):
                name = f"{sign} ({last['n_samples'][sign]} rollouts)"
                _pooled_line(middle, last, sign, name, SIGN_COLOUR[sign], SIGN_DASH[sign])
            middle.axhline(1.0, color="#888888", linewidth=0.8)
            middle.set_title(f"Correct and wrong at {last_label}")
        for axes in (left, middle):
            axes.set_xlabel(POSITION)
            axes.set_ylabel(WEIGHT)
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
        _position_map(figure, right, {k: d["weight"]["all"]["mean"] for k, d in summaries.items()})
        note(figure, (caption + "   " if caption else "") + "Bands: one standard error over pooled tokens.")
    return figure


def profile_figure(positional: dict[str, dict], *, caption: str = "", quantity: str = "weight") -> Figure:
    """P1: profile over rollouts, a line a checkpoint or run, with 95 % bootstrap bands."""
    with styled(width=6.4, height=4.2) as (figure, (axes,)):
        colours = step_colours(len(positional))
        for i, (label, doc) in enumerate(positional.items()):
            name = f"{label} ({doc['rollouts']['all']} rollouts)"
            _band_line(axes, doc, doc[quantity]["all"], name, colours[i], DASHES[i % len(DASHES)],
                       MARKERS[i % len(MARKERS)])
        if quantity == "weight":
            axes.axhline(1.0, color="#888888", linewidth=0.8)
        axes.set_xlabel(POSITION)
        axes.set_ylabel(WEIGHT if quantity == "weight" else "log score (nats, mean)")
        axes.set_title("Weight by position" if quantity == "weight" else "Log score by position")
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
        note(figure, f"{caption}   Bands: 95 % bootstrap over rollouts." + _dropped(positional))
    return figure


def signs_figure(label: str, doc: dict, *, caption: str = "") -> Figure:
    """P2: correct against wrong at one checkpoint, and their difference, with 95 % bootstrap bands."""
    with styled(2, 1, width=5.2, height=4.0) as (figure, (left, right)):
        for sign, marker in (("correct", "o"), ("wrong", "s")):
            name = f"{sign} ({doc['rollouts'][sign]} rollouts)"
            _band_line(left, doc, doc["weight"][sign], name, SIGN_COLOUR[sign], SIGN_DASH[sign], marker)
        left.axhline(1.0, color="#888888", linewidth=0.8)
        left.set_title(f"Correct and wrong, {label}")
        left.set_ylabel(WEIGHT)
        if left.get_legend_handles_labels()[0]:
            left.legend()
        if min(doc["rollouts"]["correct"], doc["rollouts"]["wrong"]):
            _band_line(right, doc, doc["weight"]["difference"], "", SIGN_COLOUR["all"], "-", "o")
            right.axhline(0.0, color="#888888", linewidth=0.8)
        else:
            empty(right, "needs correct and wrong rollouts")
        right.set_title("Correct minus wrong")
        right.set_ylabel("difference of weight")
        for axes in (left, right):
            axes.set_xlabel(POSITION)
        note(figure, f"{caption}   Bands: 95 % bootstrap over rollouts." + _dropped({label: doc}))
    return figure


def heat_figure(positional: dict[str, dict], *, caption: str = "") -> Figure:
    """P3: checkpoint by position, colours centred on a weight of one."""
    with styled(width=6.8, height=1.6 + 0.42 * max(len(positional), 3)) as (figure, (axes,)):
        _position_map(figure, axes, {k: d["weight"]["all"]["mean"] for k, d in positional.items()})
        note(figure, f"{caption}   Mean over rollouts." + _dropped(positional))
    return figure


def _pooled_line(axes: Axes, doc: dict, sign: str, label: str, colour, dash) -> None:
    part = doc["weight"][sign]
    mean, sem = numbers(part["mean"]), numbers(part["sem"])
    if all(math.isnan(m) for m in mean):
        return
    axes.plot(doc["bin_centers"], mean, color=colour, linestyle=dash, label=label)
    axes.fill_between(doc["bin_centers"], [m - s for m, s in zip(mean, sem, strict=True)],
                      [m + s for m, s in zip(mean, sem, strict=True)], color=colour, alpha=0.2, linewidth=0)


def _band_line(axes: Axes, doc: dict, part: dict, label: str, colour, dash, marker) -> None:
    mean = numbers(part["mean"])
    if all(math.isnan(m) for m in mean):
        return
    axes.plot(doc["bin_centers"], mean, color=colour, linestyle=dash, marker=marker, label=label)
    axes.fill_between(doc["bin_centers"], numbers(part["low"]), numbers(part["high"]), color=colour, alpha=0.18,
                      linewidth=0)


def _position_map(figure: Figure, axes: Axes, rows: dict[str, list]) -> None:
    """Rows of weights by bin, labelled; the colour range is symmetric about one and as wide as the data."""
    values = [numbers(row) for row in rows.values()]
    finite = [v for row in values for v in row if not math.isnan(v)]
    axes.set_title("Weight, checkpoint by position")
    if not finite:
        empty(axes, "no rollout with reasoning before a box")
        return
    reach = max(max(abs(v - 1) for v in finite), 0.05)
    image = axes.imshow(values, aspect="auto", cmap=DIVERGING, vmin=1 - reach, vmax=1 + reach,
                        extent=(0, 1, len(values), 0), interpolation="nearest")
    axes.set_yticks([i + 0.5 for i in range(len(rows))], list(rows))
    axes.set_xlabel(POSITION)
    axes.grid(False)
    figure.colorbar(image, ax=axes, label="token weight (1: as in GRPO)")


def _dropped(positional: dict[str, dict]) -> str:
    doc = next(iter(positional.values()), {})
    if not doc.get("drop_first") and not doc.get("drop_last"):
        return ""
    return f"   Without the first {doc['drop_first']} and the last {doc['drop_last']} reasoning tokens."
