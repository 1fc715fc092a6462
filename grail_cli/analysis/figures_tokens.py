"""Figures over tokens and checkpoints: histograms (P4), weight against entropy (P5), lines over training (P6), more.

Each function returns the figure. Histograms and hexbins pool tokens to show a shape; every number in a title is taken
inside a rollout and averaged over rollouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .figure_style import AMOUNT, BLUE, CYCLE, DASHES, MARKERS, empty, note, numbers, styled
from .records import Scored, of_sign
from .tables import log_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def histogram_figure(scored: list[Scored], *, w_min: float, w_max: float, mean: float, caption: str = "") -> Figure:
    """P4: log score and weight of the reasoning tokens, with the bounds of clipping drawn."""
    with styled(2, 1, width=5.0, height=3.8) as (figure, (left, right)):
        chosen = of_sign(scored, "all")
        weighted = [s for s in chosen if s.reweighted]
        if chosen:
            left.hist(np.concatenate([log_scores(s) for s in chosen]), bins=60, color=BLUE)
        else:
            empty(left, "no rollout with reasoning before a box")
        if weighted:
            right.hist(np.concatenate([s.weights[:s.reasoning] for s in weighted]), bins=60, color=BLUE)
            for x, name, dash in ((w_min, "w_min", "--"), (mean, "mean", "-"), (w_max, "w_max", ":")):
                right.axvline(x, color="black", linestyle=dash, linewidth=1.2, label=f"{name} = {x:g}")
            right.set_yscale("log")
            right.legend()
        else:
            empty(right, "no rollout was reweighted")
        left.set(title="Raw score of reasoning tokens", xlabel="log score (nats)", ylabel="tokens")
        right.set(title="Weight of reasoning tokens", xlabel="weight", ylabel="tokens (log)")
        note(figure, f"{caption}   {len(chosen)} rollouts, {len(weighted)} reweighted.")
    return figure


def entropy_figure(scored: list[Scored], rho: float, low: float, high: float, *, caption: str = "") -> Figure:
    """P5: weight against the policy's entropy, tokens as a density; rho is the mean over rollouts."""
    with styled(width=5.6, height=4.4) as (figure, (axes,)):
        chosen = [s for s in of_sign(scored, "all") if s.reweighted and s.entropy is not None]
        if chosen:
            x = np.concatenate([s.entropy[:s.reasoning] for s in chosen])
            y = np.concatenate([s.weights[:s.reasoning] for s in chosen])
            cells = axes.hexbin(x, y, gridsize=45, bins="log", mincnt=1, cmap=AMOUNT, linewidths=0.1)
            figure.colorbar(cells, ax=axes, label="tokens (log)")
        else:
            empty(axes, "no reweighted rollout with entropy")
        within = f" [{low:.2f}, {high:.2f}]" if np.isfinite(low) else ""
        axes.set(title=f"Weight and entropy: Spearman {rho:.2f}{within}" if np.isfinite(rho)
                 else "Weight and entropy", xlabel="entropy of the policy (nats)", ylabel="token weight")
        note(figure, f"{caption}   Spearman inside a rollout, mean over {len(chosen)} rollouts, 95 % interval.")
    return figure


