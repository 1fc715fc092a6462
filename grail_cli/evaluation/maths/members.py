"""Lists, sets, tuples and matrices: which orders are free, which brackets may be left out."""

import re

from .expressions import contains
from .tokens import Unreadable

MAX_ITEMS = 400
_SHAPES = ("list", "set", "seq", "matrix", "cases", "union", "inter", "minus", "cond")


def same_collection(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str] | None:
    """(equal, rule) when one of the two has several parts, else None."""
    ours, theirs = elements(gold), elements(answer)
    if ours is not None or theirs is not None:
        if "seq" in (gold[0], answer[0]):
            return _list_and_tuple(gold, answer, strict)
        if {gold[0], answer[0]} & {"matrix", "cases", "cond"}:
            return False, "list"
        return _same_members(ours or [gold], theirs or [answer], strict), "set" if "set" in (
            gold[0],
            answer[0],
        ) else "list"
    if gold[0] == answer[0] == "seq":
        brackets = {gold[1:3], answer[1:3]}
        alike = len(brackets) == 1 or (not strict and brackets == {("(", ")"), ("<", ">")})
        return alike and _in_order(gold[3:], answer[3:], strict), "interval" if gold[1:3] != (
            "(",
            ")",
        ) else "tuple"
    if gold[0] == answer[0] == "matrix" or gold[0] == answer[0] == "cases":
        shape = [len(row) for row in gold[1:]] == [len(row) for row in answer[1:]]
        cells = [[cell for row in tree[1:] for cell in row] for tree in (gold, answer)]
        return shape and _in_order(*cells, strict), "matrix"
    if {gold[0], answer[0]} == {"matrix", "seq"}:
        matrix, tuple_ = (gold, answer) if gold[0] == "matrix" else (answer, gold)
        column = all(len(row) == 1 for row in matrix[1:]) or len(matrix) == 2
        cells = [cell for row in matrix[1:] for cell in row]
        return not strict and column and tuple_[1] in "(<" and _in_order(cells, tuple_[3:], strict), "matrix"
    if gold[0] == answer[0] and gold[0] in ("union", "inter", "minus", "cond"):  # with symbols in their ends
        return _same_unions(gold, answer, strict), "interval"
    if gold[0] in _SHAPES or answer[0] in _SHAPES:
        return False, "shape"
    return None


def elements(tree: tuple) -> list[tuple] | None:
    """The members of a list or set, plus-minus written out and a name before them dropped; None for a single value."""
    if tree[0] in ("list", "set"):
        members = []
        for item in _unnamed(list(tree[1:])):
            members += elements(item) or [item]
        return members
    if contains(tree, "pm", "mp") and tree[0] not in ("seq", "rel", "matrix", "note"):
        return [_signed(tree, 1), _signed(tree, -1)]
    return None


def _signed(tree: tuple, sign: int) -> tuple:
    """A tree with every plus-minus as plus (1) or minus (-1)."""
    if tree[0] in ("pm", "mp"):
        inner = _signed(tree[1], sign)
        return inner if (tree[0] == "pm") == (sign == 1) else ("neg", inner)
    return tuple(
        _signed(part, sign) if isinstance(part, tuple) and part and isinstance(part[0], str) else part
        for part in tree
    )


def _unnamed(items: list[tuple]) -> list[tuple]:
    """`x = 2, 3` and `x = 2, x = 3` and `x_1 = 2, x_2 = 3` are the list 2, 3."""
    from .compare import name_of

    names = [name_of(item) for item in items]
    if len(items) > 1 and names[0] and not any(names[1:]) and not any(item[0] == "rel" for item in items[1:]):
        return [items[0][-1], *items[1:]]
    if len(items) > 1 and all(names) and all(len(item) == 4 for item in items):
        stems = {re.sub(r"_?\{?\d+\}?$", "", name) for name in names}
        if len(stems) == 1:
            return [item[-1] for item in items]
    return items


def _in_order(ours, theirs, strict: bool) -> bool:
    from .compare import compare

    return len(ours) == len(theirs) and all(
        compare(a, b, strict)[0] for a, b in zip(ours, theirs, strict=True)
    )


def _same_members(ours: list[tuple], theirs: list[tuple], strict: bool) -> bool:
    """Whether two lists have the same members in any order, as often."""
    from .compare import compare, name_of

    if len(ours) != len(theirs):
        return False
    if ("sym", "dots") in ours or ("sym", "dots") in theirs or len(ours) > MAX_ITEMS:
        return _in_order(ours, theirs, strict)
    named = [[name_of(item) for item in items] for items in (ours, theirs)]
    if not strict and all(named[1]) and not any(named[0]):  # 2, 5 against x = 2, y = 5: in the order given
        return _in_order(ours, [item[-1] for item in theirs], strict)
    left = list(theirs)
    for item in ours:
        for position, other in enumerate(left):
            try:
                found = compare(item, other, strict)[0]
            except Unreadable:
                found = item == other
            if found:
                del left[position]
                break
        else:
            return False
    return True


def _list_and_tuple(gold: tuple, answer: tuple, strict: bool) -> tuple[bool, str]:
    """A pair against a list: equal only leniently, in order, and never for a set in braces or an interval."""
    from .compare import name_of

    tuple_, other = (gold, answer) if gold[0] == "seq" else (answer, gold)
    if strict or other[0] != "list" or tuple_[1:3] != ("(", ")"):
        return False, "tuple"
    items = [item[-1] if name_of(item) else item for item in other[1:]]
    ours, theirs = (tuple_[3:], items) if tuple_ is gold else (items, tuple_[3:])
    return _in_order(ours, theirs, strict), "tuple"


def _same_unions(gold: tuple, answer: tuple, strict: bool) -> bool:
    def parts(tree: tuple) -> list[tuple]:
        return parts(tree[1]) + [tree[2]] if tree[0] == "union" else [tree]

    if gold[0] != "union":
        return _in_order(gold[1:], answer[1:], strict)
    return _same_members(parts(gold), parts(answer), strict)


def matrix_form(tree: tuple) -> list[tuple] | None:
    """Sums and multiples of matrices as one matrix, a tuple of cells a row; None for anything else."""
    kind = tree[0]
    if kind == "matrix":
        return list(tree[1:])
    if kind == "paren":
        return matrix_form(tree[1])
    if kind == "neg":
        rows = matrix_form(tree[1])
        return rows and [tuple(("neg", cell) for cell in row) for row in rows]
    if kind == "add":
        parts = [matrix_form(part) for part in tree[1:]]
        if None in parts or len({tuple(map(len, part)) for part in parts}) != 1:
            return None
        return [
            tuple(("add", *cells) for cells in zip(*rows, strict=True)) for rows in zip(*parts, strict=True)
        ]
    if kind in ("mul", "div") and not contains(tree[2], "matrix"):
        rows = matrix_form(tree[1])
        return rows and [tuple((kind, cell, tree[2]) for cell in row) for row in rows]
    if kind == "mul" and not contains(tree[1], "matrix"):
        rows = matrix_form(tree[2])
        return rows and [tuple(("mul", tree[1], cell) for cell in row) for row in rows]
    return None
