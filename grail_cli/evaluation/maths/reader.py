"""A cleaned answer as a tree of tuples: `read` gives ("list", ...), ("rel", ...), ("add", ...), ("num", ...), ...

Expressions: num sym add neg mul div pow fn app fact binom pm mp deg pct mod abs floor ceil big det index.
Shapes: list seq set cond rel union inter minus matrix text note ratio base cases.
("note", tree, text) is a value with words or a unit behind it; ("lead", text, tree) one with words before it.
"""

from fractions import Fraction

from .tokens import Token, Unreadable, tokenize
from .words import BASE_WORDS

MAX_DEPTH = 60
UNIT_LETTERS = {"s", "h", "m", "g", "L"}  # behind a slash: miles/s
_STARTS = {"num", "sym", "fn", "cmd", "begin", "text", "open"}


def read(cleaned: str) -> tuple:
    """The tree of a cleaned text. Raises Unreadable for what is no mathematics known here."""
    reader = Reader(tokenize(cleaned))
    tree = reader.items()
    if reader.is_op("over", "choose"):  # the braces around it have been trimmed
        tree = ("div" if reader.take().value == "over" else "binom", tree, reader.items())
    if reader.current is not None:
        raise Unreadable(f"at {reader.current.value!r}")
    return tree


class Reader:
    """Recursive descent over the tokens; one method a level of precedence."""

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

    # lists, relations, sets ------------------------------------------------------------------------------------

    def items(self) -> tuple:
        """Items between commas, `and`, `or`; one item alone is itself."""
        items = []
        while True:
            while self.is_op("sep"):
                self.at += 1
            if self.ends_list():
                break
            items.append(self.item())
            if not self.is_op("sep"):
                break
        if not items:
            raise Unreadable("nothing")
        return items[0] if len(items) == 1 else ("list", *items)

    def ends_list(self) -> bool:
        token = self.current
        return token is None or token.kind in ("close", "end") or (token.kind == "op" and token.value in ("&", "row", "over", "choose")) or (
            token.kind == "op" and token.value == "|" and self.bars > 0)

    def item(self) -> tuple:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deep")
        try:
            lead = self.note_text()
            if self.ends_list() or self.is_op("sep"):
                return ("text", lead)
            tree = self.ratio()
            note = self.note_text()
            if note:
                tree = ("note", tree, note)
            return ("lead", lead, tree) if lead else tree
        finally:
            self.depth -= 1

    def note_text(self) -> str:
        """Words at the cursor, a unit with powers and slashes included."""
        parts = []
        start = self.at
        while self.current is not None:
            token = self.current
            if token.kind == "text":
                parts.append(token.value)
            elif self.at > start and token.kind == "op" and token.value in ("/", "^", "*") and self.tokens[self.at - 1].kind == "text":
                following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
                if following is None or not (following.kind in ("text", "num") or (following.kind, following.value) == ("open", "{")
                                             or (token.value == "/" and following.value in UNIT_LETTERS)):
                    break
                parts.append(token.value)
                if token.value == "/" and following.kind == "sym":
                    self.at += 1
                    parts.append(following.value)
                if token.value == "^":
                    self.at += 1
                    if following.kind == "open":
                        inner = self.braced()
                        parts.append(str(inner[1]) if inner[0] == "num" else "")
                        continue
                    parts.append(following.value)
            elif parts and token.kind == "op" and token.value == ":" :
                parts.append(":")
            else:
                break
            self.at += 1
        return " ".join(parts).replace(" ^ ", "^")

    def ratio(self) -> tuple:
        tree = self.relation()
        parts = [tree]
        while self.is_op(":"):
            self.at += 1
            parts.append(self.relation())
        return tree if len(parts) == 1 else ("ratio", *parts)

    def relation(self) -> tuple:
        operators, sides = [], []
        token = self.current
        if token.kind == "rel" and token.value in ("~", "="):  # "\approx 6.76"
            self.at += 1
            return self.relation()
        sides.append(self.sets())
        while self.current is not None and self.current.kind == "rel":
            operators.append(self.take().value)
            if self.current is None or self.ends_list():
                raise Unreadable("a relation without a right side")
            if self.current.kind == "text" and operators[-1] in ("=", "~") and self.words_then_value():
                self.note_text()  # "= approximately 5"
            sides.append(self.sets())
        if not operators:
            return sides[0]
        return ("rel", tuple(operators), *sides)

    def words_then_value(self) -> bool:
        position = self.at
        while position < len(self.tokens) and self.tokens[position].kind == "text":
            position += 1
        return position < len(self.tokens) and self.tokens[position].kind in ("num", "sym", "cmd", "open")

    def sets(self) -> tuple:
        tree = self.sum()
        while self.is_op("cup", "cap", "setminus"):
            kind = {"cup": "union", "cap": "inter", "setminus": "minus"}[self.take().value]
            while self.is_op("sep"):
                self.at += 1
            tree = (kind, tree, self.sum())
        return tree

    # arithmetic --------------------------------------------------------------------------------------------------

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
                if token.kind == "text" and self.only_words_left():
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
        return any(token.kind == "op" and token.value == "|" for token in self.tokens[self.at + 1:self.at + 60])

    def only_words_left(self) -> bool:
        """Whether from here to the end of the item stand only words and what belongs to units."""
        for token in self.tokens[self.at:]:
            if token.kind in ("close", "end") and token.value != "}" or (token.kind == "op" and token.value in ("sep", "&", "row")):
                return True
            if token.kind == "rel":
                return False
            if not (token.kind in ("text", "num") or token.value in UNIT_LETTERS or token.value in ("/", "^", "{", "}", ":", "*")):
                return False
        return True

    def mixed(self, tree: tuple, token: Token) -> tuple | None:
        """`3\\frac{1}{4}` and `3 1/4` are sums: a whole number, then a proper fraction of whole numbers."""
        if tree[0] != "num" or tree[1].denominator != 1 or "." in tree[2] or self.tokens[self.at - 1].kind != "num":
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
        parts = fraction[1:]
        if fraction[0] == "div" and all(part[0] == "num" and part[1].denominator == 1 for part in parts) and parts[0][1] < parts[1][1]:
            return ("add", tree, fraction)
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

