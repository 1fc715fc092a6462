"""A value is read as what its field holds, and never as what YAML 1.1 makes of it."""

from typing import Any, Literal

import pytest
import yaml

from grail_cli.presets.values import dump_value, read_value


def read(text, kind):
    return read_value(yaml.compose(text, Loader=yaml.SafeLoader), kind)


@pytest.mark.parametrize("text, kind, value", [
    ("1e-6", float, 1e-6), ("1e6", float, 1e6), ("1.0e-6", float, 1e-6), ("3", float, 3.0), (".5", float, 0.5), ("-2.", float, -2.0),
    ("8", int, 8), ("-3", int, -3), ("0", int, 0),
    ("true", bool, True), ("False", bool, False), ("TRUE", bool, True),
    ("001", str, "001"), ("1.0", str, "1.0"), ("12:30", str, "12:30"), ("2024-01-01", str, "2024-01-01"), ("'no'", str, "no"),
    ("'null'", str, "null"), ("1_000", str, "1_000"),
    ("null", int | None, None), ("~", float | None, None), ("7", int | None, 7),
    ("[a, b]", list[str], ["a", "b"]), ("[1, 2]", list[int], [1, 2]), ("[]", list[str], []),
    ("all-linear", list[str] | Literal["all-linear"], "all-linear"), ("[q, k]", list[str] | Literal["all-linear"], ["q", "k"]),
    ("2", Literal[0, 2, 3], 2), ("none", Literal["none", "group"], "none"),
    ("{a: 1, b: x, c: true, d: null, e: [1.5]}", dict[str, Any], {"a": 1, "b": "x", "c": True, "d": None, "e": [1.5]}),
])
def test_a_value_is_read_by_the_type_of_its_field(text, kind, value):
    got = read(text, kind)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize("text, kind, says", [
    ("017", int, "octal"), ("1_000", int, "no whole number"), ("1.0", int, "no whole number"), ("1e3", int, "no whole number"),
    ("12:30", int, "no whole number"), ("tru", bool, "neither true nor false"), ("yes", bool, "neither true nor false"),
    ("on", bool, "neither"), ("1", bool, "neither"), ("nan", float, "no number"), ("inf", float, "no number"), ("fast", float, "no number"),
    ("no", str, "quote it"), ("on", str, "quote it"), ("null", str, "null where text is needed"), ("true", str, "quote it"),
    ("1", Literal[0, 2, 3], "not one of: 0, 2, 3"), ("false", Literal["none", "group"], "write none"), ("a", list[str], "write [a, b]"),
    ("[1]", int, "a list"), ("a", dict[str, Any], "write {key: value}"), ("x", int | None, "(or null)"),
])
def test_a_value_of_another_type_is_refused_with_what_is_allowed(text, kind, says):
    with pytest.raises(ValueError, match=".*") as caught:
        read(text, kind)
    assert says in str(caught.value)


@pytest.mark.parametrize("value, kind", [
    (1e-6, float), (5.0, float), (3, int), (True, bool), (None, str | None), ("no", str), ("001", str), (r" \boxed{}: #'\"", str),
    ("a: b", str), ("", str), (["wandb", "no"], list[str]), ({"a": [1, "x"]}, dict[str, Any]), ("é\n", str), ("null", str)])
def test_what_is_dumped_is_read_back(value, kind):
    assert read(dump_value(value), kind) == value
