"""The flat YAML files of GRAIL's reference implementation (`use_grail`, `grail_std`, ...), read unchanged.

One table says what becomes of each key: a key of ours, or a sentence why it has no effect here. Keys that the file leaves
out take the defaults that they have there (TRL's GRPOConfig and the reference's own), not ours.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import yaml

from ..errors import GrailError, nearest
from .schema import DataSection, ModelSection, TrainSection
from .values import is_null, read_value, shown

MARKS = {"use_grail", "use_oar_g", "model_name_or_path", "dataset_mixer", "grail_std", "loss_type", "num_generations",
         "learning_rate", "output_dir"}

RENAMED = {
    "model_name_or_path": "model.path", "model_revision": "model.revision", "dtype": "model.dtype",
    "torch_dtype": "model.dtype", "attn_implementation": "model.attn_implementation",
    "trust_remote_code": "model.trust_remote_code", "lora_r": "model.lora_rank", "lora_alpha": "model.lora_alpha",
    "lora_dropout": "model.lora_dropout", "lora_target_modules": "model.lora_target_modules",
    "grail_std": "credit.std", "grail_mean": "credit.mean", "grail_w_min": "credit.w_min", "grail_w_max": "credit.w_max",
    "grail_leaf_source": "credit.leaf", "oar_g_tau": "credit.oar_tau", "oar_g_beta": "credit.oar_beta",
    "oar_g_eps": "credit.oar_eps", "oar_g_noise_std": "credit.oar_noise_std",
    "shuffle_dataset": "data.shuffle", "save_total_limit": "train.keep_last", "vllm_max_model_len": "train.vllm_max_model_length",
}

WITHOUT_EFFECT = {
    "output_dir": "the run folder is given with --out", "overwrite_output_dir": "a run folder is never overwritten",
    "run_name": "a run has the name of its folder", "save_strategy": "checkpoints are saved every save_steps",
    "save_only_model": "checkpoints can always be resumed from", "logging_strategy": "metrics are logged every logging_steps",
    "logging_first_step": "every step is logged", "log_level": "use --quiet or logs/ in the run folder",
    "log_completions": "completions are always recorded", "num_completions_to_print": "completions go to completions/*.parquet",
    "log_unique_prompts": "completions go to completions/*.parquet", "do_eval": "`grail eval` grades checkpoints",
    "preprocessing_num_workers": "prompts are rendered in one process", "truncation_side": "prompts are never truncated",
    "padding_side": "prompts are padded on the left, as generation needs", "wandb_project": "set WANDB_PROJECT in the environment",
    "gradient_checkpointing_kwargs": "gradient checkpointing is never re-entrant here",
}

# What a key means when the file leaves it out: TRL 1.16's GRPOConfig, then the reference's own class.
ABSENT = {
    "train.num_iterations": 1, "train.loss_type": "dapo", "train.scale_rewards": "group", "train.max_completion_length": 512,
    "train.warmup_steps": 0, "train.epsilon_high": None, "train.gradient_accumulation_steps": 1, "train.save_steps": 500,
    "train.mask_truncated_completions": False, "train.lr_scheduler_type": "linear", "train.disable_dropout": False,
    "train.logging_steps": 10, "credit.w_min": 0.1, "credit.rollouts": "all",
}


def is_flat(keys: Iterable[str]) -> bool:
    """Whether a mapping's keys are those of the reference's flat files."""
    return bool(MARKS & set(keys))


def is_flat_file(path: Path) -> bool:
    """Whether a YAML file is one of the reference's flat ones; False for a file that is no YAML mapping."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError):
        return False
    return isinstance(node, yaml.MappingNode) and is_flat(key.value for key, _ in node.value)


