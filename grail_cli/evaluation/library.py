"""math-verify as the last resort: its yes counts when nothing was lost on the way, its no is `wrong`.

It is asked only about formulas that our own reader does not know and whose numbers and letters are the same; its known
false acceptances (fragments, lists cut to one value, statements without symbols) are vetoed by that.
"""

from math_verify import LatexExtractionConfig, parse, verify


def ask_library(gold: str, answer: str, strictness: str) -> tuple[str, str]:
    """(verdict, rule) of math-verify for two answers. Its own time limits are off: the worker's are on."""
    config = [LatexExtractionConfig(boxed_match_priority=0)]
    ours = parse(rf"\boxed{{{gold}}}", config, parsing_timeout=None)
    theirs = parse(rf"\boxed{{{answer}}}", config, parsing_timeout=None)
    if len(ours) < 2 or len(theirs) < 2 or isinstance(ours[0], str) or isinstance(theirs[0], str):
        return "wrong", "unreadable"
    right = verify(ours, theirs, strict=strictness == "strict", timeout_seconds=None)
    return ("correct" if right else "wrong"), "math-verify"
