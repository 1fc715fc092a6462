"""The arithmetic of the reader: sums, products, powers, signs, mixed numbers, over a cursor of tokens."""

from fractions import Fraction

from .tokens import Token, Unreadable
from .words import BASE_WORDS

MAX_DEPTH = 60
UNIT_LETTERS = {"s", "h", "m", "g", "L"}  # behind a slash: miles/s
_STARTS = {"num", "sym", "fn", "cmd", "begin", "text", "open"}


class Arithmetic:
    """Recursive descent over the tokens, one method a level of precedence; `items` and what is above sums:
    reader.py.
    """

    def __init__(self, tokens: list[Token]):
        self.tokens, self.at, self.depth, self.bars = tokens, 0, 0, 0

    @property
    def current(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def is_op(self, *values: str) -> bool:
        token = self.current
        return token is not None and token.kind == "op" and token.value in values

    def take(self) -> Token:
        token = self.current
        if token is None:
            raise Unreadable("cut off")
        self.at += 1
        return token

    def expect(self, kind: str, value: str = "") -> Token:
        token = self.take()
        if token.kind != kind or (value and token.value != value):
            raise Unreadable(f"{token.value!r} where {value or kind} is due")
        return token

    def sum(self) -> tuple:
        terms = [self.signed()]
        while self.is_op("+", "-", "pm", "mp"):
            if self.at + 1 >= len(self.tokens):
                raise Unreadable("a sum without its last term")
            sign = self.take().value
            term = self.signed()
            terms.append({"+": term, "-": ("neg", term), "pm": ("pm", term), "mp": ("mp", term)}[sign])
        return terms[0] if len(terms) == 1 else ("add", *terms)

    def signed(self) -> tuple:
        if self.is_op("+", "-", "pm", "mp"):
            sign = self.take().value
            tree = self.signed()
            return tree if sign == "+" else ({"-": "neg"}.get(sign, sign), tree)
        return self.term()

    def term(self) -> tuple:
        tree = self.power(first=True)
        while True:
            token = self.current
            if self.is_op("*"):
                self.at += 1
                right = self.signed_power()
                tree = ("mul", tree, right)
            elif self.is_op("/"):
                self.at += 1
                tree = ("div", tree, self.signed_power())
            elif self.is_op("mod", "pmod"):
                self.at += 1
                tree = ("mod", tree, self.power())
            elif token is not None and self.starts_factor(token):
                if (token.kind == "text" and self.only_words_left()) or (
                    token.kind == "open" and self.words_in_brackets()
                ):
                    return tree
                mixed = self.mixed(tree, token)
                tree = mixed if mixed else ("mul", tree, self.power())
            else:
                return tree

    def signed_power(self) -> tuple:
        if self.is_op("-", "+"):
            sign = self.take().value
            tree = self.signed_power()
            return ("neg", tree) if sign == "-" else tree
        return self.power()

    def starts_factor(self, token: Token) -> bool:
        if token.kind in _STARTS:
            return True
        return self.is_op("dots", "money") or (self.is_op("|") and self.bars == 0 and self.closing_bar())

    def closing_bar(self) -> bool:
        return any(
            token.kind == "op" and token.value == "|" for token in self.tokens[self.at + 1 : self.at + 60]
        )

    def only_words_left(self) -> bool:
        """Whether from here to the end of the item stand only words and what belongs to units."""
        for token in self.tokens[self.at :]:
            if (
                token.kind in ("close", "end")
                and token.value != "}"
                or (token.kind == "op" and token.value in ("sep", "&", "row"))
            ):
                return True
            if token.kind == "rel":
                return False
            if not (
                token.kind in ("text", "num")
                or token.value in UNIT_LETTERS
                or token.value in ("/", "^", "{", "}", ":", "*")
            ):
                return False
        return True

    def mixed(self, tree: tuple, token: Token) -> tuple | None:
        """`3\\frac{1}{4}` and `3 1/4` are sums: a whole number, then a proper fraction of whole numbers."""
        if (
            tree[0] != "num"
            or tree[1].denominator != 1
            or "." in tree[2]
            or self.tokens[self.at - 1].kind != "num"
        ):
            return None
        start = self.at
        if token.kind == "cmd" and token.value == r"\frac":
            fraction = self.power()
        elif token.kind == "num" and token.blank:
            above = self.power()
            if not self.is_op("/"):
                raise Unreadable("two numbers side by side")
            self.at += 1
            fraction = ("div", above, self.power())
        else:
            return None
        outer = fraction[0] if fraction[0] in ("pct", "deg") else None  # 66\frac{2}{3}\%
        fraction = fraction[1] if outer else fraction
        parts = fraction[1:]
        if (
            fraction[0] == "div"
            and all(part[0] == "num" and part[1].denominator == 1 for part in parts)
            and parts[0][1] < parts[1][1]
        ):
            return (outer, ("add", tree, fraction)) if outer else ("add", tree, fraction)
        self.at = start
        if token.kind == "num":
            raise Unreadable("two numbers side by side")
        return None

    def power(self, first: bool = False) -> tuple:
        tree = self.postfix(self.primary(first))
        if self.is_op("^"):
            self.at += 1
            primes = self.primes()
            if primes:
                tree = self.postfix(("prime", tree, primes))
                return ("pow", tree, self.exponent()) if self.is_op("^") and self.take() else tree
            tree = self.postfix(("pow", tree, self.exponent()))
            if tree[0] == "pow" and self.is_op("_") and tree[1][0] == "sym":  # x^2_1
                self.at += 1
                tree = ("pow", ("sym", f"{tree[1][1]}_{self.subscript()}"), tree[2])
        return tree

    def primes(self) -> int:
        start, braced = self.at, self.current is not None and self.current.value == "{"
        self.at += braced
        count = 0
        while self.is_op("'"):
            count, self.at = count + 1, self.at + 1
        if not count or (braced and not (self.current and self.current.value == "}")):
            self.at = start
            return 0
        self.at += braced
        return count

    def exponent(self) -> tuple:
        if self.is_op("-", "+"):
            sign = self.take().value
            inner = self.exponent()
            return ("neg", inner) if sign == "-" else inner
        tree = self.postfix(self.primary(), subscripts=False)
        if self.is_op("^"):
            self.at += 1
            tree = ("pow", tree, self.exponent())
        return tree

    def postfix(self, tree: tuple, subscripts: bool = True) -> tuple:
        while True:
            if self.is_op("!"):
                self.at += 1
                tree = ("fact", tree)
            elif self.is_op("%"):
                self.at += 1
                tree = ("pct", tree)
            elif self.is_op("deg"):
                self.at += 1
                tree = ("deg", tree)
            elif self.is_op("'"):
                count = 0
                while self.is_op("'"):
                    count, self.at = count + 1, self.at + 1
                tree = ("prime", tree, count)
                if self.current is not None and self.current.value == "(" and tree[1][0] == "sym":
                    tree = ("app", f"{tree[1][1]}'{count}", self.primary())
            elif subscripts and self.is_op("_") and tree[0] in ("num", "paren"):
                self.at += 1
                tree = self.based(tree)
            else:
                return tree

    def based(self, tree: tuple) -> tuple:
        base = self.subscript().lower()
        number = BASE_WORDS.get(base, int(base) if base.isdigit() else None)
        digits = tree[1] if tree[0] == "paren" else tree
        if number is None or digits[0] != "num":
            raise Unreadable("a subscript on a number")
        return ("base", digits[2], number)

    def subscript(self) -> str:
        token = self.take()
        if (token.kind, token.value) != ("open", "{"):
            if token.kind == "cmd" or (token.kind == "close"):
                raise Unreadable("subscript")
            return token.value.strip("\\ ")
        parts, depth = [], 1
        while depth:
            token = self.take()
            depth += {"{": 1, "}": -1}.get(token.value, 0) if token.kind in ("open", "close") else 0
            if depth:
                parts.append(token.value.strip("\\ ") if token.kind != "text" else token.value.strip("() "))
        return "".join(parts)

    def braced(self) -> tuple:
        """The group at the cursor, or the one primary that TeX takes in its place."""
        if self.current is not None and (self.current.kind, self.current.value) == ("open", "{"):
            return self.group()
        return self.primary()

    def primary(self, first: bool = False) -> tuple:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deep")
        try:
            from . import primaries

            return primaries.primary(self, self.take(), first)
        finally:
            self.depth -= 1

    def group(self) -> tuple:
        from . import primaries

        return primaries.group(self, self.expect("open", "{"))


def number(text: str) -> tuple:
    """("num", value, text) of digits, with point and exponent as written."""
    mantissa, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent)) > 10_000:
        raise Unreadable("exponent")
    return ("num", Fraction(mantissa.rstrip(".") or "0") * Fraction(10) ** int(exponent or 0), text)
