"""Numbers for trees: exact fractions where possible, else 60 digits, at fixed probe points for the symbols.

Two expressions are equal when they agree at every probe point; a disagreement of one part in 10^45 is one. Nothing is
expanded or simplified, so that no expression takes long; what grows beyond the bounds raises TooBig.
"""

import hashlib
from fractions import Fraction

import mpmath
from mpmath import mp

from .tokens import Unreadable

DIGITS = 60
TOLERANCE = mpmath.mpf(10) ** -45
BITS = 60_000  # of an exact number
PROBES = 5  # the first three have positive symbols only
POSITIVE_PROBES = 3
MAX_TERMS = 2_000


class TooBig(Exception):
    """A value beyond the bounds: towers of powers, factorials of factorials."""


class Undefined(Exception):
    """No value at this point: a division by zero, a logarithm of zero."""


Value = Fraction | mpmath.mpf | mpmath.mpc


def symbol_value(name: str, probe: int) -> Fraction:
    """The value of a symbol at a probe point: a fixed fraction between 0.3 and 1.7, negative for some at
    later probes.
    """
    digest = hashlib.sha256(f"{name} {probe}".encode()).digest()
    value = Fraction(3, 10) + Fraction(int.from_bytes(digest[:3], "big") % 1399, 1000)
    return -value if probe >= POSITIVE_PROBES and digest[4] & 1 else value