def training_figure(rows: list[dict], *, caption: str = "") -> Figure:
    """P6: over checkpoints, the effective sample size, shares at the bounds, and rollouts with an answer.

    rows: {run, step, quantity, mean, low, high}; one line a run in each panel.
    """
    quantities = list(dict.fromkeys(r["quantity"] for r in rows))
    with styled(min(len(quantities), 3) or 1, (len(quantities) + 2) // 3 or 1, width=4.0, height=3.2) as (figure, axes):
        for place, quantity in zip(axes, quantities, strict=False):
            for i, run in enumerate(dict.fromkeys(r["run"] for r in rows)):
                mine = [r for r in rows if r["run"] == run and r["quantity"] == quantity]
                steps, mean = [r["step"] for r in mine], numbers([r["mean"] for r in mine])
                low, high = numbers([r["low"] for r in mine]), numbers([r["high"] for r in mine])
                place.plot(steps, mean, color=CYCLE[i % len(CYCLE)], linestyle=DASHES[i % len(DASHES)],
                           marker=MARKERS[i % len(MARKERS)], label=run)
                place.fill_between(steps, low, high, color=CYCLE[i % len(CYCLE)], alpha=0.18, linewidth=0)
            place.set(title=quantity, xlabel="training step", ylabel="share" if "share" in quantity or "/ n" in quantity
                      else "mean")
            place.locator_params(axis="x", integer=True, nbins=6)
            if quantity.startswith("share"):
                place.set_ylim(0, min(max(place.get_ylim()[1], 0.05), 1.02))
        for place in axes[len(quantities):]:
            place.axis("off")
        if quantities:
            axes[0].legend()
        note(figure, f"{caption}   Bands: 95 % bootstrap over rollouts.")
    return figure


def matrix_figure(pairs: list[dict], *, caption: str = "") -> Figure:
    """Agreement of methods as two matrices: Spearman's rho, and overlap of the top fifth (chance 0.20)."""
    names = list(dict.fromkeys([r["first"] for r in pairs] + [r["second"] for r in pairs]))
    size = max(1.4 + 0.75 * len(names), 4.2)
    with styled(2, 1, width=size + 0.6, height=size) as (figure, panels):
        for axes, key, title, low, cmap in ((panels[0], "spearman", "Spearman of weights", -1, "PuOr_r"),
                                            (panels[1], "top20_overlap", "Overlap of the top 20 % (chance 0.20)", 0,
                                             AMOUNT)):
            grid = np.full((len(names), len(names)), np.nan)
            for r in pairs:
                i, j = names.index(r["first"]), names.index(r["second"])
                grid[i, j] = grid[j, i] = np.nan if r[key] is None else r[key]
            image = axes.imshow(grid, vmin=low, vmax=1, cmap=cmap)
            for i in range(len(names)):
                for j in range(len(names)):
                    value = grid[i, j]
                    shade = (value - low) / (1 - low) if np.isfinite(value) else 0.5
                    dark = abs(shade - 0.5) > 0.35 if low < 0 else shade < 0.5
                    axes.text(j, i, f"{value:.2f}" if np.isfinite(value) else ("" if i == j else "blank"),
                              ha="center", va="center", fontsize=9,
                              color="white" if dark and np.isfinite(value) else "black")
            axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
            axes.set_yticks(range(len(names)), names)
            axes.set_title(title)
            axes.grid(False)
            figure.colorbar(image, ax=axes, shrink=0.8)
        note(figure, f"{caption}   Inside a rollout, mean over rollouts; blank: a method whose weights are constant.")
    return figure


def tail_figure(rows: list[dict], *, caption: str = "") -> Figure:
    """Spread of the reasoning weights by tail length, under the two rules of statistics; rows of `tail_lengths`."""
    with styled(width=6.0, height=3.8) as (figure, (axes,)):
        groups = list(dict.fromkeys(r["post_tokens"] for r in rows))
        for i, rule in enumerate(dict.fromkeys(r["stats"] for r in rows)):
            mine = [r for r in rows if r["stats"] == rule]
            x = [groups.index(r["post_tokens"]) + (i - 0.5) * 0.12 for r in mine]
            mean = np.array(numbers([r["mean"] for r in mine]))
            low, high = np.array(numbers([r["low"] for r in mine])), np.array(numbers([r["high"] for r in mine]))
            axes.errorbar(x, mean, yerr=[mean - low, high - mean], color=CYCLE[i], marker=MARKERS[i], capsize=3,
                          linestyle=DASHES[i], label=f"stats: {rule}")
        counts = {r["post_tokens"]: r["rollouts"] for r in rows}
        axes.set_xticks(range(len(groups)), [f"{g}\n({counts[g]} rollouts)" for g in groups])
        axes.set_ylim(bottom=0)
        axes.set(title="Tail effect", xlabel="tokens after the answer",
                 ylabel="sd of the reasoning weights")
        axes.legend()
        note(figure, f"{caption}   Bars: 95 % bootstrap over rollouts.")
    return figure


def deletion_figure(rows: list[dict], *, caption: str = "") -> Figure:
    """Drop of the answer's log-probability when a share of the reasoning tokens is replaced by the pad token."""
    with styled(2, 1, width=6.4, height=4.4) as (figure, (left, right)):
        curves = [r for r in rows if r["kind"] == "top share"]
        for i, name in enumerate(dict.fromkeys(r["ranking"] for r in curves)):
            mine = [r for r in curves if r["ranking"] == name]
            left.plot([100 * r["share"] for r in mine], numbers([r["mean"] for r in mine]), label=name,
                      color=CYCLE[i % len(CYCLE)], linestyle=DASHES[i % len(DASHES)], marker=MARKERS[i % len(MARKERS)])
        left.set(title="Deletion curve", xlabel="reasoning tokens replaced (%)",
                 ylabel="drop of answer log-probability (nats)")
        left.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        matched = [r for r in rows if r["kind"] == "position-matched"]
        for i, r in enumerate(matched):
            right.plot([r["mean"]], [i], marker="o", color=BLUE)
            if r["low"] is not None and np.isfinite(r["low"]):
                right.plot([r["low"], r["high"]], [i, i], color=BLUE, linewidth=1.6)
        right.axvline(0, color="#888888", linewidth=0.8)
        right.set_yticks(range(len(matched)), [r["ranking"] for r in matched])
        right.invert_yaxis()
        right.set(title="Position-matched: one token of each slice", xlabel="drop of answer log-probability (nats)")
        note(figure, f"{caption}   Points: mean over rollouts; bars: 95 % bootstrap over rollouts.")
    return figure
