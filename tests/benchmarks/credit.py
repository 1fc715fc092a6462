"""What token credit costs: a GRPO step, GRAIL's step, and GRAIL as its reference computes it, side by side.

    python tests/benchmarks/credit.py --cache FOLDER        # SmolLM2-135M and a small random model
    python tests/benchmarks/credit.py --cache FOLDER --models tiny --growth

A step is what TRL's trainer does with a micro-batch: loss (fused head, entropies), backward, gradient
clipping, AdamW. The arms take turns within a round (A B C A B C ...) and medians are compared. Seconds are
processor seconds of this process, which other load on the machine leaves alone. Peak memory is that of a
process of its own for each arm. Markdown on standard output.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from grail_cli.credit import CreditSettings, Regions, RolloutBatch, compute_credit, token_advantages  # noqa: E402
from grail_cli.credit.fused import listening  # noqa: E402

GENERATIONS, PROMPT, TOKENS, ANSWER = 4, 96, 192, 9  # one group: the rollouts share their prompt
SETTINGS = CreditSettings(method="grail")
ARMS = {
    "GRPO": {},
    "GRAIL, half of the rollouts wrong": {"active": 0.5},
    "GRAIL, all rollouts wrong, fused with the policy's pass": {"active": 1.0, "fused": True},
    "GRAIL, all wrong, in a pass of its own": {"active": 1.0},
    "GRAIL as the reference computes it": {"active": 1.0, "reference": True},
}


def load(name: str, cache: Path):
    """The model in float32: SmolLM2-135M out of its package, or a random Qwen3 with a vocabulary of 4,096."""
    from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

    if name == "smollm2":
        from tests.real.smollm2 import write_checkpoint

        return AutoModelForCausalLM.from_pretrained(write_checkpoint(cache / "smollm2"), dtype=torch.float32)
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=4096, tie_word_embeddings=True))


def trainer_of(model, folder: Path, checkpointing: bool):
    """TRL's trainer around the model: its loss is what a step is measured with."""
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast
    from tokenizers import Tokenizer, models
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, "<pad>")),
                                        pad_token="<pad>", eos_token="<eos>")
    args = GRPOConfig(output_dir=str(folder), per_device_train_batch_size=GENERATIONS,
                      num_generations=GENERATIONS, max_completion_length=TOKENS, loss_type="dr_grpo", beta=0.0,
                      num_iterations=4, use_cpu=True, bf16=False, gradient_checkpointing=checkpointing, report_to=[],
                      scale_rewards="none", learning_rate=1e-6)
    trainer = GRPOTrainer(model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=args,
                          train_dataset=Dataset.from_list([{"prompt": "x"}]), processing_class=tokenizer)
    trainer.create_optimizer()
    if checkpointing:  # the trainer's argument alone does nothing before train(), which is not called here
        model.gradient_checkpointing_enable({"use_reentrant": False})
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def rollouts(vocab: int, active: float, tokens: int = TOKENS) -> RolloutBatch:
    """A group that shares a prompt; a boxed answer of ANSWER tokens just before the end token of each completion."""
    draw, count = torch.Generator().manual_seed(1), GENERATIONS
    prompts = torch.randint(3, vocab, (1, PROMPT), generator=draw).repeat(count, 1)
    completions = torch.randint(3, vocab, (count, tokens), generator=draw)
    answer = tuple(range(tokens - ANSWER - 1, tokens - 1))
    regions = Regions(answer, answer[3:-1], (*answer[:3], answer[-1]), (tokens - 1,))
    wrong = torch.arange(count) < round(active * count)
    return RolloutBatch(prompts, torch.ones_like(prompts), completions, torch.ones_like(completions),
                        torch.where(wrong, -0.5, 0.5), [regions] * count)


def reference_weights(model, batch: RolloutBatch, settings: CreditSettings) -> Tensor:
    """Weights (B, T) as the reference finds them: every rollout, full-vocabulary logits at every completion position."""
    from grail_cli.credit.weights import z_weights

    ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.completion_mask], 1)
    start, tokens = batch.prompt_ids.shape[1], batch.completion_ids.shape[1]
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
    logits = model(inputs_embeds=embeddings, attention_mask=mask, use_cache=False).logits[:, start - 1:-1]
    log_p = logits.float().log_softmax(-1).gather(-1, batch.completion_ids.unsqueeze(-1)).squeeze(-1)
    chosen = torch.zeros(log_p.shape, dtype=torch.bool)
    chosen[:, list(batch.regions[0].answer)] = True
    gradient, = torch.autograd.grad(-(log_p * chosen).sum(), embeddings)
    scores = (gradient * embeddings).norm(dim=-1)[:, start - 1:start - 1 + tokens]
    return z_weights(scores, batch.completion_mask.bool(), mean=settings.mean, std=settings.std, w_min=settings.w_min,
                     w_max=settings.w_max)


def credit(model, batch: RolloutBatch, arm: dict) -> Tensor | None:
    """The weights of an arm; None for GRPO, and where the step finds them in its own forward pass."""
    if not arm or arm.get("fused"):
        return None
    if arm.get("reference"):
        return reference_weights(model, batch, SETTINGS)
    return compute_credit(model, batch, SETTINGS, 1.0, skip_known=True).weights


