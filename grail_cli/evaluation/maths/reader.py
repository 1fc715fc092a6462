"""A cleaned answer as a tree of tuples: `read` gives ("list", ...), ("rel", ...), ("add", ...), ("num",
...), ...

Expressions: num sym add neg mul div pow fn app fact binom pm mp deg pct mod prime abs floor ceil big det. Shapes: list
seq set cond rel union inter minus matrix cases text note lead ratio base. ("note", tree, text) is a value with words
or a unit behind it; ("lead", text, tree) one with words before it.
"""

from .arithmetic import MAX_DEPTH, UNIT_LETTERS, Arithmetic
from .tokens import Unreadable, tokenize


def read(cleaned: str) -> tuple:
    """The tree of a cleaned text. Raises Unreadable for what is no mathematics known here."""
    reader = Reader(tokenize(cleaned))
    tree = reader.items()
    if reader.is_op("over", "choose"):  # the braces around it have been trimmed
        tree = ("div" if reader.take().value == "over" else "binom", tree, reader.items())
    if reader.current is not None:
        raise Unreadable(f"at {reader.current.value!r}")
    return tree


class Reader(Arithmetic):
    """Lists, relations, sets and words around the arithmetic."""

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
        return (
            token is None
            or token.kind in ("close", "end")
            or (token.kind == "op" and token.value in ("&", "row", "over", "choose"))
            or (token.kind == "op" and token.value == "|" and self.bars > 0)
        )

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
            elif (
                self.at > start
                and token.kind == "op"
                and token.value in ("/", "^", "*")
                and self.tokens[self.at - 1].kind == "text"
            ):
                following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
                if following is None or not (
                    following.kind in ("text", "num")
                    or (following.kind, following.value) == ("open", "{")
                    or (token.value == "/" and following.value in UNIT_LETTERS)
                ):
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
            elif parts and token.kind == "op" and token.value == ":":
                parts.append(":")
            elif self.words_in_brackets():
                self.at += 1
                parts.append(self.note_text())
                self.expect("close", ")")
                continue
            else:
                break
            self.at += 1
        return " ".join(parts).replace(" ^ ", "^")

    def words_in_brackets(self) -> bool:
        """Whether words in round brackets begin here: `47.5 (pounds)`."""
        end = self.at + 1
        while end < len(self.tokens) and self.tokens[end].kind == "text":
            end += 1
        return (
            (self.current.kind, self.current.value) == ("open", "(")
            and end > self.at + 1
            and self.tokens[end : end + 1] != []
            and (self.tokens[end].value == ")")
        )

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
        if token is None:
            raise Unreadable("nothing behind the relation")
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
