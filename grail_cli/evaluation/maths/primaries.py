"""The smallest parts of an answer: numbers, symbols, functions with their arguments, brackets, matrices, sums."""

from .symbols import ACCENTS
from .tokens import Token, Unreadable

_ALWAYS_FUNCTIONS = set("fghFGH")
_ARGUMENTS = set("xtnzsyrkABXYm") | {r"\theta", r"\omega", r"\lambda"}
_MATCH = {"(": ")", "[": "]", r"\{": r"\}", "<": ">", "floor": "floor", "ceil": "ceil"}


def primary(reader, token: Token, first: bool) -> tuple:
    """The tree that begins with `token`, which the reader has just taken."""
    if token.kind == "num":
        from .arithmetic import number

        tree = number(token.value)
        return _repeating(reader, tree)
    if token.kind == "sym":
        return _symbol(reader, token.value)
    if token.kind == "text":
        return ("sym", "text " + " ".join(token.value.lower().split()))
    if token.kind == "fn":
        return _function(reader, token.value)
    if token.kind == "cmd":
        return _command(reader, token.value)
    if token.kind == "open":
        return group(reader, token) if token.value == "{" else _bracket(reader, token.value)
    if token.kind == "begin":
        return _matrix(reader, token.value)
    if token.kind == "op" and token.value == "|":
        return _absolute(reader)
    if token.kind == "op" and token.value == "dots":
        return ("sym", "dots")
    if token.kind == "op" and token.value == "money":
        return primary(reader, reader.take(), first)
    if token.kind == "op" and token.value == "cup" and first:  # \bigcup_{k} ...
        return _big(reader, "cup")
    raise Unreadable(f"{token.value!r}")


def group(reader, token: Token) -> tuple:
    """A TeX group: its content, with `\\over` and `\\choose` inside."""
    if reader.current is not None and reader.current.value == "}" and reader.current.kind == "close":
        reader.at += 1
        return ("sym", "nothing")
    bars, reader.bars = reader.bars, 0
    tree = reader.items()
    if reader.is_op("over", "choose"):
        kind = "div" if reader.take().value == "over" else "binom"
        tree = (kind, tree, reader.items())
    reader.bars = bars
    reader.expect("close", "}")
    return tree


def _repeating(reader, tree: tuple) -> tuple:
    """0.1\\overline{6} is a number."""
    token = reader.current
    if not (
        token
        and token.kind == "cmd"
        and token.value in (r"\overline", r"\bar", r"\dot")
        and "." in tree[2]
        and not token.blank
    ):
        return tree
    reader.at += 1
    inner = reader.braced()
    if inner[0] != "num" or not inner[2].isdigit():
        raise Unreadable("overline")
    from fractions import Fraction

    decimals, period = len(tree[2].partition(".")[2]), inner[2]
    value = tree[1] + Fraction(int(period), (10 ** len(period) - 1) * 10**decimals)
    return ("num", value, f"{tree[2]}({period})")


def _symbol(reader, name: str) -> tuple:
    if name in (r"\mathbb R",) and reader.is_op("^"):
        return ("sym", name)
    while reader.is_op("_"):
        reader.at += 1
        name = f"{name}_{reader.subscript()}"
    if name in (r"\nabla", r"\partial", r"\angle", r"\triangle", r"\Delta") or name.startswith(r"\mathbb"):
        return ("sym", name)
    token = reader.current
    if token is not None and token.kind == "open" and token.value == "(" and name not in ("e", "i", r"\pi"):
        return _application(reader, name)
    return ("sym", name)


