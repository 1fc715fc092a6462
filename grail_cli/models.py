"""The one way to a checkpoint: a folder or a Hub id, checked without torch, loaded without running foreign code."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import GrailError, install_hint
from .hub import advice, reachable

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TINY = "tiny"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def resolve_model(model: str, *, where: str = "model.path") -> str:
    """The folder or Hub id behind a model's name; `tiny` is the shipped model.

    Raises GrailError, before anything heavy is imported, for a path that does not exist.
    """
    if model == TINY:
        return str(Path(__file__).resolve().parent / "tiny" / "weights")
    if Path(model).is_dir():
        return model
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1 or not HUB_ID.fullmatch(model)
    if looks_like_path or Path(model).exists() or Path(model).parts[0] in ("runs", "results"):
        problem = "a file, where a model folder is needed" if Path(model).is_file() else "no such folder"
        raise GrailError(f"{model!r}: {problem}.", where=where, kind="missing_file",
                         hint="give a folder with config.json and weights, or a Hugging Face id such as Qwen/Qwen3-4B.")
    return model


def is_local(model: str) -> bool:
    """Whether a resolved model is a folder on this machine."""
    return Path(model).is_dir()


def check_folder(model: str, *, where: str = "model.path", weights: bool = True) -> dict:
    """Look at a local checkpoint without torch and return its config.json; an adapter folder returns its base's.

    Raises GrailError when config, tokenizer or (weights=True) weights are missing or torn.
    """
    folder = Path(model)
    if is_adapter(folder):
        config = _read_config(folder / "adapter_config.json", where)
        base = config.get("base_model_name_or_path") or ""
        return check_folder(base, where=f"{where} (base of the adapter)") if is_local(base) else {}
    if not (folder / "config.json").is_file():
        runs = sorted(path.name for path in folder.glob("checkpoint-*"))
        hint = f"choose a checkpoint inside it, such as {folder / runs[-1]}." if runs else "a checkpoint has a config.json."
        raise GrailError(f"{model!r} has no config.json.", where=where, hint=hint, kind="missing_file")
    config = _read_config(folder / "config.json", where)
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise GrailError(f"{model!r} has no tokenizer ({', '.join(TOKENIZER_FILES)}).", where=where,
                         hint="copy the tokenizer files of its base model into the folder.", kind="missing_file")
    if weights:
        _check_weights(folder, where)
    return config


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds LoRA adapters in place of whole weights."""
    return (Path(folder) / "adapter_config.json").is_file() and not (Path(folder) / "config.json").is_file()


def _read_config(path: Path, where: str) -> dict:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise GrailError(f"{path} is no JSON document ({error}).", where=where, kind="bad_file") from None
    if not isinstance(config, dict):
        raise GrailError(f"{path} is no JSON object.", where=where, kind="bad_file")
    return config


def _check_weights(folder: Path, where: str) -> None:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        files = sorted(set(_read_config(index, where).get("weight_map", {}).values()))
        missing = [name for name in files if not (folder / name).is_file()]
        if missing:
            raise GrailError(f"{folder} lacks {', '.join(missing)} of its {len(files)} weight files.", where=where,
                             hint="copy the checkpoint again, whole.", kind="missing_file")
        return
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("pytorch_model*.bin")):
        raise GrailError(f"{str(folder)!r} has no weights (*.safetensors).", where=where, kind="missing_file",
                         hint="choose a folder with a whole checkpoint.")


def context_length(config: dict) -> int | None:
    """Longest sequence that a model's config.json allows, in tokens; None when it does not say."""
    text = config.get("text_config", config)
    return text.get("max_position_embeddings")


def load_tokenizer(model: str, *, revision: str | None = None, trust_remote_code: bool = False,
                   chat_template: str | None = None) -> "PreTrainedTokenizerBase":
    """The tokenizer of a checkpoint, padding on the left and with a pad token; chat_template replaces its own.

    chat_template: template text, as `prompts.read_template` gives it. Raises GrailError when there is none to load.
    """
    from transformers import AutoTokenizer

    _hush()
    source = _tokenizer_source(model)
    if not is_local(source):
        reachable()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code,
                                                  padding_side="left")
    except (OSError, ValueError) as error:
        raise _not_loaded("tokenizer", model, error) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer


def _tokenizer_source(model: str) -> str:
    folder = Path(model)
    if is_adapter(folder) and not any((folder / name).is_file() for name in TOKENIZER_FILES):
        return _read_config(folder / "adapter_config.json", "model")["base_model_name_or_path"]
    return model


def load_model(model: str, *, dtype: str = "auto", device: "str | torch.device | None" = None,
               attn_implementation: str = "sdpa", revision: str | None = None,
               trust_remote_code: bool = False) -> "PreTrainedModel":
    """A causal language model in eval mode; LoRA adapters are loaded on their base and merged.

    dtype `auto` is the checkpoint's own on a GPU and float32 on a CPU. Raises GrailError when it cannot be loaded.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    _hush()
    device = torch.device(device) if device is not None else device_for()[0]
    if dtype == "auto" and device.type == "cpu":
        dtype = "float32"
    base = model
    if is_adapter(model):
        base = _read_config(Path(model) / "adapter_config.json", "model")["base_model_name_or_path"]
    if not is_local(base):
        reachable()
    try:
        loaded = AutoModelForCausalLM.from_pretrained(
            base, dtype=dtype, attn_implementation=attn_implementation, revision=revision,
            trust_remote_code=trust_remote_code)
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise _not_loaded("model", model, error) from error
    if base != model:
        loaded = _merge_adapter(loaded, model)
    return loaded.to(device).eval()


def _hush() -> None:
    """Switch the library's bars and advice off: standard error belongs to the command."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _merge_adapter(base: "PreTrainedModel", adapter: str) -> "PreTrainedModel":
    try:
        from peft import PeftModel
    except ImportError:
        raise GrailError(f"{adapter!r} holds LoRA adapters and peft is not installed.", kind="missing_package",
                         hint=install_hint("lora")) from None
    return PeftModel.from_pretrained(base, adapter).merge_and_unload()


def _not_loaded(what: str, model: str, error: Exception) -> GrailError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    hint = "check the folder." if is_local(model) else advice("check the id and the network, or give a local folder.")
    if "trust_remote_code" in str(error):
        hint = "if you trust its code: --set model.trust_remote_code=true"
    return GrailError(f"the {what} of {model!r} cannot be loaded: {first}", where="model.path", hint=hint, kind="bad_model")


def device_for(name: str | None = None) -> "tuple[torch.device, str]":
    """The device to compute on, and the reason in words."""
    import torch

    if name:
        return torch.device(name), "as asked"
    if torch.cuda.is_available():
        return torch.device("cuda"), torch.cuda.get_device_name(0)
    return torch.device("cpu"), "no CUDA GPU is visible"


def label(model: str) -> str:
    """What a model is called in results, tables and servers: its folder's name, `RUN@step-N` for RUN/checkpoint-N."""
    path = Path(model).resolve() if is_local(model) else Path(model)
    if str(path) == resolve_model(TINY):
        return TINY
    step = re.fullmatch(r"checkpoint-(\d+)", path.name)
    return f"{path.parent.name}@step-{step[1]}" if step else path.name
