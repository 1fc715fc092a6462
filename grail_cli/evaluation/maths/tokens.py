"""A cleaned answer as tokens: numbers, symbols, functions, words, operators and brackets.

Words in plain letters are told from products of variables here: `Bernard`, `miles` and `and` are words, `ab`
is a*b.
"""

import re
from dataclasses import dataclass

from . import words
from .symbols import (
    ACCENTS,
    ALIASES,
    BRACKETS,
    CONSTANTS,
    FUNCTIONS,
    OPERATORS,
    PLAIN_GREEK,
    PLAIN_OPERATORS,
    RELATIONS,
    SHORT_WORDS,
    UNITS_TOO,
)

MAX_TOKENS = 20_000
MAX_DIGITS = 1_200  # digits of one number
_TEXT = re.compile(r"\\(?:text|mathrm|operatorname\*?|mathbb)\s*\{")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+(?![\d.]))?")


class Unreadable(Exception):
    """The text is no mathematics that this reader knows; `judge` falls back to texts."""


@dataclass(frozen=True)
class Token:
    """kind: num sym fn text op open close rel cmd begin end; `blank`: a blank stood before it."""

    kind: str
    value: str
    blank: bool = False


def tokenize(text: str) -> list[Token]:
    """The tokens of a cleaned text. Raises Unreadable when it is longer than any answer."""
    tokens: list[Token] = []
    position, blank, depth = 0, False, 0
    while position < len(text):
        if len(tokens) > MAX_TOKENS:
            raise Unreadable("too long")
        char = text[position]
        if char.isspace():
            position, blank = position + 1, True
            continue
        position, new = _next(text, position, tokens, depth)
        for token in new:
            depth += {"open": 1, "close": -1}.get(token.kind, 0) if token.value not in "{}" else 0
            tokens.append(Token(token.kind, token.value, blank))
            blank = False
    return tokens


def _next(text: str, position: int, before: list[Token], depth: int) -> tuple[int, list[Token]]:
    char = text[position]
    if match := _TEXT.match(text, position):
        return _text_command(text, match)
    if char == "\\":
        return _command(text, position)
    for plain, command in PLAIN_OPERATORS:
        if text.startswith(plain, position):
            return position + len(plain), _symbolic(command)
    if char.isdigit() or (char == "." and text[position + 1 : position + 2].isdigit()):
        return _number(text, position, before, depth)
    if char.isalpha():
        return _letters(text, position, before)
    if char in RELATIONS:
        return position + 1, [Token("rel", RELATIONS[char])]
    if char in BRACKETS:
        return position + 1, [Token(*BRACKETS[char])]
    if char in "+-*/^_!|&,;:'%":
        return position + 1, [Token("op", "sep" if char in ",;" else char)]
    if char == '"':
        return position + 1, []
    raise Unreadable(f"character {char!r}")


def _symbolic(command: str) -> list[Token]:
    if command in RELATIONS:
        return [Token("rel", RELATIONS[command])]
    value = OPERATORS.get(command, command)
    return [Token("op", value)] if value else []


def _number(text: str, position: int, before: list[Token], depth: int) -> tuple[int, list[Token]]:
    previous = before[-1].value if before and before[-1].kind in ("op", "cmd") else ""
    if previous == r"\frac" or (
        len(before) > 1 and before[-2].value == r"\frac" and before[-1].kind == "num"
    ):
        return position + 1, [Token("num", text[position])]  # \frac12: TeX takes one digit an argument
    if previous == "_" and len(before) > 1 and before[-2].value in ("log", r"\log"):
        return position + 1, [Token("num", text[position])]
    grouped = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?![\d,])(?:\.\d+)?").match(text, position)
    if grouped and depth <= 0 and previous not in ("^", "_") and len(grouped.group()) <= MAX_DIGITS:
        return grouped.end(), [Token("num", grouped.group().replace(",", ""))]
    match = _NUMBER.match(text, position)
    if len(match.group()) > MAX_DIGITS:
        raise Unreadable("number too long")
    return match.end(), [Token("num", match.group())]


def _letters(text: str, position: int, before: list[Token]) -> tuple[int, list[Token]]:
    run = re.compile(r"[A-Za-z]+|[^\W\d_]+").match(text, position).group()
    end = position + len(run)
    if text.startswith(("np.", "math."), position) and run in ("np", "math"):
        return end + 1, []
    named = _named(run)
    if named:
        return end, [named]
    if len(run) == 1 or (len(run) >= 3 and run.isupper()):  # MR, SRMC, ABC: a name
        return end, [Token("sym", run)]
    low = run.lower()
    if low in ("and", "or"):
        return end, [Token("op", "sep")]
    if low in ("mod",):
        return end, [Token("op", "mod")]
    if run in PLAIN_GREEK:
        return end, [Token("sym", "\\" + run)]
    blank_before = position > 0 and text[position - 1].isspace()
    if run in words.PLAIN_UNITS and blank_before and before and before[-1].kind in ("num", "close"):
        return end, [Token("text", run)]
    if _is_word(text, position, end, run):
        dotted = re.compile(r"[A-Za-z]+(?:[-'][A-Za-z]+)*\.?").match(
            text, position
        )  # hyphenated words stay whole
        return dotted.end(), [Token("text", dotted.group())]
    for name in sorted(FUNCTIONS, key=len, reverse=True):  # cosx, lnx
        if len(name) > 1 and run.startswith(name) and len(run) - len(name) == 1:
            return position + len(name), [_named(name)]
    return end, [Token("sym", letter) for letter in run]


