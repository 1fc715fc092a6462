"""Whether an answer is the gold one, by kind: `compare(gold, answer, strict)` gives (equal, rule).

The gold's shape decides: text, choice, list, tuple, interval, matrix, relation, quantity, base, ratio,
expression.
"""

import re

from . import words
from .expressions import contains, equal, number_value, rounds
from .members import matrix_form, same_collection
from .regions import region, same_region
from .relations import same_relation
from .tokens import Unreadable

_CLUSTER = re.compile(
    r"\b(?:or|and|not|more|less|least|most|than|except|if|when|where|for|with|modulo|infinitely|per cent)\b",
    re.I,
)
MAX_ITEMS = 400


def compare(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str]:
    """(equal, rule) of two trees. Raises Unreadable when neither shape nor value of one is known."""
    gold, answer = _plain(gold), _plain(answer)
    if gold == answer:
        return True, "string"
    if "lead" in (gold[0], answer[0]):
        return _leads(gold, answer, strict)
    if "note" in (gold[0], answer[0]):
        return _quantities(gold, answer, strict)
    if "pct" in (gold[0], answer[0]):
        return _percent(gold, answer, strict)
    if "text" in (gold[0], answer[0]):
        return _texts(gold, answer)
    if "base" in (gold[0], answer[0]):
        return _bases(gold, answer, strict), "base"
    if "ratio" in (gold[0], answer[0]):
        return _ratios(gold, answer, strict), "ratio"
    if gold[0] == "rel" or answer[0] == "rel":
        decided = _relations(gold, answer, strict)
        if decided is not None:
            return decided
    if _is_region(gold) or _is_region(answer):
        ours, theirs = region(gold), region(answer)
        if ours is not None and theirs is not None:
            return same_region(ours, theirs), "interval"
    return _shapes(gold, answer, strict)


def _plain(tree: tuple) -> tuple:
    """Without round brackets around the whole, with degrees as a unit and phrases that only lead in dropped."""
    while True:
        if tree[0] == "paren":
            tree = tree[1]
        elif tree[0] == "deg":
            tree = ("note", tree[1], "degree")
        elif tree[0] == "neg" and tree[1][0] == "deg":
            tree = ("note", ("neg", tree[1][1]), "degree")
        elif tree[0] == "neg" and tree[1][0] == "pct":
            tree = ("pct", ("neg", tree[1][1]))
        elif tree[0] == "lead" and words.introduces_value(tree[1]):
            tree = tree[2]
        elif tree[0] == "note" and words.APPROXIMATELY.match(tree[2].strip("() ")):
            tree = tree[1]
        elif tree[0] == "note" and words.unit(tree[2]) == "%":
            tree = ("pct", tree[1])
        elif tree[0] == "note" and tree[1][0] == "paren":
            tree = ("note", tree[1][1], tree[2])
        elif tree[0] == "text" and words.meaning(tree[1]) in ("empty", "reals"):
            tree = ("sym", r"\emptyset" if words.meaning(tree[1]) == "empty" else r"\mathbb R")
        elif tree[0] == "set" and len(tree) == 1:
            tree = ("sym", r"\emptyset")
        elif tree[0] == "ratio" and len(tree) == 3 and tree[1][0] == "text":  # "No solution : \oslash"
            tree = tree[1] if words.meaning(tree[1][1]) else ("lead", tree[1][1] + ":", tree[2])
        elif tree[0] == "lead" and words.meaning(tree[1]) == "empty" and tree[2] == ("sym", r"\emptyset"):
            tree = tree[2]
        else:
            return tree


def _leads(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str]:
    ours, theirs = (words.plain_words(tree[1]) if tree[0] == "lead" else "" for tree in (gold, answer))
    if ours != theirs and ours and theirs:
        return False, "text"
    rest = [tree[2] if tree[0] == "lead" else tree for tree in (gold, answer)]
    if ours != theirs:
        return False, "text"
    return compare(*rest, strict)


def _quantities(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str]:
    value, other = (tree[1] if tree[0] == "note" else tree for tree in (gold, answer))
    ours, theirs = (tree[2] if tree[0] == "note" else "" for tree in (gold, answer))
    if words.plain_words(ours) == words.plain_words(theirs):
        return compare(value, other, strict)
    if _CLUSTER.search(ours) and theirs or _CLUSTER.search(theirs):
        return False, "text"
    one, two = words.unit(ours), words.unit(theirs)
    if not one or not two:
        if not strict and "degree" in (one, two) and contains(other if one else value, "sym"):
            degrees, plain = (value, other) if one else (other, value)
            radians = ("mul", degrees, ("div", ("sym", r"\pi"), ("num", 180, "180")))
            return (compare(radians, plain, strict)[0] or compare(degrees, plain, strict)[0]), "unit"
        return compare(value, other, strict)[0], "unit"
    scale = words.unit_scale(two, one)
    if scale == 1:
        return compare(value, other, strict)[0], "unit"
    if scale is not None:
        return not strict and compare(value, ("mul", ("num", scale, str(scale)), other), strict)[0], "unit"
    if strict or (words.known_unit(one) and words.known_unit(two)) or one[0] != two[0]:
        return False, "unit"
    return compare(value, other, strict)[0], "unit"