class Evaluator:
    """value(tree): the value at one probe point.

    bound: values of some symbols (an index of summation). log_base: of a logarithm written without one (None: e).
    stretch: factor on all symbol values, for floors and remainders, which tell nothing of small numbers.
    """

    def __init__(
        self,
        probe: int = 0,
        bound: dict[str, Value] | None = None,
        log_base: int | None = None,
        stretch: int = 1,
    ):
        self.probe, self.bound, self.log_base, self.stretch = probe, bound or {}, log_base, stretch

    def inside(self, **bound: Value) -> "Evaluator":
        """The same point with more symbols bound."""
        return Evaluator(self.probe, {**self.bound, **bound}, self.log_base, self.stretch)

    def value(self, tree: tuple) -> Value:
        """Raises TooBig, Undefined, or Unreadable for trees that are no expressions."""
        method = getattr(self, "_" + tree[0], None)
        if method is None:
            raise Unreadable(f"{tree[0]} has no value")
        return method(*tree[1:])

    def _num(self, value: Fraction, text: str) -> Value:
        return value

    def _paren(self, inner: tuple, opening: str) -> Value:
        return self.value(inner)

    def _sym(self, name: str) -> Value:
        if name in self.bound:
            return self.bound[name]
        if name == r"\pi":
            return +mp.pi
        if name == "e":
            return +mp.e
        if name == "i":
            return mpmath.mpc(0, 1)
        if name == r"\infty":
            raise Unreadable("infinity has no value")
        return symbol_value(name, self.probe) * self.stretch

    def _prime(self, tree: tuple, count: int) -> Value:
        if tree[0] not in ("sym", "app", "prime"):
            raise Unreadable("a prime")
        return self.opaque(f"prime {count}", [self.value(tree)])

    def _neg(self, a: tuple) -> Value:
        return -self.value(a)

    def _add(self, *terms: tuple) -> Value:
        total = self.value(terms[0])
        for term in terms[1:]:
            total = arithmetic("add", total, self.value(term))
        return total

    def _mul(self, a: tuple, b: tuple) -> Value:
        return arithmetic("mul", self.value(a), self.value(b))

    def _div(self, a: tuple, b: tuple) -> Value:
        above, below = self.value(a), self.value(b)
        if below == 0:
            raise Undefined
        return arithmetic("div", above, below)

    def _pct(self, a: tuple) -> Value:
        return self.value(("div", a, ("num", Fraction(100), "100")))

    def _deg(self, a: tuple) -> Value:
        return self.value(a) if not self.bound.get("in angle") else as_float(self.value(a)) * mp.pi / 180

    def _pow(self, a: tuple, b: tuple) -> Value:
        return power(self.value(a), self.value(b))

    def _mod(self, a: tuple, b: tuple) -> Value:
        modulus = self.value(b)
        if (
            a[0] == "pow"
            and isinstance(modulus, Fraction)
            and modulus.denominator == 1
            and 0 < modulus < 2**256
        ):
            base, exponent = self.value(a[1]), self.value(a[2])
            if (
                all(isinstance(v, Fraction) and v.denominator == 1 for v in (base, exponent))
                and exponent >= 0
            ):
                return Fraction(pow(int(base), int(exponent), int(modulus)))
        left = self.value(a)
        if not (isinstance(left, Fraction) and isinstance(modulus, Fraction)) or modulus == 0:
            raise Undefined
        return left % modulus

    def _fact(self, a: tuple) -> Value:
        n = self.value(a)
        if isinstance(n, Fraction) and n.denominator == 1 and 0 <= n <= 3000:
            return Fraction(int(mpmath.libmp.ifac(int(n))))
        n = as_real(n)
        if n < 0 and n == mpmath.floor(n):
            raise Undefined
        if n > 10**15:
            raise TooBig
        return mpmath.gamma(n + 1)

    def _binom(self, n: tuple, k: tuple) -> Value:
        above, below = self.value(n), self.value(k)
        if (
            all(isinstance(v, Fraction) and v.denominator == 1 for v in (above, below))
            and 0 <= below <= above <= 10_000
        ):
            import math

            return Fraction(math.comb(int(above), int(below)))
        above, below = as_real(above), as_real(below)
        if max(abs(above), abs(below)) > 10**15:
            raise TooBig
        return mpmath.binomial(above, below)

    def _abs(self, a: tuple) -> Value:
        return abs(self.value(a))

    def _floor(self, a: tuple) -> Value:
        value = self.value(a)
        return (
            Fraction(value.numerator // value.denominator)
            if isinstance(value, Fraction)
            else mpmath.floor(as_real(value))
        )

    def _ceil(self, a: tuple) -> Value:
        return -self._floor(("neg", a))

    def _det(self, matrix: tuple) -> Value:
        rows = [[self.value(cell) for cell in row] for row in matrix[1:]]
        if len({len(row) for row in rows} | {len(rows)}) != 1 or len(rows) > 8:
            raise Unreadable("determinant")
        return _determinant(rows)

    def _fn(self, name: str, argument: tuple, base: tuple | None = None) -> Value:
        from .functions import apply

        return apply(self, name, argument, base)

    def _app(self, name: str, *arguments: tuple) -> Value:
        return self.opaque("app " + name, [self.value(argument) for argument in arguments])

    def _big(self, name: str, lower: tuple, upper: tuple, body: tuple) -> Value:
        from .functions import big

        return big(self, name, lower, upper, body)

    def opaque(self, name: str, values: list[Value]) -> Value:
        """A fixed value for something unknown, by its name and the values that it depends on."""
        with mp.workdps(DIGITS):
            parts = [mpmath.nstr(mpmath.mpmathify(as_float(value)), 25) for value in values]
        return symbol_value(" ".join([name, *parts]), 0)


def power(base: Value, exponent: Value) -> Value:
    """base ** exponent, exact for whole exponents within the bounds."""
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        n = int(exponent)
        if base == 0 and n <= 0:  # 0^0 is no answer
            raise Undefined
        if isinstance(base, Fraction):
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if abs(n) * bits <= BITS:
                return base**n
            if abs(base) == 1:
                return base ** (n % 2)
    if base == 0:
        if isinstance(exponent, mpmath.mpc) or exponent <= 0:
            raise Undefined
        return Fraction(0)
    base, exponent = as_float(base), as_float(exponent)
    size = abs(exponent) * (abs(mpmath.log(abs(base))) + 7)
    if size > mpmath.mpf(2) ** 62:
        raise TooBig
    return mpmath.power(base, exponent)


def arithmetic(operation: str, a: Value, b: Value) -> Value:
    """add, mul or div of two values; exact numbers that outgrow the bounds become inexact."""
    if not (isinstance(a, Fraction) and isinstance(b, Fraction)):
        a, b = as_float(a), as_float(b)
    result = a + b if operation == "add" else a * b if operation == "mul" else a / b
    if (
        isinstance(result, Fraction)
        and max(result.numerator.bit_length(), result.denominator.bit_length()) > BITS
    ):
        return as_float(result)
    return result


def as_float(value: Value) -> mpmath.mpf | mpmath.mpc:
    """A value as a number of mpmath."""
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def as_real(value: Value) -> mpmath.mpf:
    """A value as a real number; Undefined when it has an imaginary part."""
    value = as_float(value)
    if isinstance(value, mpmath.mpc):
        if abs(value.imag) > TOLERANCE * (1 + abs(value.real)):
            raise Undefined
        value = value.real
    return value


def _determinant(rows: list[list[Value]]) -> Value:
    if len(rows) == 1:
        return rows[0][0]
    total: Value = Fraction(0)
    for column, cell in enumerate(rows[0]):
        minor = [row[:column] + row[column + 1 :] for row in rows[1:]]
        term = arithmetic("mul", cell, _determinant(minor))
        total = arithmetic("add", total, term if column % 2 == 0 else -term)
    return total


def same(a: Value, b: Value) -> bool:
    """Whether two values are equal: exactly for fractions, to one part in 10^45 otherwise."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b
    a, b = as_float(a), as_float(b)
    scale = max(abs(a), abs(b))
    if scale > mpmath.mpf(10) ** 40:  # the last digits are not there: equal is not known
        return False
    return abs(a - b) <= TOLERANCE * max(scale, mpmath.mpf(10) ** -5)


def is_real(value: Value) -> bool:
    """Whether a value has no imaginary part."""
    return not isinstance(value, mpmath.mpc) or abs(value.imag) <= TOLERANCE * (1 + abs(value.real))
