"""Whether two expressions are equal: exact numbers, functions at probe points, rounded decimals, renamed constants."""

import itertools
import re
from fractions import Fraction

import mpmath
from mpmath import mp

from .tokens import Unreadable
from .values import DIGITS, POSITIVE_PROBES, PROBES, Evaluator, TooBig, Undefined, Value, is_real, same

_CONSTANT = re.compile(r"^(?:[A-DK]|c|k)(?:_\{?\w+\}?)?$")  # names of constants of integration
EXACT_DIGITS = 10  # a decimal with so many digits stands for the exact value that it rounds
BEYOND = "beyond the limits"


def symbols(tree: tuple) -> set[str]:
    """The names of the symbols and functions in a tree, constants of mathematics left out."""
    if tree[0] == "sym":
        return set() if tree[1] in (r"\pi", "e", "i", r"\infty", "nothing") else {tree[1]}
    found = {tree[1]} if tree[0] == "app" else set()
    for part in tree[1:]:
        if isinstance(part, tuple) and part and isinstance(part[0], str):
            found |= symbols(part)
        elif isinstance(part, tuple):
            for inner in part:
                if isinstance(inner, tuple):
                    found |= symbols(inner)
    return found


def contains(tree: object, *kinds: str) -> bool:
    """Whether a tree has a node of one of these kinds."""
    if not isinstance(tree, tuple) or not tree:
        return False
    return (
        tree[0] in kinds
        or any(contains(part, *kinds) for part in tree[1:] if isinstance(part, tuple))
        or (isinstance(tree[0], tuple) and contains(tree[0], *kinds))
    )


def number_value(tree: tuple) -> Value | None:
    """The value of an expression without symbols; None for everything else."""
    if symbols(tree) or contains(tree, "big"):
        return None
    with mp.workdps(DIGITS):
        try:
            return Evaluator().value(tree)
        except (Unreadable, TooBig, Undefined):
            return None


def equal(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str]:
    """(equal, rule) of two expressions. Raises Unreadable when one of them is none."""
    if gold == answer:
        return True, "string"
    with mp.workdps(DIGITS):
        bases = [None, 10] if _has_log(gold) or _has_log(answer) else [None]
        result = (False, "expression")
        for base in bases:
            result = _equal_at_probes(gold, answer, base)
            if result[0] or result[1] == BEYOND:
                return result
        if not strict:
            if _rounds_to(gold, answer):
                return True, "rounded decimal"
            if _same_but_constants(gold, answer):
                return True, "constants renamed"
        elif _long_decimal(gold, answer):
            return True, "rounded decimal"
        return result


def _equal_at_probes(gold: tuple, answer: tuple, log_base: int | None) -> tuple[bool, str]:
    rule = "expression" if symbols(gold) or symbols(answer) else "number"
    probes = PROBES if rule == "expression" else 1
    stretch = 41 if any(contains(tree, "floor", "ceil", "mod") for tree in (gold, answer)) else 1
    agreed = 0
    for probe in range(probes):
        ours, theirs = _at(gold, probe, log_base, stretch), _at(answer, probe, log_base, stretch)
        if TooBig in (ours, theirs):
            if ours is theirs:
                return _same_towers(gold, answer), BEYOND
            return False, BEYOND
        if ours is None or theirs is None:
            if probe < POSITIVE_PROBES and (ours is None) != (theirs is None):
                return False, rule
            continue
        if probe < POSITIVE_PROBES:
            if not same(ours, theirs) and not (_large(ours) and _same_towers(gold, answer)):
                return False, rule
            if _vanishing(ours, theirs) and not _really_same(gold, answer, probe, log_base):
                return False, rule
            agreed += 1
        elif is_real(ours) and is_real(theirs) and not same(ours, theirs):
            return False, rule
    return agreed > 0, rule


def _at(tree: tuple, probe: int, log_base: int | None, stretch: int) -> Value | type | None:
    """The value at a probe, TooBig, or None where it has none."""
    try:
        return Evaluator(probe, log_base=log_base, stretch=stretch).value(tree)
    except TooBig:
        return TooBig
    except Undefined:
        return None


def _large(value: Value) -> bool:
    return not isinstance(value, Fraction) and abs(value) > mpmath.mpf(10) ** 40


def _vanishing(a: Value, b: Value) -> bool:
    """Whether both are so small that equal says little."""
    return (
        not (isinstance(a, Fraction) and isinstance(b, Fraction))
        and max(abs(_float(a)), abs(_float(b))) < mpmath.mpf(10) ** -20
    )


def _float(value: Value):
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def _really_same(gold: tuple, answer: tuple, probe: int, log_base: int | None) -> bool:
    """For tiny values: with twice the digits, equal ones come closer together and different ones do not."""
    with mp.workdps(DIGITS * 3):
        ours, theirs = (Evaluator(probe, log_base=log_base).value(tree) for tree in (gold, answer))
        scale = max(abs(_float(ours)), abs(_float(theirs)))
        return (
            scale < mpmath.mpf(10) ** -(2 * DIGITS)
            or abs(_float(ours) - _float(theirs)) < scale * mpmath.mpf(10) ** -45
        )


def _same_towers(gold: tuple, answer: tuple) -> bool:
    """Equal products of powers of primes, for numbers too large to write down: 2^{2^{40}} and 4^{2^{39}}."""
    ours, theirs = _factors(gold), _factors(answer)
    return ours is not None and ours == theirs