def _percent(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str]:
    if gold[0] == answer[0]:
        return compare(gold[1], answer[1], strict)[0], "percent"
    if {gold[0], answer[0]} & {"list", "set", "seq", "text", "matrix"}:
        return False, "percent"
    if gold[0] == "rel" or answer[0] == "rel":
        decided = _relations(gold, answer, strict)
        return decided or (False, "percent")
    hundredth = [
        ("div", tree[1], ("num", 100, "100")) if tree[0] == "pct" else tree for tree in (gold, answer)
    ]
    if equal(*hundredth, True)[0]:
        return True, "percent"
    bare = [tree[1] if tree[0] == "pct" else tree for tree in (gold, answer)]
    return not strict and equal(*bare, True)[0], "percent"


def _texts(gold: tuple, answer: tuple) -> tuple[bool, str]:
    ours, theirs = map(as_text, (gold, answer))
    meanings = [words.meaning(tree[1]) if tree[0] == "text" else None for tree in (gold, answer)]
    return ours != "" and (ours == theirs or (meanings[0] is not None and meanings[0] == meanings[1])), "text"


def as_text(tree: tuple) -> str:
    """The words of a tree: a text's, or a symbol's letter."""
    if tree[0] == "text":
        return words.plain_words(tree[1])
    if tree[0] == "sym":
        return tree[1].removeprefix("text ").lower()
    if tree[0] == "mul" and all(part[0] == "sym" or part[0] == "mul" for part in tree[1:]):
        return "".join(map(as_text, tree[1:]))
    return ""


def _bases(gold: tuple, answer: tuple, strict: bool) -> bool:
    if gold[0] == answer[0]:
        return gold[1:] == answer[1:]
    based, plain = (gold, answer) if gold[0] == "base" else (answer, gold)
    return not strict and plain[0] == "num" and plain[2] == based[1]


def _ratios(gold: tuple, answer: tuple, strict: bool) -> bool:
    if gold[0] != answer[0] or len(gold) != len(answer):
        return False
    if all(compare(a, b, strict)[0] for a, b in zip(gold[1:], answer[1:], strict=True)):
        return True
    clock = [[number_value(part) for part in tree[1:]] for tree in (gold, answer)]
    if (
        strict
        or any(value is None for part in clock for value in part)
        or any(value == 0 for part in clock for value in part)
    ):
        return False
    if any(len(tree) == 3 and tree[2][0] == "num" and len(tree[2][2]) == 2 for tree in (gold, answer)):
        return False  # times of day
    ours, theirs = ([("div", part, tree[1]) for part in tree[2:]] for tree in (gold, answer))
    return all(equal(a, b, True)[0] for a, b in zip(ours, theirs, strict=True))


def name_of(tree: tuple) -> str | None:
    """The name that a relation gives to its last side: `x = 3`, `f(x) = 2x`, `(x, y) = (2, 5)`; None when it
    does not.
    """
    if tree[0] != "rel" or not set(tree[1]) <= {"=", "~"}:
        return None
    left = _plain(tree[2])
    if left[0] == "sym":
        return left[1]
    if left[0] == "app" or left[0] == "prime":
        return repr(left)
    if left[0] == "seq" and all(part[0] == "sym" for part in left[3:]):
        return repr(left)
    if left[0] == "mul" and _first_factor(left) in (r"\angle", r"\triangle", r"\Delta"):
        return repr(left)
    if left[0] == "pow" and left[1][0] == "sym" and left[2] == ("neg", ("num", 1, "1")):  # A^{-1}, H^{-1}
        return repr(left)
    return None


def _first_factor(tree: tuple) -> str:
    while tree[0] == "mul":
        tree = tree[1]
    return tree[1] if tree[0] == "sym" else ""