def _application(reader, name: str) -> tuple:
    """`f(x)` and `I(0)` are values of a function, `x(x+1)` is a product: told by the name and what is in brackets."""
    start = reader.at
    argument = _bracket(reader, reader.take().value)
    inner = {"paren": argument[1:2], "seq": argument[3:], "set": (argument,)}.get(argument[0])
    base = name.split("_")[0].rstrip("'")
    if inner is not None and (
        (base in _ALWAYS_FUNCTIONS and argument[:2] != ("seq", "["))
        or (argument[0] == "seq" and argument[1] == "(" and len(base) == 1)
        or (
            len(inner) == 1
            and (
                inner[0][0] == "num"
                or (inner[0][0] == "sym" and inner[0][1] in _ARGUMENTS and inner[0][1] != name)
            )
            and not (base in "xabc" and inner[0][0] == "num")
        )
        or (len(inner) == 1 and base in ("P", "E", r"\Gamma", r"\delta", r"\phi", r"\Phi"))
    ):
        return ("app", name, *inner)
    reader.at = start
    return ("sym", name)


def _function(reader, name: str) -> tuple:
    """A named function, its base or limits, power and argument: `\\log_2 7`, `\\sin^2 x`, `\\sin^{-1} x`,
    `\\cos 3t`.
    """
    base = power = None
    while reader.is_op("_", "^"):
        if reader.take().value == "_":
            base = reader.braced()
        elif reader.is_op("-"):
            power = reader.exponent()
        else:
            power = reader.braced()
    argument = _argument(reader)
    if (
        power is not None
        and power[0] == "neg"
        and power[1][:2] == ("num", 1)
        and name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")
    ):
        return (
            "fn",
            {"sinh": "arsinh", "cosh": "arcosh", "tanh": "artanh"}.get(name, "arc" + name),
            argument,
        )
    tree = ("fn", name, argument) if base is None else ("fn", name, argument, base)
    return tree if power is None else ("pow", tree, power)


def _argument(reader) -> tuple:
    token = reader.current
    if token is None or reader.ends_list() or token.kind == "rel" or reader.is_op("sep"):
        return ("sym", "nothing")  # `\max` alone, a name
    if token.kind == "open":
        tree = primary(reader, reader.take(), False)
        return tree[1] if tree[0] == "paren" else tree
    if reader.is_op("-", "+"):
        sign = reader.take().value
        return ("neg", _argument(reader)) if sign == "-" else _argument(reader)
    tree = reader.power()
    while reader.current is not None:
        token = reader.current
        euler = token.kind == "sym" and token.value == "e"
        if (
            token.kind in ("num", "sym")
            and not euler
            or (token.kind == "cmd" and token.value in (r"\frac", r"\sqrt"))
        ):
            tree = ("mul", tree, reader.power())
        elif (
            token.kind == "op"
            and token.value == "*"
            and _simple_factor(reader.tokens[reader.at + 1 : reader.at + 2])
        ):
            reader.at += 1
            tree = ("mul", tree, reader.power())
        else:
            break
    return tree


def _simple_factor(tokens: list[Token]) -> bool:
    return bool(tokens) and (tokens[0].kind in ("sym", "num") or tokens[0].value in (r"\frac", r"\sqrt"))


def _command(reader, command: str) -> tuple:
    if command == r"\frac":
        above = reader.braced()
        below = reader.braced()
        return ("div", *_differential(above, below))
    if command == r"\binom":
        return ("binom", reader.braced(), reader.braced())
    if command == r"\sqrt":
        index = None
        if reader.current is not None and (reader.current.kind, reader.current.value) == ("open", "["):
            reader.at += 1
            index = reader.items()
            reader.expect("close", "]")
        inner = reader.braced()
        inner = inner[1] if inner[0] == "paren" else inner
        return ("fn", "sqrt", inner) if index is None else ("fn", "root", inner, index)
    if command[1:] in ACCENTS:
        start = reader.at
        if reader.current is not None and reader.current.kind == "sym":
            reader.at += 1
        else:
            reader.braced()
        name = "".join(token.value.strip("\\{}") for token in reader.tokens[start : reader.at])
        return _symbol(reader, f"{command[1:]} {name}")
    if command == r"\not":
        raise Unreadable(command)
    return _big(reader, command[1:])


