"""The token regions of an answer: hand cases, the reference vectors, and properties of any tokenisation."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grail_cli.credit import Regions, TokenBytes, find_regions
from grail_cli.credit.spans import OPENING, find_boxes


class Cut:
    """A stand-in for TokenBytes: token i adds the i-th piece."""

    def __init__(self, cut):
        self.cut = cut

    def pieces(self, ids):
        return [self.cut[token] for token in ids]


def regions(*pieces, span="first"):
    encoded = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return find_regions(range(len(encoded)), Cut(encoded), span)



@pytest.mark.parametrize("text,expected", [
    ("so \\boxed{4} and \\boxed{5}", ["\\boxed{4}", "\\boxed{5}"]),
    ("\\boxed{\\frac{1}{2}}.", ["\\boxed{\\frac{1}{2}}"]),
    ("\\boxed{\\boxed{4}}", ["\\boxed{\\boxed{4}}"]),
    ("Try \\boxed{4 hmm. So \\boxed{5}", ["\\boxed{5}"]),
    ("\\boxed{4", []),
    ("\\boxed{} is empty", ["\\boxed{}"]),
    (r"\boxed{\{1, 2\}}", [r"\boxed{\{1, 2\}}"]),
    (r"\boxed{\left\{ x \right.}", [r"\boxed{\left\{ x \right.}"]),
    (r"\boxed{\}} x", [r"\boxed{\}}"]),
    (r"\boxed{a \\} x", [r"\boxed{a \\}"]),  # a line break, then a brace that counts
    (r"a } b \boxed{4}}", [r"\boxed{4}"]),
    ("boxed{4} and \\boxed 4", []),
    ("", []),
])
def test_boxes_are_complete_outermost_and_blind_to_escaped_braces(text, expected):
    assert [text[start:end] for start, end in find_boxes(text.encode())] == expected


def test_answer_content_boundary_and_post_of_a_plain_completion():
    assert regions("So ", "\\", "boxed", "{", "4", "2", "}", ".", b"") == Regions(
        answer=(1, 2, 3, 4, 5, 6), content=(4, 5), boundary=(1, 2, 3, 6), post=(7, 8))


def test_fused_tokens_belong_to_every_part_that_they_overlap():
    assert regions(" \\boxed", "{4", "2}", ".") == Regions((0, 1, 2), (1, 2), (0,), (3,))
    assert regions("\\boxed{", "42", "}$$", " so") == Regions((0, 1, 2), (1,), (0, 2), (3,))
    assert regions("\\boxed{}") == Regions((0,), (), (0,), ())


def test_a_special_token_inside_the_box_is_no_answer_token_and_not_behind_it():
    assert regions("\\boxed{", b"", "4", "}", b"") == Regions((0, 2, 3), (2,), (0, 3), (4,))


def test_a_character_split_over_tokens_inside_the_box():
    pi = "π".encode()
    assert regions("\\boxed{", pi[:1], pi[1:], "}") == Regions((0, 1, 2, 3), (1, 2), (0, 3), ())


def test_first_and_last_and_the_empty_box_that_the_reward_skips():
    pieces = ("\\boxed{", "4", "}", " or ", "\\boxed{", "5", "}", " ", "\\boxed{", " ", "}")
    assert regions(*pieces).answer == (0, 1, 2)
    assert regions(*pieces, span="last").answer == (4, 5, 6)
    assert regions("\\boxed{", "}", span="last").answer == (0, 1)


def test_no_box_and_no_token_have_no_answer():
    assert regions("so 4") is None and regions() is None and regions(b"") is None


@settings(deadline=None, max_examples=200)
@given(text=st.text(alphabet="\\{}boxed4π ", max_size=40).map(lambda t: t.replace("b", "\\boxed{")), data=st.data())
def test_regions_follow_the_bytes_whatever_the_tokenisation(text, data):
    whole = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)])]
    found = find_regions(range(len(pieces)), Cut(pieces))
    spans = find_boxes(whole)
    if not spans:
        assert found is None
        return
    start, end = spans[0]
    owner = [index for index, piece in enumerate(pieces) for _ in piece]
    assert found.answer == tuple(sorted(set(owner[start:end])))
    assert found.content == tuple(sorted(set(owner[start + len(OPENING):end - 1])))
    assert sorted((*found.content, *found.boundary)) == list(found.answer)
    assert found.post == tuple(range(found.answer[-1] + 1, len(pieces)))


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="\\{}b ", max_size=30).map(lambda t: t.replace("b", "\\boxed{")))
def test_boxes_agree_with_counting_braces_from_every_opening(text):
    raw, expected, skip = text.encode(), [], 0
    for start in range(len(raw)):
        if start < skip or not raw.startswith(OPENING, start):
            continue
        depth, at = 0, start + 1
        while at < len(raw):
            backslashes = len(raw[:at]) - len(raw[:at].rstrip(b"\\"))
            if backslashes % 2 == 0 or at == start + len(OPENING) - 1:
                depth += {b"{": 1, b"}": -1}.get(raw[at:at + 1], 0)
                if raw[at:at + 1] == b"}" and depth == 0:
                    expected.append((start, at + 1))
                    skip = at + 1
                    break
            at += 1
    assert find_boxes(raw) == expected


def test_a_megabyte_of_open_boxes_takes_linear_time():
    assert find_boxes(OPENING * 150_000) == []


def test_the_regions_of_the_reference_vectors(shared):
    from transformers import AutoTokenizer

    vectors = json.loads((shared / "vectors" / "vectors.json").read_text())
    token_bytes = TokenBytes.from_tokenizer(AutoTokenizer.from_pretrained(shared / "vectors" / "model"))
    compared = 0
    for rollout in vectors["rollouts"]:
        for setting, expect in rollout["expect"].items():
            span = {**vectors["paper"], **vectors["settings"][setting]}["answer_span"]
            found = find_regions(rollout["completion_ids"], token_bytes, span)
            named = found and {name: list(getattr(found, name)) for name in expect["regions"]}
            assert named == expect["regions"], (rollout["name"], setting)
            compared += 1
    assert compared == len(vectors["rollouts"]) * len(vectors["settings"])
