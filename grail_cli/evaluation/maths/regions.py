"""Sets of real numbers as sorted pieces: intervals, unions, inequalities in one variable, R without points."""

from dataclasses import dataclass
from fractions import Fraction

import mpmath
from mpmath import mp

from .expressions import number_value, symbols
from .values import DIGITS, Value, is_real, same

INFINITY = mpmath.inf
_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}
_OPENINGS, _CLOSINGS = {"(": False, "[": True}, {")": False, "]": True}


@dataclass(frozen=True)
class Piece:
    """The numbers from low to high; `has_low` and `has_high` say whether the ends belong to it."""

    low: Value
    has_low: bool
    high: Value
    has_high: bool


LINE = [Piece(-INFINITY, False, INFINITY, False)]


def region(tree: tuple) -> list[Piece] | None:
    """The pieces of a set of reals in order, or None when the tree is none (or its ends are symbols)."""
    with mp.workdps(DIGITS):
        pieces = _region(tree)
        return None if pieces is None else _joined(pieces)


def _region(tree: tuple) -> list[Piece] | None:
    kind = tree[0]
    if kind == "paren":
        return _region(tree[1])
    if kind == "seq":
        return _interval(tree)
    if kind == "set":
        points = [_end(item) for item in tree[1:]]
        return None if None in points or INFINITY in points else [Piece(p, True, p, True) for p in points]
    if kind == "sym":
        return LINE if tree[1] == r"\mathbb R" else [] if tree[1] == r"\emptyset" else None
    if kind in ("union", "inter", "minus"):
        parts = [_region(part) for part in tree[1:]]
        if None in parts:
            return None
        return _combine(kind, *map(_joined, parts))
    if kind == "cond":
        return _region(tree[2]) if tree[1][0] == "sym" or tree[1][0] == "rel" else None
    if kind == "rel":
        return _relation(tree)
    if (
        kind == "list"
        and all(item[0] == "rel" and item[1] != ("=",) for item in tree[1:])
        and len(symbols(tree)) <= 2
    ):
        parts = [_region(item) for item in tree[1:]]
        if None in parts or len(parts) > 50:
            return None
        union = _joined([piece for part in parts for piece in part])
        if union == LINE:  # "x > 2 and x < 5" means both
            both = _joined(parts[0])
            for part in parts[1:]:
                both = _combine("inter", both, _joined(part))
            return both
        return union
    return None


def _interval(tree: tuple) -> list[Piece] | None:
    _, opening, closing, *ends = tree
    if len(ends) != 2 or opening not in _OPENINGS or closing not in _CLOSINGS:
        return None
    low, high = map(_end, ends)
    if low is None or high is None or _float(low) >= _float(high):
        return None
    return [
        Piece(low, _OPENINGS[opening], high, _CLOSINGS[closing])
    ]  # closed at infinity stays what it is: wrong


def _end(tree: tuple) -> Value | None:
    """An end of an interval: a real number or an infinity."""
    if tree == ("sym", r"\infty"):
        return INFINITY
    if tree == ("neg", ("sym", r"\infty")):
        return -INFINITY
    value = number_value(tree)
    return value if value is not None and is_real(value) else None


def _float(value: Value) -> mpmath.mpf:
    value = mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value
    return value.real if isinstance(value, mpmath.mpc) else value


def _relation(tree: tuple) -> list[Piece] | None:
    _, operators, *sides = tree
    if operators == ("in",):
        return _region(sides[1])
    if not set(operators) <= set(_FLIP):
        return None
    pieces = LINE
    for operator, left, right in zip(operators, sides, sides[1:], strict=False):
        part = _simple(operator, left, right)
        if part is None:
            return None
        pieces = _combine("inter", pieces, part)
    return pieces


def _simple(operator: str, left: tuple, right: tuple) -> list[Piece] | None:
    """One inequality between a variable (or its absolute value, or a linear form of it) and a number."""
    if _end(left) is not None and _end(right) is None:
        left, right, operator = right, left, _FLIP[operator]
    bound = _end(right)
    if bound is None:
        return None
    if left[0] == "abs" and left[1][0] == "sym":
        inside = [Piece(-bound, "=" in operator, bound, "=" in operator)] if _float(bound) >= 0 else []
        if operator[0] == "<":
            return inside
        closed = (
            [Piece(-bound, "=" not in operator, bound, "=" not in operator)] if _float(bound) >= 0 else []
        )
        return _combine("minus", LINE, closed) if operator[0] == ">" else None
    if left[0] != "sym":
        solved = _linear(left, bound)
        if solved is None:
            return None
        bound, negative = solved
        operator = _FLIP[operator] if negative else operator
    if operator == "!=":
        return _combine("minus", LINE, [Piece(bound, True, bound, True)])
    closed = "=" in operator
    return (
        [Piece(-INFINITY, False, bound, closed)]
        if operator[0] == "<"
        else [Piece(bound, closed, INFINITY, False)]
    )