def step(trainer, batch: RolloutBatch, weights: Tensor | None, fused: bool = False) -> None:
    """One optimiser step of TRL's loss on the batch."""
    inputs = {"prompt_ids": batch.prompt_ids, "prompt_mask": batch.prompt_mask, "completion_ids": batch.completion_ids,
              "completion_mask": batch.completion_mask, "advantages": batch.advantages,
              "num_items_in_batch": batch.completion_mask.sum()}
    if weights is not None:
        inputs["advantages"] = token_advantages(batch.advantages, weights, batch.completion_mask)
    trainer.model.train()
    forward = trainer._get_per_token_logps_and_entropies

    def fusing(model, *args, **kwargs):
        with listening(model) as tap:
            found = forward(model, *args, **kwargs)
        weights = compute_credit(model, batch, SETTINGS, 1.0, skip_known=True, tap=tap).weights
        inputs["advantages"] = token_advantages(batch.advantages, weights, batch.completion_mask)
        return found  # TRL reads the advantages after this

    trainer._get_per_token_logps_and_entropies = fusing if fused else forward
    loss = trainer.compute_loss(trainer.model, inputs)
    trainer._get_per_token_logps_and_entropies = forward
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()


def timed(call) -> tuple[float, object]:
    begin = time.process_time()
    result = call()
    return time.process_time() - begin, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder for the checkpoint that is unpacked once")
    parser.add_argument("--models", default="smollm2,tiny")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds after one that warms up")
    parser.add_argument("--plain", action="store_true",
                        help="without gradient checkpointing, which TRL and every preset switch on")
    parser.add_argument("--growth", action="store_true", help="cost of the credit pass at 64 to 1024 tokens")
    parser.add_argument("--peak", help=argparse.SUPPRESS)  # one arm, for its peak memory: the process of its own
    options = parser.parse_args()
    for name in options.models.split(","):
        model = load(name, options.cache)
        vocab = model.config.vocab_size
        if options.peak:
            trainer = trainer_of(model, options.cache / "run", not options.plain)
            arm = ARMS[options.peak]
            batch = rollouts(vocab, arm.get("active", 0.5))
            for _ in range(2):
                step(trainer, batch, credit(model, batch, arm), arm.get("fused", False))
            print(high_water())
            return
        print_steps(name, model, options)
        if options.growth:
            print_growth(name, model, options.rounds)


def print_steps(name: str, model, options) -> None:
    trainer = trainer_of(model, options.cache / "run", not options.plain)
    arms = {label: arm for label, arm in ARMS.items() if options.plain or not arm.get("fused")}
    rounds = []  # a round: arm -> (seconds of the policy's step, seconds of its credit pass)
    for number in range(options.rounds + 1):
        seconds = {}
        for label, arm in arms.items():
            batch = rollouts(model.config.vocab_size, arm.get("active", 0.5))
            spent, weights = timed(lambda: credit(model, batch, arm))
            whole, _ = timed(lambda: step(trainer, batch, weights, arm.get("fused", False)))
            seconds[label] = (whole, spent)
        print(f"{name} round {number} {seconds}", file=sys.stderr, flush=True)
        rounds += [seconds] * bool(number)  # the first round warms up
    peaks = {label: peak(name, label, options) for label in arms}
    half = "GRAIL, half of the rollouts wrong"
    rows = [(label, label, 1) for label in arms]
    rows.insert(len(rows) - 1, ("GRAIL, half wrong, refresh: generation (4 passes)", half, 4))
    # the policy's step is the same work in every arm that is not fused
    base = statistics.median(r[label][0] for r in rounds for label, arm in arms.items() if not arm.get("fused"))
    print(f"\n{name}: {GENERATIONS} rollouts of a {PROMPT}-token prompt and {TOKENS} completion tokens, "
          f"gradient checkpointing {'off' if options.plain else 'on'}, {torch.get_num_threads()} thread(s), "
          f"median of {options.rounds} rounds\n")
    print("| step | seconds | of it credit | time | peak memory |\n|---|---|---|---|---|")
    for label, arm, passes in rows:
        spent = statistics.median(r[arm][1] for r in rounds) / passes  # one credit pass serves `passes` steps
        whole = statistics.median(r[arm][0] for r in rounds) if arms[arm].get("fused") else base + spent
        memory = peaks[arm] / peaks["GRPO"]
        print(f"| {label} | {whole:.3f} | {spent:.3f} | {whole / base:.2f} x | {memory:.2f} x |", flush=True)


def peak(name: str, arm: str, options) -> int:
    """The largest resident size (KiB) of a process that runs two steps of the arm."""
    command = [sys.executable, __file__, "--cache", str(options.cache), "--models", name, "--peak", arm]
    command += ["--plain"] * options.plain
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[-1])


def high_water() -> int:
    """The largest resident size (KiB) of this process so far; Linux. Its ru_maxrss would start at its parent's."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def print_growth(name: str, model, rounds: int) -> None:
    print(f"\n{name}: the credit pass alone, {GENERATIONS} rollouts, all active\n")
    print("| completion tokens | seconds | milliseconds a token |\n|---|---|---|")
    for tokens in (64, 128, 256, 512, 1024):
        batch = rollouts(model.config.vocab_size, 1.0, tokens)
        spent = [timed(lambda: credit(model, batch, {"active": 1.0}))[0] for _ in range(rounds)]
        seconds = statistics.median(spent)
        print(f"| {tokens} | {seconds:.3f} | {1000 * seconds / (tokens * GENERATIONS):.3f} |")


if __name__ == "__main__":
    main()
