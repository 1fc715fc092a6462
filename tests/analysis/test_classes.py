import pytest

from grail_cli.analysis.classes import sentence_class, sentence_classes, sentence_ids, token_class


@pytest.mark.parametrize(("text", "kind"), [
    (" 42", "digit"), ("3.5", "digit"), (".\n\n", "newline"), (" +", "latex"), ("\\frac", "latex"), ("$", "latex"),
    (" hence", "connective"), (" thus", "connective"), (" Wait", "connective"), (",", "punctuation"), ("", "punctuation"),
    (" the", "word"), ("x2", "word"), ("π", "latex"), (" ≈", "latex"),
])
def test_tokens_get_the_class_of_their_text(text, kind):
    assert token_class(text) == kind


def test_a_sentence_ends_at_a_stop_before_space_or_at_a_line_end_but_not_inside_a_number():
    tokens = ("We", " add", " 3", ".", "5", ".", " Then", " stop", "\n", "End")
    assert sentence_ids(tokens) == [0, 0, 0, 0, 0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize(("text", "kind"), [
    ("Let us first find x.", "planning"), ("Wait, check 3 + 4.", "checking"), ("Thus x is 7.", "concluding"),
    ("3 + 4 = 7.", "computing"), ("It is nice.", "other")])
def test_sentences_get_the_class_of_their_cue(text, kind):
    assert sentence_class(text) == kind


def test_every_token_carries_the_class_of_its_sentence():
    assert sentence_classes(("Let", " x", " be", ".", " 3", "=", "3")) == ["planning"] * 4 + ["computing"] * 3
