"""Token maps: one rollout coloured in the terminal, and the data of the self-contained page.

Colour says how far a token is from its neighbours under the chosen series; the answer is underlined, and characters
that one would not see (line ends, tabs, control characters) are shown by a sign.
"""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from .records import Scored

if TYPE_CHECKING:
    from rich.console import Group

SERIES = ("weight", "score", "entropy", "logprob")
_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽", "\u200b": "∅", "\ufffd": "\ufffd"}


def visible(text: str, *, space: str = " ") -> str:
    """The token with invisible characters replaced by signs; an empty token (a special one) is `∅`."""
    shown = "".join(_SIGNS.get(c, f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else space if c == " " else c)
                    for c in text)
    return shown or "∅"


def series_values(one: Scored, series: str) -> np.ndarray | None:
    """(T,) values of a series; None when it was not measured."""
    return {"weight": one.weights, "score": one.scores, "entropy": one.entropy, "logprob": one.logprob}[series]


def shades(values: np.ndarray, series: str, centre: float = 1.0, ranged: int | None = None) -> np.ndarray:
    """Position of each value on the colour scale, (T,): -1..1 about `centre` for weights, 0..1 for the others.

    The first `ranged` weights (the reasoning) set the scale: pinned ones of the answer would whiten it. Scores enter
    as logarithms and are cut at their 5 % and 95 % points, since a few of them dwarf the rest.
    """
    values = np.asarray(values, dtype=np.float64)
    if series == "weight":
        off = np.abs(values[:ranged or None] - centre)
        reach = max(float(np.percentile(off, 95)), 0.05) if len(off) else 1.0
        return np.clip((values - centre) / reach, -1, 1)
    if series == "score":
        values = np.log(values + 1e-8)
        positive = values[values > math.log(2e-8)]
        low, high = np.percentile(positive, [5, 95]) if len(positive) else (0.0, 1.0)
    else:
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return np.clip((values - low) / max(high - low, 1e-12), 0, 1)


def terminal_map(one: Scored, series: str, *, title: str = "", centre: float = 1.0) -> Group:
    """One rollout for rich: coloured tokens, the answer underlined, and a legend in words."""
    from rich.console import Group
    from rich.text import Text

    values = series_values(one, series)
    if values is None:
        raise ValueError(f"series {series!r} was not measured")
    body = Text()
    content, answer = set(one.content), set(one.answer or ())
    for t, (token, shade) in enumerate(zip(one.tokens, shades(values, series, centre, one.reasoning), strict=True)):
        red, green, blue = colour_of(float(shade), series)
        ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"
        style = f"{ink} on #{red:02x}{green:02x}{blue:02x}"
        if t in answer:
            style += " underline" + (" bold" if t in content else "")
        body.append(visible(token), style=style)
        if "\n" in token:
            body.append("\n")
    low, high = float(np.min(values)), float(np.max(values))
    legend = Text(f"{series}: {low:.4g} ({'orange' if series == 'weight' else 'light'}"
                  f" is {'above' if series == 'weight' else 'high'}) to {high:.4g}; "
                  f"answer underlined, boxed content bold", style="dim")
    title = title or f"{one.rollout.id}  {one.rollout.sign or 'no verdict'}  {len(one.tokens)} tokens"
    head = Text(title, style="bold")
    return Group(head, body, legend)


def colour_of(shade: float, series: str) -> tuple[int, int, int]:
    """RGB of a shade: purple - white - orange for weights, dark blue to pale yellow for the others."""
    if series == "weight":
        end = (230, 97, 1) if shade > 0 else (94, 60, 153)
        return tuple(round(255 + (c - 255) * abs(shade) * 0.85) for c in end)
    stops = ((0, 34, 78), (124, 123, 120), (254, 232, 56))  # cividis, three stops
    i, rest = (0, shade * 2) if shade < 0.5 else (1, shade * 2 - 1)
    return tuple(round(a + (b - a) * rest) for a, b in zip(stops[i], stops[i + 1], strict=True))


def page_data(variants: dict[str, list[Scored]], prompts: dict[str, str], *, title: str, centre: float,
              settings: str) -> dict:
    """What the page shows: rollouts once, and a set of series for every variant (method or checkpoint).

    variants: name -> scored rollouts; the same rollout is found again by id. Numbers keep five digits.
    """
    rollouts: dict[str, dict] = {}
    for name, scored in variants.items():
        for one in scored:
            entry = rollouts.setdefault(one.rollout.id, {
                "id": one.rollout.id, "sign": one.rollout.sign or "", "prompt": prompts.get(one.rollout.id, ""),
                "truncated": one.rollout.truncated, "tokens": list(one.tokens), "regions": one.regions,
                "advantage": one.rollout.advantage, "variants": {}})
            entry["variants"][name] = {"reweighted": one.reweighted, **{
                series: [_five(v) for v in values] for series in SERIES
                if (values := series_values(one, series)) is not None}}
    return {"title": title, "centre": centre, "settings": settings, "variants": list(variants),
            "rollouts": list(rollouts.values())}


def page(data: dict) -> str:
    """One HTML file that needs nothing else: data as JSON inside, no address of any kind, text never as markup."""
    template = files("grail_cli.analysis").joinpath("tokenmap.html").read_text(encoding="utf-8")
    payload = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for bad, good in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        payload = payload.replace(bad, good)
    return template.replace("__DATA__", payload)


def _five(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
