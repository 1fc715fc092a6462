"""Where the answer of a completion lies: the token regions of its box, from the ids that were generated.

Encoding the text again would be wrong: sampled ids need not be the canonical tokenisation. So every token
owns the bytes that it adds to the text, and a region is a set of tokens whose bytes overlap a part of the box
(spec, section 2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from ..errors import GrailError

if TYPE_CHECKING:
    from .tokens import TokenBytes

OPENING = b"\\boxed{"
_MARKS = re.compile(rb"\\.|[{}]", re.S)  # a backslash takes the next byte along: escaped braces are none


class CreditError(GrailError, ValueError):
    """Token credit cannot be computed exactly from what was given; the message says why."""


@dataclass(frozen=True)
class Regions:
    """The tokens of an answer, as indices into the completion (padding not counted), ascending.

    answer: tokens that overlap the box. content: answer tokens that overlap what stands between the braces.
    boundary: the other answer tokens. post: every token after the last answer token.
    """

    answer: tuple[int, ...]
    content: tuple[int, ...]
    boundary: tuple[int, ...]
    post: tuple[int, ...]


def find_boxes(text: bytes) -> list[tuple[int, int]]:
    """The outermost complete boxes of a text, in order, as spans [start, end) of bytes.

    Braces are balanced and escaped ones are none; a box that is never closed is skipped, and boxes inside it
    count. One pass with a stack: linear in the length of the text.
    """
    starts = {match.end() - 1: match.start() for match in re.finditer(re.escape(OPENING), text)}
    boxes, open_braces = [], []
    for match in _MARKS.finditer(text) if starts else ():
        if match.group() == b"{":
            open_braces.append(match.start())
        elif match.group() == b"}" and open_braces:
            brace = open_braces.pop()
            if brace in starts:
                boxes.append((starts[brace], match.end()))
    outermost, end = [], -1
    for box in sorted(boxes):
        if box[0] >= end:
            outermost.append(box)
            end = box[1]
    return outermost


def find_regions(completion_ids: Sequence[int], token_bytes: TokenBytes,
                 answer_span: Literal["first", "last"] = "first") -> Regions | None:
    """The token regions of a completion's answer, or None when it holds no complete `\\boxed{...}`.

    completion_ids: the generated ids, T of them, without padding. answer_span: `first` takes the first box
    (the reference); `last` takes the last one that is not empty, which the reward reads, or else the last
    one. Raises CreditError when the bytes of a token are not known. Source: spec, section 2.
    """
    pieces = token_bytes.pieces(completion_ids)
    text = b"".join(pieces)
    boxes = find_boxes(text)
    if not boxes:
        return None
    if answer_span == "last":
        filled = [box for box in boxes if text[box[0] + len(OPENING):box[1] - 1].strip()]
        start, end = (filled or boxes)[-1]
    else:
        start, end = boxes[0]
    inner_start, inner_end = start + len(OPENING), end - 1
    ends = list(accumulate(len(piece) for piece in pieces))
    answer, content = [], []
    for index, (piece, stop) in enumerate(zip(pieces, ends)):
        begin = stop - len(piece)
        if max(begin, start) < min(stop, end):
            answer.append(index)
            if max(begin, inner_start) < min(stop, inner_end):
                content.append(index)
    inside = set(content)
    return Regions(answer=tuple(answer), content=tuple(content),
                   boundary=tuple(index for index in answer if index not in inside),
                   post=tuple(range(answer[-1] + 1, len(pieces))))