def _differential(above: tuple, below: tuple) -> tuple[tuple, tuple]:
    """d in a derivative is no factor: it must not cancel."""

    def first(tree: tuple) -> tuple:
        while tree[0] == "mul":
            tree = tree[1]
        return tree[1] if tree[0] == "pow" else tree

    def rename(tree: tuple) -> tuple:
        if tree[0] == "mul":
            return ("mul", rename(tree[1]), *tree[2:])
        if tree[0] == "pow":
            return ("pow", rename(tree[1]), *tree[2:])
        return ("sym", tree[1] + " below")

    mark = first(below)
    if (
        mark in (("sym", "d"), ("sym", r"\partial"))
        and first(above) in (mark, ("num", 1, "1"))
        and below != mark
    ):
        return above, rename(below)
    return above, below


def _big(reader, name: str) -> tuple:
    """A sum, product, integral or limit: name, lower, upper, body; compared by its parts, small sums by value."""
    lower = upper = ("sym", "nothing")
    while reader.is_op("_", "^"):
        if reader.take().value == "_":
            lower = reader.braced()
        else:
            upper = reader.braced()
    body = reader.term()
    return ("big", name, lower, upper, body)


def _bracket(reader, opening: str) -> tuple:
    """( ) and [ ]: a value, a pair, an interval; \\{ \\}: a set, a condition, or cases."""
    bars, reader.bars = reader.bars, 0
    try:
        token = reader.current
        if token is not None and token.kind == "close" and opening == r"\{":
            reader.at += 1
            return ("set",)
        inner = reader.items()
        if opening == r"\{" and (reader.is_op("|") or reader.is_op(":")):
            reader.at += 1
            condition = reader.items()
            reader.expect("close", r"\}")
            return ("cond", inner, condition)
        if (
            opening == r"\{"
            and inner[0] in ("matrix",)
            and (reader.current is None or reader.current.kind != "close")
        ):
            return ("cases", *inner[1:])
        closing = reader.expect("close").value
    finally:
        reader.bars = bars
    items = inner[1:] if inner[0] == "list" else (inner,)
    if opening == r"\{":
        if closing != r"\}":
            raise Unreadable("brackets")
        if len(items) == 1 and items[0][0] == "ratio" and len(items[0]) == 3:
            return ("cond", *items[0][1:])
        return ("set", *items)
    if opening in ("floor", "ceil"):
        if closing != opening or len(items) != 1:
            raise Unreadable("brackets")
        return (opening, inner)
    if len(items) == 1:
        if closing != _MATCH[opening]:
            raise Unreadable("brackets")
        if inner[0] in ("matrix", "set"):
            return inner
        return ("paren", inner, opening)
    if closing not in (")", "]", ">"):
        raise Unreadable("brackets")
    return ("seq", opening, closing, *items)


def _absolute(reader) -> tuple:
    reader.bars += 1
    inner = reader.items()
    reader.bars -= 1
    if not reader.is_op("|"):
        raise Unreadable("a bar is open")
    reader.at += 1
    return ("det", inner) if inner[0] == "matrix" else ("abs", inner)


def _matrix(reader, environment: str) -> tuple:
    rows, row = [], []
    bars, reader.bars = reader.bars, 0
    while True:
        if reader.is_op("&"):
            reader.at += 1
        elif reader.is_op("row"):
            reader.at += 1
            if row:
                rows.append(tuple(row))
            row = []
        elif reader.current is not None and reader.current.kind == "end":
            if reader.take().value != environment:
                raise Unreadable("environment")
            break
        else:
            row.append(reader.items())
    reader.bars = bars
    if row:
        rows.append(tuple(row))
    if not rows:
        raise Unreadable("an empty matrix")
    if environment in ("cases", "dcases", "aligned", "align", "gathered", "eqnarray", "split"):
        return ("cases", *rows)
    return ("det", ("matrix", *rows)) if environment in ("vmatrix", "Vmatrix") else ("matrix", *rows)