def _is_word(text: str, start: int, end: int, run: str) -> bool:
    """Whether a run of letters is a word: long, or with a vowel, or a short one between blanks; never in an
    exponent.
    """
    if re.search(r"\^\s*\{[^{}]*$", text[max(0, start - 80) : start]):
        return False
    if len(run) == 2:
        alone = text[:start][-1:] in ("", " ", "\n") and text[end:][:1] in ("", " ", "\n", ".", ",", ":")
        return alone and run.lower() in SHORT_WORDS
    return len(run) >= 4 or (bool(re.search("[aeiouAEIOU]", run)) and run.lower() != "abc")


def _named(name: str) -> Token | None:
    name = ALIASES.get(name, name)
    if name in FUNCTIONS:
        return Token("cmd", r"\sqrt") if name == "sqrt" else Token("fn", name)
    return Token("sym", CONSTANTS[name]) if name in CONSTANTS else None


def _text_command(text: str, match: re.Match) -> tuple[int, list[Token]]:
    depth, position = 1, match.end()
    while position < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        position += 1
    inner = text[match.end() : position - 1].strip()
    if "mathbb" in match.group():
        return position, [Token("sym", r"\mathbb " + inner)]
    upright = "mathrm" in match.group() or "operatorname" in match.group()
    named = _named(inner)
    if named and inner not in UNITS_TOO:
        return position, [named]
    if inner.lower().strip(" ,;") in ("and", "or", "") and inner.strip():
        return position, [Token("op", "sep")]
    if inner in ("mod",):
        return position, [Token("op", "mod")]
    if upright and (inner in ("e", "i", "d", "j") or re.fullmatch(r"\d+", inner)):
        return position, [Token("num" if inner.isdigit() else "sym", inner)]
    if re.fullmatch(r"[-+\d.,/\s()]*\d[-+\d.,/\s()%]*|.*[\\^=].*", inner, re.S) and not re.search(
        r"[A-Za-z]{3,}|\^", re.sub(r"\\[A-Za-z]+", "", inner)
    ):
        return position, tokenize(inner)
    return position, [Token("text", inner)] if inner else []


def _command(text: str, position: int) -> tuple[int, list[Token]]:
    match = re.compile(r"\\(?:[A-Za-z]+\*?|.)", re.S).match(text, position)
    if not match:
        return position + 1, []
    command, end = match.group(), match.end()
    if command in BRACKETS:
        return end, [Token(*BRACKETS[command])]
    if command in (r"\begin", r"\end"):
        name = re.compile(r"\s*\{([A-Za-z]+)\*?\}").match(text, end)
        if not name:
            raise Unreadable(command)
        end = name.end()
        if command == r"\begin" and name.group(1) in ("array", "tabular", "aligned", "alignedat"):
            columns = re.compile(r"\s*(?:\[[a-z]\])?\s*\{[^{}]*\}").match(text, end)
            end = columns.end() if columns and name.group(1) != "aligned" else end
        return end, [Token(command[1:], name.group(1))]
    if command in RELATIONS or command in OPERATORS:
        return end, _symbolic(command)
    if command in (
        r"\frac",
        r"\sqrt",
        r"\binom",
        r"\sum",
        r"\prod",
        r"\int",
        r"\iint",
        r"\oint",
        r"\lim",
        r"\not",
        r"\pmatrix",
    ):
        return end, [Token("cmd", command)]
    name = command[1:]
    if name in ACCENTS:
        return end, [Token("cmd", command)]
    if name in (",", ";", ":", "!", " ", ">"):
        return end, []
    if name in ("|", "Vert", "lVert", "rVert"):
        return end, [Token("op", "|")]
    named = _named(name)
    if named:
        return end, [named]
    if name in ("emptyset", "varnothing", "oslash", "O"):
        return end, [Token("sym", r"\emptyset")]
    if name in ("left", "right", "big", "Big"):
        return end, []
    if not name[0].isalpha():
        raise Unreadable(command)
    return end, [
        Token(
            "sym",
            {r"\varepsilon": r"\epsilon", r"\varphi": r"\phi", r"\vartheta": r"\theta", r"\ell": "l"}.get(
                command, command
            ),
        )
    ]