def _factors(tree: tuple) -> dict[int, Fraction] | None:
    """{prime: exponent} of a positive number written as a product of powers; None when it is none."""
    kind = tree[0]
    if kind == "paren":
        return _factors(tree[1])
    if kind in ("mul", "div"):
        parts = [_factors(part) for part in tree[1:3]]
        if None in parts:
            return None
        sign = 1 if kind == "mul" else -1
        merged = {p: parts[0].get(p, 0) + sign * parts[1].get(p, 0) for p in {*parts[0], *parts[1]}}
        return {p: n for p, n in merged.items() if n}
    if kind == "pow":
        base, exponent = _factors(tree[1]), number_value(tree[2])
        if base is None or not isinstance(exponent, Fraction):
            return None
        return {p: n * exponent for p, n in base.items() if exponent}
    value = number_value(tree)
    if not isinstance(value, Fraction) or not 0 < value < 10**9 or value.denominator > 10**9:
        return None
    return {**_prime_factors(value.numerator, 1), **_prime_factors(value.denominator, -1)}


def _prime_factors(n: int, sign: int) -> dict[int, Fraction]:
    found, p = {}, 2
    while p * p <= n:
        while n % p == 0:
            found[p] = found.get(p, Fraction(0)) + sign
            n //= p
        p += 1
    if n > 1:
        found[n] = found.get(n, Fraction(0)) + sign
    return found


def _has_log(tree: tuple) -> bool:
    return (tree[0] == "fn" and tree[1] == "log" and len(tree) == 3) or any(
        _has_log(part) for part in tree[1:] if isinstance(part, tuple) and part and isinstance(part[0], str)
    )


def decimal_of(tree: tuple) -> tuple[Fraction, int, int] | None:
    """(value, decimals, significant digits) of a written decimal; None for everything else, fractions included."""
    sign = 1
    while tree[0] in ("neg", "paren"):
        sign, tree = (-sign, tree[1]) if tree[0] == "neg" else (sign, tree[1])
    if tree[0] == "mul" and tree[2][0] == "pow" and tree[2][1][:2] == ("num", 10):  # 1.6 x 10^-19
        inner, exponent = decimal_of(tree[1]), number_value(tree[2][2])
        if inner and isinstance(exponent, Fraction) and exponent.denominator == 1 and abs(exponent) < 1000:
            return sign * inner[0] * Fraction(10) ** int(exponent), inner[1] - int(exponent), inner[2]
        return None
    if tree[0] != "num" or "(" in tree[2]:
        return None
    mantissa, _, exponent = tree[2].lower().partition("e")
    if "." not in mantissa and not exponent:
        return None
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return sign * tree[1], decimals, len(mantissa.replace(".", "").lstrip("0"))


def _close(exact: Value, decimal: tuple[Fraction, int, int]) -> bool:
    """Whether a decimal is the exact value rounded (to within one unit and a half of half a last digit)."""
    value, decimals, _ = decimal
    return abs(_float(exact) - _float(value)) <= mpmath.mpf(10) ** -decimals * mpmath.mpf("0.501")


def rounds(exact: tuple, decimal: tuple) -> bool:
    """Whether a written decimal is an exact number rounded to its digits."""
    value, written = number_value(exact), decimal_of(decimal)
    return value is not None and written is not None and is_real(value) and _close(value, written)


def _rounds_to(gold: tuple, answer: tuple) -> bool:
    """Lenient: a gold of three digits or more rounds the answer's exact (or longer) value, or the answer gives six or
    more digits of an exact gold."""
    ours, theirs = number_value(gold), number_value(answer)
    if ours is None or theirs is None or not (is_real(ours) and is_real(theirs)):
        return False
    gold_decimal, answer_decimal = decimal_of(gold), decimal_of(answer)
    if gold_decimal and gold_decimal[2] >= 3:
        if answer_decimal is None and not _whole(answer) and not contains(answer, "sym"):
            return _close(theirs, gold_decimal)
        if answer_decimal and answer_decimal[2] >= gold_decimal[2] + 2:
            return _close(theirs, gold_decimal)
    if answer_decimal and not gold_decimal and not _whole(gold):
        return answer_decimal[2] >= 6 and _close(ours, answer_decimal)
    return False


def _long_decimal(gold: tuple, answer: tuple) -> bool:
    """Strict: a decimal of ten digits or more is the exact value."""
    ours, decimal = number_value(gold), decimal_of(answer)
    return bool(
        decimal
        and ours is not None
        and is_real(ours)
        and decimal_of(gold) is None
        and not _whole(gold)
        and decimal[2] >= EXACT_DIGITS
        and _close(ours, decimal)
    )


def _whole(tree: tuple) -> bool:
    value = number_value(tree)
    return isinstance(value, Fraction) and value.denominator == 1


def _same_but_constants(gold: tuple, answer: tuple) -> bool:
    """Lenient: the same family of functions with its constants named otherwise, two to four of them."""
    ours = sorted(name for name in symbols(gold) if _CONSTANT.match(name))
    theirs = sorted(name for name in symbols(answer) if _CONSTANT.match(name))
    others = symbols(gold) - set(ours)
    if not 2 <= len(ours) == len(theirs) <= 4 or not others or others != symbols(answer) - set(theirs):
        return False
    return any(
        _equal_at_probes(gold, _renamed(answer, dict(zip(theirs, order, strict=True))), None)[0]
        for order in itertools.permutations(ours)
    )


def _renamed(tree: tuple, names: dict[str, str]) -> tuple:
    if tree[0] == "sym":
        return ("sym", names.get(tree[1], tree[1]))
    return tuple(
        _renamed(part, names) if isinstance(part, tuple) and part and isinstance(part[0], str) else part
        for part in tree
    )
