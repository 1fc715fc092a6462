"""YAML text to typed values, decided by the type of the field and not by YAML 1.1.

PyYAML alone reads `1e-6` as text, `no` as a boolean, `017` as 15 and `12:30` as 750. Here a scalar is read as what its
field holds: a float field takes `1e-6`, a text field keeps `001`, a boolean is `true` or `false` and nothing else, and a
plain word that YAML would have turned into something else is refused with the reason.
"""

import re
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
NULL = ("", "~", "null", "Null", "NULL")
YAML_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false"}


def read_value(node: yaml.Node, kind: Any) -> Any:
    """The value of a YAML node for a field of type `kind`. Raises ValueError that says what is allowed."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _read_union(node, get_args(kind))
    if origin is Literal:
        return _read_choice(node, get_args(kind))
    if origin is list:
        if not isinstance(node, yaml.SequenceNode):
            raise ValueError(f"{shown(node)} is no list; write [a, b]")
        return [read_value(item, get_args(kind)[0]) for item in node.value]
    if origin is dict or kind is dict:
        if not isinstance(node, yaml.MappingNode):
            raise ValueError(f"{shown(node)} is no mapping; write {{key: value}}")
        return {key.value: read_value(value, Any) for key, value in node.value}
    if kind is Any:
        return _read_any(node)
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"{shown(node)} is no {_name(kind)}")
    return _read_scalar(node, kind)


def _read_union(node: yaml.Node, kinds: tuple) -> Any:
    if NoneType in kinds and is_null(node):
        return None
    said = []
    for kind in kinds:
        if kind is NoneType:
            continue
        try:
            return read_value(node, kind)
        except ValueError as error:
            said.append(str(error))
    extra = " (or null)" if NoneType in kinds else ""
    raise ValueError("; ".join(said) + extra)


def _read_choice(node: yaml.Node, choices: tuple) -> Any:
    if isinstance(node, yaml.ScalarNode):
        for choice in choices:
            if node.value == str(choice):
                return choice
        if node.value in ("false", "False") and "none" in choices:
            raise ValueError("false is not a choice; write none")
    allowed = ", ".join(str(choice) for choice in choices)
    raise ValueError(f"{shown(node)} is not one of: {allowed}")


def _read_scalar(node: yaml.ScalarNode, kind: type) -> Any:
    text, plain = node.value, node.style is None
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"{text!r} is neither true nor false")
    if kind is int:
        if INTEGER.fullmatch(text):
            return int(text)
        octal = " (a leading zero would make it octal in YAML)" if re.fullmatch(r"[-+]?0[0-9]+", text) else ""
        raise ValueError(f"{text!r} is no whole number{octal}")
    if kind is float:
        if NUMBER.fullmatch(text):
            return float(text)
        raise ValueError(f"{text!r} is no number")
    if kind is str:
        if plain and text in NULL:
            raise ValueError("null where text is needed; quote it if the text itself is meant")
        if plain and text.lower() in YAML_WORDS:
            raise ValueError(f"{text} is a boolean in YAML where text is needed; quote it: '{text}'")
        return text
    raise TypeError(f"a field of type {kind!r} cannot be read from YAML")


def _read_any(node: yaml.Node) -> Any:
    """An untyped value, such as an argument of a chat template: numbers, true/false, null, else text."""
    if isinstance(node, yaml.SequenceNode):
        return [_read_any(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {key.value: _read_any(value) for key, value in node.value}
    if is_null(node):
        return None
    for kind in (bool, int, float):
        if node.style is None:
            try:
                return _read_scalar(node, kind)
            except ValueError:
                continue
    return node.value


def is_null(node: yaml.Node) -> bool:
    """Whether a node is an unquoted null."""
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in NULL


def shown(node: yaml.Node) -> str:
    """A node as a message shows it."""
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def _name(kind: Any) -> str:
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(kind, str(kind))


def is_section(kind: Any) -> bool:
    """Whether a field of the preset is a section with fields of its own."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def dump_value(value: Any) -> str:
    """A value as one line of YAML that `read_value` reads back."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**9)
    return text.removesuffix("\n").removesuffix("\n...")
