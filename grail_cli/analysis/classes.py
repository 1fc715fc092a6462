"""What kind of token and what kind of sentence: coarse classes by text alone, in English and LaTeX.

Tokens: newline, digit, latex (operators, braces, commands), connective, word, punctuation. Sentences: planning,
checking, concluding, computing, other, by the first list below that has a match; a sentence ends at `.`, `?`, `!`
before white space, or at a line end.
"""

import re

CONNECTIVES = frozenset(
    "so then thus hence therefore because since but however wait now first next finally suppose assume let if when "
    "where which and or also instead again once while although alternatively given".split())
TOKEN_CLASSES = ("newline", "digit", "latex", "connective", "word", "punctuation")
SENTENCE_CLASSES = ("planning", "checking", "concluding", "computing", "other")

_LATEX = re.compile(r"[\\{}^_$=+*/<>|&×÷·≈≤≥±√π∑∫-]")
_SENTENCES = (
    ("checking", re.compile(r"\b(check|verif\w*|wait|confirm\w*|indeed|double-check|make sure|correct\?)", re.I)),
    ("concluding", re.compile(r"\b(therefore|thus|hence|finally|in conclusion|the answer|final answer|so the)\b",
                              re.I)),
    ("planning", re.compile(r"\b(let|let's|we need|we want|first|plan|suppose|assume|to find|to solve|consider|"
                            r"start by|recall|strategy|approach)\b", re.I)),
    ("computing", re.compile(r"\d|=")),
)
_SENTENCE_END = re.compile(r"[.?!]$")


def token_class(text: str) -> str:
    """The class of one token by its text."""
    if "\n" in text:
        return "newline"
    bare = text.strip()
    if any(c.isdigit() for c in bare) and not any(c.isalpha() for c in bare):
        return "digit"
    if bare.lower() in CONNECTIVES:
        return "connective"
    if _LATEX.search(bare):
        return "latex"
    if any(c.isalpha() for c in bare):
        return "word"
    return "punctuation"


def sentence_ids(tokens: tuple[str, ...]) -> list[int]:
    """Number of the sentence that each token belongs to, from 0; the ending token belongs to the sentence it ends."""
    ids, current = [], 0
    for i, text in enumerate(tokens):
        ids.append(current)
        following = tokens[i + 1] if i + 1 < len(tokens) else " "
        ends = _SENTENCE_END.search(text.rstrip(" ")) and (text != text.rstrip(" ") or following[:1].isspace())
        if "\n" in text or ends:
            current += 1
    return ids


def sentence_class(text: str) -> str:
    """The class of one sentence by the first list of cue words that matches."""
    for name, cue in _SENTENCES:
        if cue.search(text):
            return name
    return "other"


def sentence_classes(tokens: tuple[str, ...]) -> list[str]:
    """The class of the sentence of every token."""
    ids = sentence_ids(tokens)
    text: dict[int, str] = {}
    for i, token in zip(ids, tokens, strict=True):
        text[i] = text.get(i, "") + token
    named = {i: sentence_class(sentence) for i, sentence in text.items()}
    return [named[i] for i in ids]
