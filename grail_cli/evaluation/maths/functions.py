"""Named functions, sums and integrals at a probe point."""

from fractions import Fraction

import mpmath
from mpmath import mp

from .tokens import Unreadable
from .values import MAX_TERMS, Evaluator, TooBig, Undefined, Value, arithmetic, as_float, as_real, power

# fmt: off
_ANGLES = {
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "cot": mpmath.cot, "sec": mpmath.sec,
    "csc": mpmath.csc,
}
_PLAIN = {
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan, "arccot": mpmath.acot,
    "arcsec": mpmath.asec, "arccsc": mpmath.acsc, "sinh": mpmath.sinh, "cosh": mpmath.cosh,
    "tanh": mpmath.tanh, "coth": mpmath.coth, "sech": mpmath.sech, "csch": mpmath.csch,
    "arsinh": mpmath.asinh, "arcosh": mpmath.acosh, "artanh": mpmath.atanh,
}
# fmt: on
_BOUND = 2.0**60


def apply(evaluator: Evaluator, name: str, argument: tuple, base: tuple | None) -> Value:
    """The value of a function; max, min, gcd, lcm take lists; what is not known here has a value of its own."""
    if name in ("max", "min", "gcd", "lcm"):
        return _of_list(evaluator, name, argument)
    if name in ("sqrt", "root"):
        return _root(evaluator, argument, base)
    if name in ("log", "ln", "lg"):
        return _logarithm(evaluator, name, argument, base)
    if name == "exp":
        return power(+mp.e, evaluator.value(argument))
    if name in ("abs", "floor", "ceil"):
        return evaluator.value((name, argument))
    if name in _ANGLES:
        return _call(_ANGLES[name], evaluator.inside(**{"in angle": True}).value(argument))
    if name in _PLAIN and base is None:
        return _call(_PLAIN[name], evaluator.value(argument))
    values = [evaluator.value(argument)] + ([evaluator.value(base)] if base else [])
    return evaluator.opaque("fn " + name, values)


def _call(function, value: Value) -> Value:
    value = as_float(value)
    if abs(value) > _BOUND:
        raise TooBig
    try:
        result = function(value)
    except (ZeroDivisionError, ValueError):
        raise Undefined from None
    if mpmath.isinf(result) or mpmath.isnan(result):
        raise Undefined
    return Fraction(0) if result == 0 else result


def _root(evaluator: Evaluator, argument: tuple, index: tuple | None) -> Value:
    value = evaluator.value(argument)
    degree = evaluator.value(index) if index is not None else Fraction(2)
    if degree == 0:
        raise Undefined
    if isinstance(value, Fraction) and degree == 2 and value >= 0:  # exact squares stay exact
        above, below = (mpmath.libmp.isqrt(part) for part in (value.numerator, value.denominator))
        if above * above == value.numerator and below * below == value.denominator:
            return Fraction(int(above), int(below))
    if (
        isinstance(degree, Fraction)
        and degree.denominator == 1
        and degree % 2 == 1
        and not isinstance(value, mpmath.mpc)
        and value < 0
    ):
        return -power(-value, 1 / degree)
    return power(value, 1 / as_float(degree) if not isinstance(degree, Fraction) else 1 / degree)


def _logarithm(evaluator: Evaluator, name: str, argument: tuple, base: tuple | None) -> Value:
    value = evaluator.value(argument)
    if value == 0:
        raise Undefined
    result = mpmath.log(as_float(value))
    if base is not None:
        bottom = evaluator.value(base)
        if bottom in (0, 1):
            raise Undefined
        return _tidy(result / mpmath.log(as_float(bottom)))
    if name == "lg" or (name == "log" and evaluator.log_base == 10):
        return _tidy(result / mpmath.log(10))
    return _tidy(result)


def _tidy(value: Value) -> Value:
    return Fraction(0) if value == 0 else value


def _of_list(evaluator: Evaluator, name: str, argument: tuple) -> Value:
    items = (
        argument[3:]
        if argument[0] == "seq"
        else argument[1:]
        if argument[0] in ("list", "set")
        else (argument,)
    )
    values = [evaluator.value(item) for item in items]
    if name in ("max", "min"):
        if len(values) < 2:
            return evaluator.opaque("fn " + name, values)
        return (max if name == "max" else min)(values, key=as_real)
    if not all(isinstance(value, Fraction) and value.denominator == 1 for value in values):
        return evaluator.opaque("fn " + name, values)
    import math

    return Fraction((math.gcd if name == "gcd" else math.lcm)(*[int(value) for value in values]))


def big(evaluator: Evaluator, name: str, lower: tuple, upper: tuple, body: tuple) -> Value:
    """A sum or product of few terms by its value; everything else by the values of its parts at a fixed index."""
    index = lower[2][1] if lower[0] == "rel" and lower[2][0] == "sym" else None
    start = lower[3] if index else lower
    if index and name in ("sum", "prod") and lower[1] == ("=",):
        try:
            first, last = evaluator.value(start), evaluator.value(upper)
        except Unreadable:
            first = last = None
        whole = all(isinstance(value, Fraction) and value.denominator == 1 for value in (first, last))
        if whole and 0 <= last - first <= MAX_TERMS:
            total: Value = Fraction(name == "prod")
            for k in range(int(first), int(last) + 1):
                total = _combine(name, total, evaluator.inside(**{index: Fraction(k)}).value(body))
            return total
    parts = [evaluator.inside(**{index or "no index": Fraction(17, 13)}).value(body)]
    names = []
    for part in (start, upper):
        try:
            parts.append(evaluator.value(part))
        except Unreadable:  # infinity, a condition
            names.append(repr(part))
    return evaluator.opaque(" ".join(["big", name, *names]), parts)


def _combine(name: str, total: Value, term: Value) -> Value:
    return arithmetic("add" if name == "sum" else "mul", total, term)
