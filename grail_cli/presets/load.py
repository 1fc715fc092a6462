"""A preset resolved: defaults < base < preset < --config < GRAIL_* environment < --set < flags, with every origin.

All faults of all layers are collected and raised together; nothing is loaded but YAML.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ..errors import GrailError, nearest, raise_all
from . import reference
from .locate import find_preset, preset_dir
from .schema import Preset
from .values import dump_value, is_section, read_value, shown

RESERVED = ("GRAIL_HOME", "GRAIL_CACHE", "GRAIL_DEBUG", "GRAIL_VLLM_PYTHON")


@dataclass
class Layer:
    """Values of one source by dotted key, each with the place it was written at, and what was wrong with the rest."""

    values: dict[str, tuple[Any, str]] = field(default_factory=dict)
    faults: list[GrailError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Resolved:
    """A checked preset; `origins` says by dotted key where each value came from; `notes` are keys without effect here."""

    preset: Preset
    origins: dict[str, str]
    name: str
    notes: tuple[str, ...] = ()

    def to_yaml(self, *, with_origins: bool = True) -> str:
        """The preset as YAML that loads to the same preset, each value with its origin as a comment."""
        lines = []
        if self.preset.description:
            lines.append(f"description: {dump_value(self.preset.description)}")
        for name, kind in Preset.model_fields.items():
            if not is_section(kind.annotation):
                continue
            lines.append(f"{name}:")
            for key, value in getattr(self.preset, name).model_dump().items():
                line = f"  {key}: {dump_value(value)}"
                if with_origins:
                    line = f"{line:<52}  # {self.origins[f'{name}.{key}']}"
                lines.append(line)
        return "\n".join(lines) + "\n"


def dotted_keys() -> dict[str, Any]:
    """Every dotted key of a preset with its type: `credit.std` -> float."""
    keys = {}
    for name, kind in Preset.model_fields.items():
        if is_section(kind.annotation):
            keys.update({f"{name}.{key}": sub.annotation for key, sub in kind.annotation.model_fields.items()})
        else:
            keys[name] = kind.annotation
    return keys


def load_preset(name: str | None = None, *, sets: Sequence[str] = (), flags: Mapping[str, Any] | None = None,
                config_file: str | None = None, environment: Mapping[str, str] | None = None) -> Resolved:
    """Resolve a preset given by name or file (None: the defaults alone) and everything that overrides it.

    sets: `section.key=value` texts. flags: dotted key -> value, None entries are flags that were not given. config_file:
    a preset file or a flat YAML file of GRAIL's reference implementation. environment: os.environ when None.
    Raises GrailError (one fault) or Faults (all of them).
    """
    layers = _file_layers(name) if name else []
    if config_file:
        layers.append(_config_layer(config_file))
    layers.append(_environment_layer(os.environ if environment is None else environment))
    layers.append(_sets_layer(sets))
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    layers.append(Layer({key: (value, f"--{key.split('.')[-1].replace('_', '-')}") for key, value in given.items()}))

    merged: dict[str, tuple[Any, str]] = {}
    for layer in layers:
        merged.update(layer.values)
    preset, faults = _build(merged)
    raise_all([fault for layer in layers for fault in layer.faults] + faults)
    origins = {key: merged[key][1] if key in merged else "default" for key in dotted_keys()}
    notes = tuple(note for layer in layers for note in layer.notes)
    return Resolved(preset, origins, Path(name or config_file or "defaults").stem, notes)


def _build(merged: dict[str, tuple[Any, str]]) -> tuple[Preset, list[GrailError]]:
    nested: dict[str, Any] = {}
    for key, (value, _) in merged.items():
        section, _, leaf = key.partition(".")
        if leaf:
            nested.setdefault(section, {})[leaf] = value
        elif section != "base":
            nested[section] = value
    try:
        return Preset.model_validate(nested), []
    except ValidationError as error:
        return Preset(), [_validation_fault(item, merged) for item in error.errors(include_url=False)]


def _validation_fault(item: dict, merged: dict[str, tuple[Any, str]]) -> GrailError:
    names = [str(part) for part in item["loc"]]
    key = next((".".join(names[:count]) for count in (2, 1) if ".".join(names[:count]) in merged), ".".join(names[:2]))
    where = f"{key} ({merged[key][1]})" if key in merged else key
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] != "value_error":
        message = f"{item['input']!r}: {message[0].lower()}{message[1:]}"
    return GrailError(message + ".", where=where, hint="change that value.", kind="bad_value")


def _file_layers(name: str, chain: tuple[str, ...] = (), beside: Path | None = None) -> list[Layer]:
    path = find_preset(name, beside=beside)
    resolved = str(path.resolve())
    if resolved in chain:
        raise GrailError("presets build on each other in a ring: "
                         + " -> ".join(Path(link).stem for link in (*chain, resolved)), where=str(path), kind="base_ring")
    source = f"preset {path.stem}" if path.resolve().parent == preset_dir().resolve() else str(path)
    layer = _mapping_layer(_compose(path), source, with_lines=source == str(path))
    base = layer.values.pop("base", (None, ""))[0]
    if base is None:
        return [layer]
    return [*_file_layers(base, (*chain, resolved), path.parent), layer]


def _config_layer(file: str) -> Layer:
    node = _compose(find_preset(str(Path(file).resolve())))
    if reference.is_flat(key.value for key, _ in node.value):
        return reference.flat_layer(node, file, Layer)
    layer = _mapping_layer(node, file, with_lines=True)
    if layer.values.pop("base", (None, ""))[0] is not None:
        layer.faults.append(GrailError("a --config file has no base.", where=f"base ({file})",
                                       hint="give it with --preset.", kind="bad_value"))
    return layer


def _compose(path: Path) -> yaml.MappingNode:
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise GrailError(f"not YAML: {getattr(error, 'problem', error)}.", where=where, kind="bad_file") from None
    if node is None:
        return yaml.MappingNode("tag:yaml.org,2002:map", [])
    if not isinstance(node, yaml.MappingNode):
        raise GrailError("a preset is a mapping of sections.", where=str(path), kind="bad_file")
    return node


def _mapping_layer(node: yaml.MappingNode, source: str, *, with_lines: bool) -> Layer:
    layer, kinds, seen = Layer(), Preset.model_fields, set()
    for key_node, value_node in node.value:
        section = key_node.value
        if section in kinds and is_section(kinds[section].annotation):
            if isinstance(value_node, yaml.MappingNode):
                items = [(f"{section}.{key.value}", key, value) for key, value in value_node.value]
            else:
                layer.faults.append(GrailError(f"{shown(value_node)} where the section's keys are needed.",
                                               where=f"{section} ({_place(source, key_node)})", kind="bad_value"))
                continue
        else:
            items = [(section, key_node, value_node)]
        for dotted, key, value in items:
            place = _place(source, key)
            if dotted in seen:
                layer.faults.append(GrailError("written twice.", where=f"{dotted} ({place})", kind="bad_value"))
            seen.add(dotted)
            _take(layer, dotted, value, place, origin=place if with_lines else source)
    return layer


def _place(source: str, node: yaml.Node) -> str:
    return f"{source}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _take(layer: Layer, dotted: str, node: yaml.Node, place: str, origin: str | None = None) -> None:
    """Read one value into a layer, or record why not."""
    kinds = dotted_keys()
    if dotted not in kinds:
        layer.faults.append(_unknown_key(dotted, place, kinds))
        return
    try:
        layer.values[dotted] = (read_value(node, kinds[dotted]), origin or place)
    except ValueError as error:
        layer.faults.append(GrailError(f"{error}.", where=f"{dotted} ({place})", hint="change that value.",
                                       kind="bad_value"))


def _unknown_key(dotted: str, place: str, kinds: Mapping[str, Any]) -> GrailError:
    section, _, leaf = dotted.partition(".")
    siblings = [key.partition(".")[2] for key in kinds if key.startswith(f"{section}.")]
    elsewhere = [key for key in kinds if key.endswith(f".{leaf or section}")]
    if elsewhere:
        advice = f"did you mean {' or '.join(elsewhere)}?"
    elif siblings and leaf:
        advice = nearest(leaf, siblings)
    else:
        advice = nearest(section, list(Preset.model_fields))
    return GrailError(f"no such key; {advice}", where=f"{dotted} ({place})", hint="`grail presets show` lists all keys.",
                      kind="unknown_key")


def _environment_layer(environment: Mapping[str, str]) -> Layer:
    layer = Layer()
    kinds = {"GRAIL_" + key.replace(".", "__").upper(): key for key in dotted_keys() if "." in key}
    for variable, text in environment.items():
        if not variable.startswith("GRAIL_") or variable in RESERVED:
            continue
        if variable in kinds:
            _take(layer, kinds[variable], _scalar(text), f"${variable}")
        else:
            advice = nearest(variable, [*kinds, *RESERVED])
            layer.faults.append(GrailError(f"no such setting; {advice if 'mean' in advice else 'see README, Presets'}",
                                           where=f"${variable}", hint="unset it or mend its name.", kind="unknown_key"))
    return layer


def _sets_layer(sets: Sequence[str]) -> Layer:
    layer = Layer()
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            layer.faults.append(GrailError(f"{text!r} is not section.key=value.", where="--set", kind="bad_value"))
        else:
            _take(layer, key.strip(), _scalar(value), "--set")
    return layer


def _scalar(text: str) -> yaml.Node:
    """The node of a value typed on a command line: a list or mapping in brackets, else one scalar with all its signs."""
    if text[:1] in ("[", "{", "'", '"'):
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is not None:
                return node
        except yaml.YAMLError:
            pass  # text that only begins like YAML is text
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=None if text else "'")  # `key=` is the empty text
