"""Decide one answer against its gold: `judge` gives (verdict, rule), or None when only the library can tell.

Order: equal letters, choices, clock times, then the trees of both read by `maths` and compared by kind; texts for what
cannot be read. math-verify is asked last (`ask_library`), and only its yes counts, after vetoes.
"""

import ast
import re

from .maths.compare import compare
from .maths.expressions import BEYOND
from .maths.notation import clean, letters
from .maths.reader import read
from .maths.tokens import Unreadable
from .maths.words import meaning, plain_words

MAX_LENGTH = 20_000  # characters of an answer that is read; longer ones are compared by their letters
LIBRARY_LENGTH = (
    400  # characters of a formula that math-verify is asked about: its parser can take exponential time
)
_CHOICE = re.compile(r"\(?([A-J])\)?")
_OPTION = re.compile(
    r"(?i:(?:the\s+)?(?:correct\s+)?(?:answer|option|choice)(?:\s+is)?:?\s*)?"
    r"(\()?\s*([A-J])\s*(\))?(?![A-Za-z0-9_^'])\s*([.:]?)\s*(.*)",
    re.S,
)
_TIME = re.compile(r"(\d{1,2}):(\d{2})\s*((?:a|p)\s*\.?\s*m\.?)?", re.I)

Decision = tuple[str, str]


def judge(gold: str, answer: str, strictness: str = "lenient") -> Decision | None:
    """(verdict, rule) for an answer taken out of its box, or None when math-verify has to be asked.

    verdict: correct, wrong, unparseable_gold or timeout. strictness: `lenient` or `strict`.
    """
    strict = strictness == "strict"
    if max(len(answer), len(gold)) > MAX_LENGTH:
        return ("correct", "string") if gold.strip() == answer.strip() else ("wrong", "too long to read")
    entries = listed(gold)
    gold, answer = clean(entries[0] if entries and len(entries) == 1 else gold), clean(answer)
    if not gold:
        return "unparseable_gold", "gold is empty"
    if not answer:
        return "wrong", "empty answer"
    if letters(gold) == letters(answer):
        return "correct", "string"
    if entries and len(entries) > 1:  # any of them, all of them, in this order? nothing says
        return "unparseable_gold", "gold is a list of several answers"
    for rule in (_choice, _time, _yes_or_no, _decimal_comma):
        decision = rule(gold, answer, strict)
        if decision is not None:
            return decision
    try:
        gold_tree = read(gold)
    except (Unreadable, RecursionError):
        return _by_text(gold, answer)
    try:
        answer_tree = read(answer)
    except (Unreadable, RecursionError):
        return _by_text(gold, answer)
    try:
        right, rule = compare(gold_tree, answer_tree, strict)
    except Unreadable:
        return _by_text(gold, answer)
    if not right and rule == BEYOND and not _plain_number(gold):
        return "timeout", BEYOND
    return ("correct" if right else "wrong"), rule


def listed(gold: object) -> list[str] | None:
    """The entries of a gold that is the text of a Python list of texts, as OlympiadBench's are when read carelessly;
    None for any other gold. Each of its 675 lists has one entry: several answers are written into one text.
    """
    if not isinstance(gold, str) or len(gold) > MAX_LENGTH or not re.match(r"\s*\[\s*['\"]", gold):
        return None
    try:
        items = ast.literal_eval(gold.strip())
    except (ValueError, SyntaxError):
        return None
    return items if isinstance(items, list) and items and all(isinstance(item, str) for item in items) else None


def _choice(gold: str, answer: str, strict: bool) -> Decision | None:
    """A gold that is one letter of A to J: the answer's letter, with or without brackets and the option's text."""
    letter = _CHOICE.fullmatch(re.sub(r"\\text\{([^{}]*)\}", r"\1", gold).strip())
    if not letter:
        return None
    plain = (
        re.sub(r"\\(?:text|mathrm|operatorname)\s*\{([^{}]*)\}", r" \1 ", answer)
        .replace("{", " ")
        .replace("}", " ")
        .strip()
    )
    found = _OPTION.fullmatch(plain)
    if not found:
        return None
    _, option, closed, mark, rest = found.groups()
    if rest and not closed and not mark:
        return None
    return ("correct" if option == letter.group(1) else "wrong"), "choice"


