"""Make the tiny model from its seed: `python -m grail_cli.tiny.warmstart --out DIR`, a few minutes on one core.

Supervised training on the corpus of `corpus.py`; the loss is on the solutions alone. One thread, private generators
and a fixed order make the weights a function of the seed on a given machine and torch version.
"""

import argparse
import math
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .build import build_model, build_tokenizer
from .corpus import Habits, examples

if TYPE_CHECKING:
    import torch

STEPS, BATCH, PEAK_LR, WARMUP = 600, 64, 4e-3, 40


def encode(tokenizer, pairs: list[tuple[str, str]]) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Token ids and labels (-100 on prompt and padding), both (N, longest), of pairs (question, solution)."""
    import torch

    rows, starts = [], []
    for question, solution in pairs:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False)
        head = tokenizer(prompt, add_special_tokens=False).input_ids
        rows.append(head + tokenizer(solution, add_special_tokens=False).input_ids + [tokenizer.eos_token_id])
        starts.append(len(head))
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    labels = torch.full((len(rows), width), -100)
    for i, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[i, :len(row)] = torch.tensor(row)
        labels[i, start:len(row)] = ids[i, start:len(row)]
    return ids, labels


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up, then a cosine down to zero."""
    if step < WARMUP:
        return peak * (step + 1) / WARMUP
    return peak * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP)))


def warm_start(seed: int = 0, *, steps: int = STEPS, batch: int = BATCH, peak_lr: float = PEAK_LR,
               habits: Habits = Habits(), say=lambda line: None):
    """The warm-started (model, tokenizer). The same seed gives the same weights, bit for bit, on one machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of sums, and with it the weights, must not depend on the number of cores
    try:
        tokenizer = build_tokenizer()
        model = build_model(tokenizer, seed).train()
        rng = random.Random(f"warm start {seed}")
        optimizer = torch.optim.AdamW(model.parameters(), lr=peak_lr, betas=(0.9, 0.98), weight_decay=0.01)
        started = time.monotonic()
        for step in range(steps):
            ids, labels = encode(tokenizer, examples(rng, batch, habits))
            loss = model(input_ids=ids, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, peak_lr)
            optimizer.step()
            optimizer.zero_grad()
            if step % 50 == 0 or step == steps - 1:
                say(f"step {step + 1}/{steps}  loss {loss.item():.3f}  {time.monotonic() - started:.0f} s")
    finally:
        torch.set_num_threads(threads)
    return model.eval(), tokenizer


def save(model, tokenizer, folder: Path) -> None:
    """Write an ordinary Hugging Face folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(argv: list[str] | None = None) -> None:
    """Train and save; progress on standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args(argv)
    model, tokenizer = warm_start(options.seed, steps=options.steps, say=lambda line: print(line, file=sys.stderr))
    save(model, tokenizer, options.out)


if __name__ == "__main__":
    main()