def flat_layer(node: yaml.MappingNode, file: str, make: Callable):
    """A flat file as a layer of dotted keys of ours. make: the Layer class."""
    layer = make()
    layer.values.update({key: (value, "default of the reference") for key, value in ABSENT.items()})
    nodes = {key.value: value for key, value in node.value}
    switches = {}
    for key, value in node.value:
        place = f"{file}:{key.start_mark.line + 1}"
        name = key.value
        if is_null(value) and name not in WITHOUT_EFFECT:  # null means "left out" there
            continue
        try:
            if name in ("use_grail", "use_oar_g"):
                switches[name] = read_value(value, bool)
            elif name in SPECIAL:
                for dotted, item in SPECIAL[name](value, layer.notes).items():
                    layer.values[dotted] = (item, place)
            elif name in RENAMED or name in TrainSection.model_fields:
                dotted = RENAMED.get(name, f"train.{name}")
                layer.values[dotted] = (read_value(value, _kind(dotted)), place)
            elif name in WITHOUT_EFFECT:
                layer.notes.append(f"{name} ({place}) has no effect here: {WITHOUT_EFFECT[name]}.")
            else:
                known = [*RENAMED, *WITHOUT_EFFECT, *SPECIAL, *TrainSection.model_fields]
                layer.faults.append(GrailError(f"no such key; {nearest(name, known)}", where=f"{name} ({place})",
                                               kind="unknown_key"))
        except ValueError as error:
            layer.faults.append(GrailError(f"{error}.", where=f"{name} ({place})", kind="bad_value"))
    _method(switches, nodes, file, layer)
    return layer


def _method(switches: dict[str, bool], nodes: dict[str, yaml.Node], file: str, layer) -> None:
    grail, oar = switches.get("use_grail", False), switches.get("use_oar_g", False)
    if grail and oar:
        layer.faults.append(GrailError("use_grail and use_oar_g are both on; a run has one method.", where=file,
                                       hint="switch one off.", kind="bad_value"))
    if grail and ("grail_std" not in nodes or is_null(nodes["grail_std"])):
        layer.faults.append(GrailError("use_grail needs grail_std, a number above 0 (the paper: 0.5).",
                                       where=f"grail_std ({file})", kind="bad_value"))
    layer.values["credit.method"] = ("grail" if grail else "oar_g" if oar else "grpo", file)


def _kind(dotted: str):
    from .load import dotted_keys

    return dotted_keys()[dotted]


def _symmetry(node: yaml.Node, notes: list[str]) -> dict:
    value = getattr(node, "value", None)
    if value not in ("wrong", "correct", "all", "both"):
        raise ValueError(f"{shown(node)} is not one of: wrong, correct, all, both")
    return {"credit.rollouts": "all" if value == "both" else value}


def _mixer(node: yaml.Node, notes: list[str]) -> dict:
    mixed = read_value(node, dict)
    if len(mixed) != 1:
        raise ValueError(f"names {len(mixed)} data sets; one is supported")
    name, share = next(iter(mixed.items()))
    if share != 1:
        notes.append(f"the share {share} of {name} has no effect here: set data.limit.")
    return {"data.train": name}


def _splits(node: yaml.Node, notes: list[str]) -> dict:
    splits = read_value(node, list[str])
    return {"data.split": "train" if "train" in splits else splits[0]}


def _scale(node: yaml.Node, notes: list[str]) -> dict:
    choices = {"true": "group", "false": "none", "group": "group", "batch": "batch", "none": "none"}
    value = str(getattr(node, "value", "")).lower()
    if value not in choices:
        raise ValueError(f"{shown(node)} is not one of: true, false, group, batch, none")
    return {"train.scale_rewards": choices[value]}


def _template(node: yaml.Node, notes: list[str]) -> dict:
    arguments = read_value(node, dict)
    thinking = arguments.pop("enable_thinking", DataSection().thinking)
    return {"data.thinking": thinking, "data.chat_template_kwargs": arguments}


def _vllm(node: yaml.Node, notes: list[str]) -> dict:
    return {"train.sampler": "vllm_colocate" if read_value(node, bool) else "hf"}


def _vllm_mode(node: yaml.Node, notes: list[str]) -> dict:
    return {"train.sampler": "vllm_" + read_value(node, str)}


def _liger(node: yaml.Node, notes: list[str]) -> dict:
    if read_value(node, bool):
        raise ValueError("true: a fused loss kernel would ignore token weights; only false is possible")
    return {}


def _report(node: yaml.Node, notes: list[str]) -> dict:
    names = read_value(node, list[str]) if isinstance(node, yaml.SequenceNode) else [read_value(node, str)]
    return {"train.report_to": [name for name in names if name not in ("none", "all")]}


SPECIAL: dict[str, Callable[[yaml.Node, list[str]], dict]] = {
    "grail_rollout_symmetry": _symmetry, "dataset_mixer": _mixer, "dataset_splits": _splits, "scale_rewards": _scale,
    "chat_template_kwargs": _template, "use_vllm": _vllm, "vllm_mode": _vllm_mode, "use_liger_kernel": _liger,
    "report_to": _report,
}
assert not set(ModelSection.model_fields) & set(TrainSection.model_fields), "a flat key must name one field only"