def _time(gold: str, answer: str, strict: bool) -> Decision | None:
    """Clock times: the same hour and minute, and the same half of the day where both name one."""
    ours, theirs = (
        _TIME.fullmatch(re.sub(r"\\text|[{}]|\\row", " ", text).strip()) for text in (gold, answer)
    )
    if not ours or not theirs or int(ours.group(2)) > 59:
        return None
    halves = [re.sub(r"\W", "", match.group(3) or "").lower() for match in (ours, theirs)]
    clock = [(int(match.group(1)), match.group(2)) for match in (ours, theirs)]
    right = clock[0] == clock[1] and (halves[0] == halves[1] or (not strict and "" in halves))
    return ("correct" if right else "wrong"), "time"


def _yes_or_no(gold: str, answer: str, strict: bool) -> Decision | None:
    """Yes for `Yes, this is a subspace.`"""
    word = plain_words(answer)
    if (
        word in ("yes", "no")
        and re.match(r"(?:\\text\{)?(?:yes|no)\b", gold, re.I)
        and "solution" not in gold.lower()
    ):
        return ("correct" if plain_words(gold).startswith(word) else "wrong"), "text"
    return None


def _decimal_comma(gold: str, answer: str, strict: bool) -> Decision | None:
    """0,25 for 0.25, leniently."""
    if (
        not strict
        and re.fullmatch(r"-?\d*\.\d+", gold)
        and re.fullmatch(r"-?\d+,(?:\d{1,2}|\d{4,})", answer)
        and answer.replace(",", ".") == gold
    ):
        return "correct", "decimal comma"
    return None


def _plain_number(text: str) -> bool:
    """Whether a text is a number without powers or factorials: nothing beyond the limits can equal it."""
    return bool(re.fullmatch(r"[-+\d.,/\s{}]*(?:\\frac[-\d{}\s]*)?", text))


def _by_text(gold: str, answer: str) -> Decision | None:
    """What cannot be read as mathematics: equal words, else math-verify when both look like formulas."""
    if not re.search(r"[A-Za-z0-9]|\\[a-z]", gold):
        return "unparseable_gold", "gold is no answer"
    ours, theirs = plain_words(gold), plain_words(answer)
    if ours and ours == theirs and _same_signs(gold, answer):
        return "correct", "text"
    if meaning(gold) and meaning(gold) == meaning(answer):
        return "correct", "text"
    if _ingredients(gold) != _ingredients(answer) or max(len(gold), len(answer)) > LIBRARY_LENGTH:
        return "wrong", "text"
    return None


def _same_signs(gold: str, answer: str) -> bool:
    """Whether two texts have the same operators and commands in the same order (plain words drop them)."""
    return re.findall(r"\\[a-zA-Z]+|[-+*/^_=<>()\[\]|]", gold.replace(r"\text", "")) == re.findall(
        r"\\[a-zA-Z]+|[-+*/^_=<>()\[\]|]", answer.replace(r"\text", "")
    )


def _ingredients(text: str) -> tuple[list[str], list[str]]:
    """The numbers, letters, commands and signs of a text, sorted: what an equal formula must have, too."""
    bare = re.sub(r"\\[a-zA-Z]+", " ", text)
    return (
        sorted(re.findall(r"\d+|\\[a-zA-Z]+", text)),
        sorted(re.findall(r"[A-Za-z+=<>|*/^_()\[\]-]", bare)),
    )


def load_library():
    """Import math-verify (seconds of CPU time) and return the function that asks it."""
    from .library import ask_library

    return ask_library
