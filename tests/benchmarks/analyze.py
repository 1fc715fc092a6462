"""How much faster `grail analyze` scores rollouts than one at a time with the whole vocabulary at every position.

    python tests/benchmarks/analyze.py CHECKPOINT ROLLOUTS.jsonl [--rollouts 60] [--repeat 2]

ROLLOUTS: lines with prompt_ids and completion_ids, or a samples.jsonl of `grail eval`; the first N with a box count.
Both procedures run in this process on the same device, in turns, after one warm-up rollout each, and must give the same
scores. The slow one is what the reference does, written from the specification: a full forward pass a rollout, tail
included, log-probabilities of every completion token over the whole vocabulary, one backward pass to the embeddings.

Measured with SmolLM2-135M in float32 on two cores, one turn each:
    51 rollouts that few_shot.yaml samples for 15 problems of gsm8k (prompt 337 tokens, 74 before the answer, completion
    138): 185.3 and 45.3 s, ratio 4.09; largest difference of a score 2e-5
    60 solutions of MATH-500, six to a prompt (108, 184, 209), nothing but the end token behind the answer: 145.6 and
    71.3 s, ratio 2.04; 2e-5. The work that is left sets that bound: nearly every token is read, and both ways
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from grail_cli.analysis.rollouts import read_rollouts
from grail_cli.analysis.score import score_rollouts
from grail_cli.credit import CreditSettings, TokenBytes, find_regions
from grail_cli.models import load_model, load_tokenizer
from grail_cli.presets.schema import AnalyzeSection
from grail_cli.prompts import PromptSettings


def one_at_a_time(model, rollouts, regions, temperature):
    """Scores (T,) a rollout, predictor alignment, by the straightforward procedure."""
    found = []
    for rollout, region in zip(rollouts, regions, strict=True):
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]], device=model.device)
        embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embeddings, use_cache=False).logits.float() / temperature  # (1, L, V)
        logp = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[0, :, 0]  # (L - 1,)
        p = len(rollout.prompt_ids)
        loss = -logp[[p + t - 1 for t in region.answer]].sum()
        gradient, = torch.autograd.grad(loss, embeddings)
        scores = (gradient * embeddings.detach()).float().norm(dim=-1)[0]
        found.append(scores[p - 1:-1].cpu().numpy())
    return found


def timed(work):
    """What `work` gives, and (wall seconds, CPU seconds of this process)."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, (time.perf_counter() - wall, time.process_time() - cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("rollouts_file", type=Path)
    parser.add_argument("--rollouts", type=int, default=60)
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()

    tokenizer, model = load_tokenizer(arguments.checkpoint), load_model(arguments.checkpoint)
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    chosen, regions = [], []
    for rollout in read_rollouts(arguments.rollouts_file, tokenizer, PromptSettings()):
        region = None if rollout.fault else find_regions(rollout.completion_ids, token_bytes, "first")
        if region is not None and len(chosen) < arguments.rollouts:
            chosen.append(rollout)
            regions.append(region)
    settings = CreditSettings(method="grail", rollouts="all")

    def ours(rollouts):
        scored = score_rollouts(model, tokenizer, rollouts, settings, temperature=1.0,
                                batch_tokens=AnalyzeSection().batch_tokens, readings=False)
        return [one.scores for one in scored]

    one_at_a_time(model, chosen[:1], regions[:1], 1.0)
    ours(chosen[:1])
    slow, fast = [], []  # (wall seconds, CPU seconds of this process) a turn
    for _ in range(arguments.repeat):
        theirs, seconds = timed(lambda: one_at_a_time(model, chosen, regions, 1.0))
        slow.append(seconds)
        mine, seconds = timed(lambda: ours(chosen))
        fast.append(seconds)
    worst = max(float(np.max(np.abs(a - b)) / np.max(b)) for a, b in zip(mine, theirs, strict=True))
    prompt = sum(len(r.prompt_ids) for r in chosen) / len(chosen)
    before = sum(region.answer[0] for region in regions) / len(regions)
    completion = sum(len(r.completion_ids) for r in chosen) / len(chosen)
    print(f"{len(chosen)} rollouts of {len({r.prompt_ids for r in chosen})} prompts on {model.device}, "
          f"{torch.get_num_threads()} threads; tokens a rollout: prompt {prompt:.0f}, before the answer {before:.0f}, "
          f"completion {completion:.0f}")
    for name, turns in (("one at a time", slow), ("grail analyze", fast)):
        wall, cpu = (statistics.median(turn[i] for turn in turns) for i in (0, 1))
        print(f"{name}  {wall:8.1f} s wall  {cpu:8.1f} s CPU  {wall / len(chosen):6.3f} s a rollout")
    wall, cpu = (statistics.median(a[i] / b[i] for a, b in zip(slow, fast, strict=True)) for i in (0, 1))
    print(f"ratio          {wall:8.2f}         {cpu:8.2f}   (CPU time does not count what other programs took)")
    print(f"largest difference of a score, over the rollout's largest score: {worst:.1e}")


if __name__ == "__main__":
    main()
