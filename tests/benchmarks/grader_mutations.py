"""Ten equivalent rewritings and ten near misses of every gold of the six suites: how many are judged wrongly.

    python tests/benchmarks/grader_mutations.py ../shared/bench [--plain] [--share 0.2] [--show 20]

Prints the share of rewritings rejected and of near misses accepted, a suite a line, for our grader and with
--plain
for math-verify alone (minutes). The changes are made on the text, by rules that know nothing of the grader's
reader.
"""

import argparse
import random
import re
import sys
from collections import defaultdict

from grail_cli.evaluation.benchmarks import PAPER, load_suite
from grail_cli.evaluation.grade import Grader

OPERATORS = re.compile(r"(?<=[\w})\]])\s*([+=])\s*(?=[\w\\({\[])")


def bare(gold: str) -> str:
    """A gold without its dollar signs and the point at its end."""
    return re.sub(r"(?<!\\right)\.$", "", re.sub(r"(?<!\\)\$", "", gold).strip()).strip()


def depth_parts(text: str, mark: str) -> list[str]:
    """A text split at a mark outside all brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and text.startswith(mark, index):
            parts.append(text[start:index])
            start = index + len(mark)
    return [*parts, text[start:]]


def is_prose(text: str) -> bool:
    """Whether a gold is a sentence or a display of many parts, where only layout may change."""
    return (
        bool(re.search(r"[A-Za-z]{3,}\s+[A-Za-z]{2,}", re.sub(r"\\[A-Za-z]+(\{[^{}]*\})?", "", text)))
        or "\\begin{align" in text
    )


def rewritings(gold: str) -> list[str]:
    """Up to ten answers that say the same, made by layout and notation alone."""
    g = bare(gold)
    number = re.fullmatch(r"-?\d+", g)
    made = [
        g + ".",
        f"\n{g}\n",
        f"${g}$",
        rf"\boxed{{{g}}}",
        rf"\color{{blue}}{{{g}}}",
        f" {g} ",
        rf"\displaystyle {g}",
        rf"{{{g}}}",
    ]
    if "\\frac" in g and "\\dfrac" not in g:
        made.append(g.replace("\\frac", "\\dfrac"))
        made.append(g.replace("\\frac", "\\tfrac"))
    simple = re.fullmatch(r"(-?)\\d?frac\{(\d+)\}\{(\d+)\}", g)
    if simple:
        sign, a, b = simple.groups()
        made += [
            f"{sign}{a}/{b}",
            rf"{sign}\frac{{{2 * int(a)}}}{{{2 * int(b)}}}",
            rf"{sign}{{{a} \over {b}}}",
            rf"\frac{{{sign}{a}}}{{{b}}}",
        ]
    if number:
        made += [
            g + ".0",
            f"x={g}",
            rf"\text{{{g}}}",
            f"+{g}" if not g.startswith("-") else g.replace("-", "−"),
            rf"\textbf{{{g}}}",
        ]
        if len(g.lstrip("-")) > 3:
            made += [f"{int(g):,}", f"{int(g):,}".replace(",", r"{,}"), f"{int(g):,}".replace(",", r"\,")]
    if re.fullmatch(r"-?\d*\.\d+", g):
        made += [g + "0", g + "00", f"x={g}"] + (["0" + g] if g.startswith(".") else [])
    exponent = re.fullmatch(r"(-?\d+\.?\d*)e(-?\d+)", g)
    if exponent:
        made += [
            rf"{exponent[1]} \times 10^{{{exponent[2]}}}",
            rf"{exponent[1]}\cdot 10^{{{exponent[2]}}}",
            g.upper(),
            f"{exponent[1]} × 10^{{{exponent[2]}}}",
        ]
    if "(" in g or "[" in g:
        if "\\left" in g:
            made.append(re.sub(r"\\(?:left|right)(?![.a-z])", "", g))
        elif not is_prose(g):
            made.append(re.sub(r"([(\[])", r"\\left\1", re.sub(r"([)\]])", r"\\right\1", g)))
    if OPERATORS.search(g) and not is_prose(g):
        made.append(OPERATORS.sub(r" \\, \1 \\, ", g))
    if "-" in g:
        made.append(g.replace("-", "−"))
    if "\\pi" in g:
        made.append(re.sub(r"\\pi(?![a-z])", "π", g))
    if "^\\circ" in g:
        made += [g.replace("^\\circ", ""), g.replace("^\\circ", "°"), g.replace("^\\circ", "^{\\circ}")]
    if re.search(r"(?<=\d) ?(?=\\(?:sqrt|pi|frac))", g) and not re.search(r"\d ?\\d?frac", g):
        made.append(re.sub(r"(?<=\d) ?(?=\\(?:sqrt|pi))", r" \\cdot ", g))
    parts = [part.strip() for part in depth_parts(g, ",")]
    if (
        len(parts) > 1
        and all(parts)
        and not is_prose(g)
        and not re.search(r"[=.]|dots|\d,(\\! ?)?\d{3}|\\cup", g)
        and g.count("(") == g.count(")")
    ):
        made.append(", ".join(reversed(parts)))
    union = depth_parts(g, "\\cup")
    if len(union) > 1 and not re.search(r"\\cup *,|:", g):
        made.append(" \\cup ".join(part.strip() for part in reversed(union)))
    terms = depth_parts(g, "+")
    if (
        len(terms) == 2
        and all(re.fullmatch(r"[\w\s\\{}^/.()-]+", t) for t in terms)
        and "=" not in g
        and not is_prose(g)
        and "text" not in g
    ):
        made.append(f"{terms[1].strip()}+{terms[0].strip()}")
    seen = list(dict.fromkeys(made))
    plain, special = seen[:8], seen[8:]
    return [*special, *plain][:10]


def near_misses(gold: str, rng: random.Random) -> list[str]:
    """Up to ten answers that look alike and are wrong."""
    g = bare(gold)
    made = []
    numbers = [
        m
        for m in re.finditer(r"\d+", g)
        if not re.search(r"[_]\{?\s*$", g[: m.start()])
        and not re.match(r"[^{]*\}\s*\{", g[m.end() :])
        or "frac" in g[: m.start()]
    ]
    numbers = [m for m in numbers if not re.search(r"_\{?\s*$", g[: m.start()])]
    for match in numbers[:2] + numbers[-1:]:
        n = match.group()
        for other in (
            str(int(n) + 1).zfill(len(n) if n.startswith("0") else 0),
            n + "7" if not re.search(r"\.\d*$", g[: match.start()]) else n + "73",
        ):
            made.append(g[: match.start()] + other + g[match.end() :])
        if len(n) > 1 and n != n[::-1] and n[::-1].lstrip("0"):
            made.append(g[: match.start()] + n[::-1] + g[match.end() :])
    first = g.lstrip()
    if re.fullmatch(r"-?\d*\.?\d+(?:e-?\d+)?", g):
        if float(g):
            made += [
                g[1:] if g.startswith("-") else "-" + g,
                f"{float(g) * 2 + 1:g}"
                if abs(float(g)) < 1e5
                else g.replace(g[0], "7" if g[0] != "7" else "3", 1),
            ]
        made += [
            g + "x" if float(g) else "x",
            rf"\frac{{{g}}}{{7}}" if float(g) else "1",
            rf"{g}\sqrt{{2}}" if float(g) else "2",
        ]
    elif first.startswith(("(", "[", "\\left(", "\\left[")) and g.rstrip().endswith((")", "]")):
        swap = {"(": "[", "[": "("}
        opening = re.match(r"(?:\\left)?([(\[])", first)
        if "," in g:
            made.append(re.sub(r"([(\[])", lambda m: swap[m.group()], first, count=1) if opening else g)
            inner = re.fullmatch(r"\(([^(),]+),([^(),]+)\)", g.replace("\\left", "").replace("\\right", ""))
            if inner and inner[1].strip() != inner[2].strip():
                made.append(f"({inner[2].strip()},{inner[1].strip()})")
    parts = [part.strip() for part in depth_parts(g, ",")]
    if len(parts) > 1 and all(parts) and not re.fullmatch(r"\d{1,3}(,\d{3})+", g) and not is_prose(g):
        made += [",".join(parts[:-1]), ",".join([*parts, "91"]), parts[0]]
    if "\\pm" in g:
        made += [g.replace("\\pm", "+"), g.replace("\\pm", "-")]
    if "+" in g and not is_prose(g) and not g.startswith("+"):
        made.append(g.replace("+", "-", 1))
    if re.search(r"(?<=[\w})])\s*-", g) and "e-" not in g and not is_prose(g):
        made.append(re.sub(r"(?<=[\w})])\s*-", "+", g, count=1))
    for one, other in (
        ("\\sin", "\\tan"),
        ("\\cos", "\\sin"),
        ("\\ln", "\\sin"),
        ("\\sqrt[3]", "\\sqrt"),
        ("\\sqrt{", "\\sqrt[5]{"),
        ("\\leq", "\\geq"),
        (">", "<"),
        ("\\cup", "\\cap"),
        ("\\infty)", "\\infty]"),
    ):
        if one in g:
            made.append(g.replace(one, other, 1))
    if re.fullmatch(r"-?\\d?frac\{.*\}\{.*\}", g):
        made.append(g[1:] if g.startswith("-") else "-" + g)
    words = re.fullmatch(r"\\text\{\(?([A-Za-z]+)\)?\}", g)
    if words:
        made += [
            rf"\text{{{w}}}" for w in ("Monday", "odd", "west", "parabola", "F", "Adam") if w != words[1]
        ]
    made += [
        c
        for c in (
            r"1=2",
            "k",
            r"\mathbb{R}",
            r"\emptyset",
            "0=0",
            r"\text{the same}",
            "x",
            "7919",
            r"\infty",
            "(17,23)",
        )
        if c != g and not (c == r"\emptyset" and re.search("[Nn]o solution|Inconsistent", g))
    ]
    made = [answer for answer in dict.fromkeys(made) if answer and answer != g]
    special = made[:-10]
    rng.shuffle(special)
    return [*special, *made[-10:]][:10]


def plain_verdicts(pairs: list[tuple[str, str]], workers: int) -> list[bool]:
    """math-verify 0.9.0 alone, the usual way: both parsed as boxes, its own time limits on."""
    import logging
    import multiprocessing

    logging.disable(logging.CRITICAL)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return pool.map(_plain, pairs, chunksize=50)


def _plain(pair: tuple[str, str]) -> bool:
    import logging

    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)
    gold, answer = (parse(rf"\boxed{{{text}}}") for text in pair)
    return bool(verify(gold, answer))


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("data_dir")
    arguments.add_argument("--plain", action="store_true")
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--share", type=float, default=1.0, help="of the problems, at random")
    arguments.add_argument("--show", type=int, default=0)
    options = arguments.parse_args()
    rng, chosen = random.Random(0), random.Random(1)
    rows = []  # suite, kind, gold, answer
    for suite in PAPER:
        for problem in load_suite(suite, options.data_dir)[1]:
            if chosen.random() >= options.share:
                continue
            rows += [(suite, "rewriting", problem.gold, answer) for answer in rewritings(problem.gold)]
            rows += [(suite, "near miss", problem.gold, answer) for answer in near_misses(problem.gold, rng)]
    pairs = list(dict.fromkeys((gold, answer) for _, _, gold, answer in rows))
    with Grader() as grader:
        ours = dict(zip(pairs, (v.correct for v in grader.grade_answers(pairs)), strict=True))
        rules = dict(zip(pairs, (v.rule for v in grader.grade_answers(pairs)), strict=True))
    graders = {"ours": ours}
    if options.plain:
        graders["math-verify"] = dict(zip(pairs, plain_verdicts(pairs, options.workers), strict=True))
    for name, verdicts in graders.items():
        counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        for suite, kind, gold, answer in rows:
            for key in ((suite, kind), ("all", kind)):
                counts[key][0] += 1
                counts[key][1] += verdicts[gold, answer] != (kind == "rewriting")
        for suite in (*PAPER, "all"):
            (many, rejected), (misses, accepted) = counts[suite, "rewriting"], counts[suite, "near miss"]
            print(
                f"{name:<12} {suite:<14} rewritings rejected {rejected:>4} of {many:>5} "
                f"({100 * rejected / many:.2f} %), "
                f"near misses accepted {accepted:>4} of {misses:>5} ({100 * accepted / misses:.2f} %)"
            )
    shown = 0
    for suite, kind, gold, answer in dict.fromkeys(rows):
        if ours[gold, answer] != (kind == "rewriting") and shown < options.show:
            shown += 1
            print(f"{kind} {suite}: {gold!r} | {answer!r} | {rules[gold, answer]}", file=sys.stderr)


if __name__ == "__main__":
    main()
