"""Make the tiny model from its seed: `python -m grail_cli.tiny.warmstart --out DIR`, about three minutes on
one core.

Supervised training, the loss on the solutions alone: first on careful solutions, from which the model learns
to copy and to calculate, then on the corpus of mixed habits (`corpus.py`) that reinforcement learning is to
choose from. Muon for the matrices and AdamW for the rest; with AdamW alone the model had not learned to copy
its operands after 300 steps, with Muon it had after 80. One thread, private generators and a fixed order make
the weights a function of the seed on a given machine and torch version.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..prompts import PromptSettings, save_stamp, stamp_of
from .build import build_model, build_tokenizer
from .corpus import CAREFUL, MIXED, examples
from .task import suite_rows

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

STEPS, BATCH = 420, 64
CAREFUL_SHARE = 0.6  # of the steps come first and are on careful solutions
MUON_LR, ADAM_LR, WARMUP = 0.02, 3e-3, 30


def encode(tokenizer: "PreTrainedTokenizerFast",
           pairs: list[tuple[str, str]]) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Token ids and labels (-100 on prompt and padding), both (N, longest), of pairs (question, solution)."""
    import torch

    turns = [[{"role": "user", "content": question}] for question, _ in pairs]
    heads = [tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=True, return_dict=False)
             for turn in turns]
    tails = [tokenizer(solution, add_special_tokens=False).input_ids + [tokenizer.eos_token_id]
             for _, solution in pairs]
    width = max(len(head) + len(tail) for head, tail in zip(heads, tails, strict=True))
    ids = torch.full((len(pairs), width), tokenizer.pad_token_id)
    labels = torch.full((len(pairs), width), -100)
    for i, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        ids[i, :len(head) + len(tail)] = torch.tensor(head + tail)
        labels[i, len(head):len(head) + len(tail)] = torch.tensor(tail)
    return ids, labels


def learning_rate(step: int, steps: int) -> float:
    """The factor on both step sizes: a linear rise, a level half, a linear fall."""
    return min(1.0, (step + 1) / WARMUP, 2 * (1 - step / steps))


def optimizers(model: "Qwen3ForCausalLM") -> list["torch.optim.Optimizer"]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms."""
    import torch

    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [torch.optim.Muon(matrices, lr=MUON_LR, weight_decay=0.0),
            torch.optim.AdamW(others, lr=ADAM_LR, betas=(0.9, 0.98), weight_decay=0.0)]


def warm_start(seed: int = 0, *, steps: int = STEPS,
               say=lambda line: None) -> tuple["Qwen3ForCausalLM", "PreTrainedTokenizerFast"]:
    """The warm-started model and its tokenizer. The same seed gives the same weights, bit for bit, on one machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of sums, so the weights, must not depend on the number of cores
    try:
        tokenizer = build_tokenizer()
        model = build_model(tokenizer, seed).train()
        both = optimizers(model)
        schedules = [torch.optim.lr_scheduler.LambdaLR(one, lambda step: learning_rate(step, steps))
                     for one in both]
        rng = random.Random(f"warm start {seed}")
        started = time.monotonic()
        for step in range(steps):
            habits = CAREFUL if step < CAREFUL_SHARE * steps else MIXED
            ids, labels = encode(tokenizer, examples(rng, BATCH, habits))
            loss = model(input_ids=ids, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for one, schedule in zip(both, schedules, strict=True):
                one.step()
                one.zero_grad()
                schedule.step()
            if (step + 1) % 20 == 0 or step + 1 == steps:
                say(f"step {step + 1}/{steps}  loss {loss.item():.3f}  {time.monotonic() - started:.0f} s")
    finally:
        torch.set_num_threads(threads)
    with torch.random.fork_rng(devices=[]):
        model.resize_token_embeddings(len(tokenizer))  # without ids that no text has, a rollout cannot draw one
    return model.eval(), tokenizer


def save(model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast", folder: Path) -> None:
    """Write an ordinary Hugging Face folder, and the stamp of its prompts: the question alone, no suffix."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_stamp(folder, stamp_of(tokenizer, suite_rows("arith")[0]["question"], PromptSettings()))


def main(argv: list[str] | None = None) -> None:
    """Train and save; progress on standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args(argv)
    model, tokenizer = warm_start(options.seed, steps=options.steps,
                                  say=lambda line: print(line, file=sys.stderr, flush=True))
    save(model, tokenizer, options.out)


if __name__ == "__main__":
    main()