def _relations(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str] | None:
    """Decides when one side is a relation; None leaves it to the regions and shapes."""
    ours, theirs = name_of(gold), name_of(answer)
    if theirs and _chain_breaks(answer):
        return False, "equation"
    if gold[0] == answer[0]:
        if ours and theirs:
            same_value = _any_side(_values(gold), _values(answer), strict)
            if ours == theirs:
                return same_value if same_value[0] else (same_relation(gold, answer, strict), "equation")
            if not strict and same_value[0] and (_formula_name(ours) and _formula_name(theirs)):
                return same_value
            if len(gold) == 4 and same_relation(gold, answer, strict):
                return True, "equation"
            return False, "equation"
        if _has_region(gold) and _has_region(answer):
            if strict and gold[2][0] == answer[2][0] == "sym" and gold[2] != answer[2]:
                return False, "inequality"
            return None
        return same_relation(gold, answer, strict), "equation" if "=" in gold[1] else "inequality"
    if answer[0] == "rel":
        if answer[1] == ("in",) and not _is_region(gold):
            return compare(gold, answer[-1], strict)
        if theirs:
            return _any_side([gold], _values(answer), strict)
        if set(answer[1]) <= {"=", "~"}:
            return (_true_chain(answer) and _any_side([gold], _values(answer), strict)[0]), "equation"
        return None
    if ours:
        return _any_side(_values(gold), [answer], strict)
    if gold[1] == ("in",) and not _is_region(answer):
        return compare(gold[-1], answer, strict)
    if set(gold[1]) <= {"=", "~"}:
        return (_true_chain(gold) and _any_side(_values(gold), [answer], strict)[0]), "equation"
    return None


def _values(relation: tuple) -> list[tuple]:
    """The value that a chain of equalities ends in, and the exact one before it where the end approximates."""
    exact = len(relation) > 4 or name_of(relation) is None
    return [relation[-1], relation[-2]] if relation[1][-1] == "~" and exact else [relation[-1]]


def _any_side(ours: list[tuple], theirs: list[tuple], strict: bool) -> tuple[bool, str]:
    decided = (False, "equation")
    for gold in ours:
        for answer in theirs:
            decided = compare(gold, answer, strict)
            if decided[0]:
                return decided
    return decided


def _formula_name(name: str) -> bool:
    """y, f(x), ...: names of a value that a formula gives; x = 3 and y = 3 are different, f(2) and f(3) too."""
    return (name.startswith("('app'") and "'num'" not in name) or name in (
        "y",
        "f",
        "g",
        "h",
        "A",
        "V",
        "S",
        "P",
        "T",
    )


def _true_chain(tree: tuple) -> bool:
    """Whether all sides of a chain of equalities are equal: 6!/(2! 3!) = 60; an approximation may be off by
    rounding.

    A number said to be itself (`0=0`) is no computation of it.
    """
    try:
        return any(side != tree[-1] for side in tree[2:-1]) and _sides_agree(tree[1], tree[2:])
    except Unreadable:
        return False


def _chain_breaks(tree: tuple) -> bool:
    """Whether a named chain `x = a = b` says two different things; what cannot be valued is taken as it is."""
    try:
        return len(tree) > 4 and not _sides_agree(tree[1][1:], tree[3:])
    except Unreadable:
        return False


def _sides_agree(operators: tuple, sides: tuple) -> bool:
    """Whether neighbours in a chain are equal, or round to one another where the sign says so."""
    for operator, left, right in zip(operators, sides, sides[1:], strict=False):
        if not (equal(left, right, True)[0] or (operator == "~" and rounds(left, right))):
            return False
    return True


def _has_region(tree: tuple) -> bool:
    return region(tree) is not None


def _is_region(tree: tuple) -> bool:
    """Whether a tree can only be a set of reals: mixed or square brackets, infinities, unions, conditions."""
    if tree[0] == "seq":
        return (
            (tree[1], tree[2]) != ("(", ")")
            and "<" not in tree[1:3]
            or contains(tree[3:], "sym")
            and any(end in (("sym", r"\infty"), ("neg", ("sym", r"\infty"))) for end in tree[3:])
        )
    if tree[0] == "list":
        return all(item[0] == "rel" and item[1] != ("=",) for item in tree[1:])
    return (
        tree[0] in ("union", "inter", "minus", "cond")
        or (tree[0] == "rel" and tree[1] != ("=",))
        or tree == ("sym", r"\mathbb R")
    )


def _shapes(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str]:
    gold, answer = _as_matrix(gold), _as_matrix(answer)
    decided = same_collection(gold, answer, strict)
    if decided is not None:
        return decided
    infinite = [tree for tree in (gold, answer) if contains(tree, "sym") and _infinite(tree)]
    if infinite:
        return False, "infinity"
    if r"\emptyset" in (gold[1:2] + answer[1:2]) or r"\mathbb R" in (gold[1:2] + answer[1:2]):
        return False, "set"
    return equal(gold, answer, strict)


def _as_matrix(tree: tuple) -> tuple:
    """Sums and multiples of matrices as one matrix; every other tree as it is."""
    rows = matrix_form(tree) if tree[0] in ("add", "mul", "div", "neg") and contains(tree, "matrix") else None
    return ("matrix", *rows) if rows else tree


def _infinite(tree: tuple) -> bool:
    return tree == ("sym", r"\infty") or any(
        _infinite(part) for part in tree[1:] if isinstance(part, tuple) and part and isinstance(part[0], str)
    )
