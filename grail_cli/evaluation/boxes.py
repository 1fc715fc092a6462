"""The answer box of a completion: what `last_box` returns is what gets graded.

The rule: text after the last `</think>` only; the last complete, non-empty `\\boxed{...}` (braces balanced,
escaped
braces are no braces, an open box is skipped and not the end of the search); boxes inside fenced code count
only when
there is no other. `\\fbox{...}` and `\\boxed {...}` are boxes too; without any braces, `\\boxed 7` is one.
One pass with a stack, so that no text takes more than linear time.
"""

import re
from dataclasses import dataclass

_OPEN = re.compile(r"(?:\\(?:boxed|fbox)|\x08oxed)\s*\{")
_LOST_BACKSLASH = re.compile(r"(?<![A-Za-z\\])boxed\{")  # the backslash was lost on the way
_BARE = re.compile(r"\\(?:boxed|fbox)\s*(-?\d+(?:\.\d+)?|[A-Za-z](?![A-Za-z]))")
_FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.S | re.M)


@dataclass(frozen=True)
class Box:
    """One complete box: text[start:end] is the whole of it, `inner` what stands between the braces."""

    start: int
    end: int
    inner: str


def find_boxes(text: str) -> list[Box]:
    """The outermost complete `\\boxed{...}` of a text, in order; empty ones are included."""
    return _boxes(text, _OPEN)


def last_box(text: str) -> str | None:
    """The content of the answer box, or None when the completion has no answer (see the rule above)."""
    text = text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text
    for opening in (_OPEN, _LOST_BACKSLASH):
        boxes = [box for box in _boxes(text, opening) if _content(box.inner)]
        if boxes:
            fences = [match.span() for match in _FENCE.finditer(text)]
            outside = [box for box in boxes if not any(start <= box.start < end for start, end in fences)]
            return (outside or boxes)[-1].inner
    bare = _BARE.findall(text)
    return bare[-1] if bare else None


def _content(inner: str) -> str:
    """What is left of a box's inner text without blanks and further boxes around it."""
    return re.sub(r"\\(?:boxed|fbox)|[\s{}$]|\\[,;!: ]", "", inner)


def _boxes(text: str, opening: re.Pattern) -> list[Box]:
    starts = {
        match.end() - 1: match.start() for match in opening.finditer(text)
    }  # brace -> start of the command
    if not starts:
        return []
    found, stack, skip = [], [], -1
    for match in re.finditer(r"\\.|[{}]", text, re.S):
        position, mark = match.start(), match.group()
        if mark == "{":
            stack.append(position)
        elif mark == "}" and stack:
            brace = stack.pop()
            if brace in starts:
                found.append(Box(starts[brace], position + 1, text[brace + 1 : position]))
    outer = []
    for box in sorted(found, key=lambda box: box.start):
        if box.start >= skip:
            outer.append(box)
            skip = box.end
    return outer