def _linear(tree: tuple, bound: Value) -> tuple[Value, bool] | None:
    """(x, slope < 0) where a x + b = bound, for a tree that is a x + b."""
    from .tokens import Unreadable
    from .values import Evaluator, TooBig, Undefined

    names = symbols(tree)
    if len(names) != 1:
        return None
    name = names.pop()
    try:
        zero, one, two = (Evaluator(0, {name: Fraction(n)}).value(tree) for n in (0, 1, 2))
    except (Unreadable, TooBig, Undefined):
        return None
    if (
        not all(isinstance(value, Fraction) for value in (zero, one, two))
        or one - zero != two - one
        or one == zero
    ):
        return None
    slope = one - zero
    if bound in (INFINITY, -INFINITY):
        return None
    return (bound - zero) / slope if isinstance(bound, Fraction) else (bound - _float(zero)) / _float(
        slope
    ), slope < 0


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Sorted, overlapping and touching pieces made one."""
    result: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (_float(piece.low), not piece.has_low)):
        if _float(piece.low) > _float(piece.high) or (
            same_end(piece.low, piece.high) and not (piece.has_low and piece.has_high)
        ):
            continue
        last = result[-1] if result else None
        touching = last is not None and same_end(piece.low, last.high)
        if last is not None and (
            (touching and (piece.has_low or last.has_high))
            or (not touching and _float(piece.low) < _float(last.high))
        ):
            if same_end(piece.high, last.high):
                high, has_high = last.high, last.has_high or piece.has_high
            elif _float(piece.high) > _float(last.high):
                high, has_high = piece.high, piece.has_high
            else:
                high, has_high = last.high, last.has_high
            result[-1] = Piece(
                last.low, last.has_low or (same_end(last.low, piece.low) and piece.has_low), high, has_high
            )
        else:
            result.append(piece)
    return result


def _combine(kind: str, a: list[Piece], b: list[Piece]) -> list[Piece]:
    if kind == "union":
        return _joined([*a, *b])
    if kind == "minus":
        b = _complement(_joined(b))
    return [piece for one in a for other in b for piece in _overlap(one, other)]


def _complement(pieces: list[Piece]) -> list[Piece]:
    result, low, has_low = [], -INFINITY, False
    for piece in pieces:
        result.append(Piece(low, has_low, piece.low, not piece.has_low and piece.low != -INFINITY))
        low, has_low = piece.high, not piece.has_high and piece.high != INFINITY
    result.append(Piece(low, has_low, INFINITY, False))
    return _joined([piece for piece in result if piece.low != INFINITY and piece.high != -INFINITY])


def _overlap(a: Piece, b: Piece) -> list[Piece]:
    low, has_low = (
        (a.low, a.has_low and b.has_low)
        if same_end(a.low, b.low)
        else max((a.low, a.has_low), (b.low, b.has_low), key=lambda end: _float(end[0]))
    )
    high, has_high = (
        (a.high, a.has_high and b.has_high)
        if same_end(a.high, b.high)
        else min((a.high, a.has_high), (b.high, b.has_high), key=lambda end: _float(end[0]))
    )
    return _joined([Piece(low, has_low, high, has_high)])


def same_end(a: Value, b: Value) -> bool:
    """Whether two ends are the same number or the same infinity."""
    if a in (INFINITY, -INFINITY) or b in (INFINITY, -INFINITY):
        return a == b
    return same(a, b)


def same_region(a: list[Piece], b: list[Piece]) -> bool:
    """Whether two sets have the same pieces, ends included."""
    with mp.workdps(DIGITS):
        return len(a) == len(b) and all(
            same_end(p.low, q.low)
            and same_end(p.high, q.high)
            and (p.has_low, p.has_high) == (q.has_low, q.has_high)
            for p, q in zip(a, b, strict=True)
        )
