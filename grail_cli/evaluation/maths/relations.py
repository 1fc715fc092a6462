"""Equations and inequalities: the same relation when one is a constant multiple of the other, or has the
same roots.
"""

from fractions import Fraction

import mpmath
from mpmath import mp

from .expressions import symbols
from .tokens import Unreadable
from .values import DIGITS, PROBES, Evaluator, TooBig, Undefined, same, symbol_value

_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "~": "~", "!=": "!=", "===": "==="}
_DIRECTED = {"<", ">", "<=", ">="}


def same_relation(gold: tuple, answer: tuple, strict: bool) -> bool:
    """Whether two relations (trees "rel") say the same."""
    if _sides_equal(gold, answer, strict) or _sides_equal(gold, _reversed(answer), strict):
        return True
    if len(gold) != 4 or len(answer) != 4 or not symbols(gold) or symbols(gold) != symbols(answer):
        return False
    ours, theirs = gold[1][0], answer[1][0]
    if ours not in _FLIP or theirs not in _FLIP or (ours in _DIRECTED) != (theirs in _DIRECTED):
        return False
    if ours not in _DIRECTED and ours.replace("~", "=") != theirs.replace("~", "="):
        return False
    if ("=" in ours) != ("=" in theirs) and ours in _DIRECTED:
        return False
    with mp.workdps(DIGITS):
        try:
            factor = _constant_factor(_difference(gold), _difference(answer))
            if factor is not None:
                direction = ours if factor > 0 else _FLIP[ours]
                return theirs == direction if ours in _DIRECTED else True
            return ours in ("=", "~") and _same_roots(_difference(gold), _difference(answer))
        except (Unreadable, TooBig, Undefined):
            return False


def _difference(relation: tuple) -> tuple:
    return ("add", relation[2], ("neg", relation[3]))


def _reversed(relation: tuple) -> tuple:
    return (
        "rel",
        tuple(_FLIP.get(operator, operator + " reversed") for operator in reversed(relation[1])),
        *reversed(relation[2:]),
    )


def _sides_equal(gold: tuple, answer: tuple, strict: bool) -> bool:
    def plain(operators: tuple) -> list[str]:
        return [operator.replace("~", "=").replace("===", "=") for operator in operators]

    from .compare import compare

    return (
        plain(gold[1]) == plain(answer[1])
        and len(gold) == len(answer)
        and all(compare(ours, theirs, strict)[0] for ours, theirs in zip(gold[2:], answer[2:], strict=True))
    )


def _constant_factor(f: tuple, g: tuple) -> Fraction | mpmath.mpf | None:
    """c with g = c f everywhere (not zero), or None."""
    factor, found = None, 0
    values = [(Evaluator(probe).value(f), Evaluator(probe).value(g)) for probe in range(PROBES)]
    if len({str(ours) for ours, _ in values}) == 1:
        return None  # f(2) = 3: nothing in it varies, so any two such would be multiples
    for ours, theirs in values:
        if min(abs(_f(ours)), abs(_f(theirs))) < mpmath.mpf(10) ** -40:
            return None  # an identity: its sides have been compared
        ratio = (
            theirs / ours
            if isinstance(ours, Fraction) and isinstance(theirs, Fraction)
            else _f(theirs) / _f(ours)
        )
        if factor is not None and not same(factor, ratio):
            return None
        factor, found = ratio, found + 1
    if isinstance(factor, mpmath.mpc):
        if abs(factor.imag) > mpmath.mpf(10) ** -40 * abs(factor):
            return None
        factor = factor.real
    return factor if found >= 3 else None


def _f(value):
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def _same_roots(f: tuple, g: tuple) -> bool:
    """Whether every root found for f in one of its variables is one of g, and the other way round."""
    names = sorted(symbols(f))
    if len(names) < 2 or len(names) > 4:
        return False
    checked = 0
    for name in names:
        for probe in range(3):
            for first, second in ((f, g), (g, f)):
                roots = _roots(first, name, probe)
                if roots is None:
                    break
                for root in roots:
                    value = Evaluator(probe, {name: root}).value(second)
                    if abs(_f(value)) > mpmath.mpf(10) ** -25:
                        return False
                    checked += 1
        if checked >= 6:
            return True
    return False


def _roots(f: tuple, name: str, probe: int) -> list | None:
    """Some roots of f in one symbol, the others at their values: from three starts by the secant method."""

    def at(x):
        return _f(Evaluator(probe, {name: x}).value(f))

    found = []
    for start in (symbol_value(name, probe), Fraction(-7, 5), Fraction(13, 4)):
        try:
            root = mpmath.findroot(
                at,
                (_f(start), _f(start) + mpmath.mpf("0.1")),
                solver="secant",
                tol=mpmath.mpf(10) ** -70,
                maxsteps=60,
            )
        except (ValueError, ZeroDivisionError, Undefined, TooBig):
            continue
        if not any(abs(root - other) < mpmath.mpf(10) ** -20 for other in found):
            found.append(root)
    return found or None
