"""Scored rollouts made from numbers, so that statistics are tested without a model."""

import numpy as np

from grail_cli.analysis.records import Rollout, Scored


def scored(weights, *, scores=None, answer=None, post=(), correct=True, name="r", tokens=None, entropy=None,
           logprob=None, reweighted=True, advantage=None):
    """A scored rollout: reasoning is all tokens before `answer` (default: the last token alone is the answer)."""
    n = len(weights)
    answer = (n - 1 - len(post),) if answer is None else answer
    post = tuple(range(answer[-1] + 1, n)) if answer else ()
    return Scored(
        Rollout(name, (1,), tuple(range(n)), advantage, correct), tuple(tokens or [f"t{i} " for i in range(n)]),
        np.array(scores if scores is not None else weights, dtype=np.float64), np.array(weights, dtype=np.float64),
        reweighted, answer or None, answer or (), (), post, 1 if answer else 0,
        None if entropy is None else np.array(entropy, dtype=np.float64),
        None if logprob is None else np.array(logprob, dtype=np.float64))


def many(n=30, seed=0, length=(20, 90)):
    """Random rollouts with correct and wrong ones, tails and entropies; weights rise over the reasoning."""
    generator = np.random.default_rng(seed)
    words = ["We", " add", " 4", "+", "5", ",", " so", " then", ".", "\n", " thus", " half", "$", " let", " x"]
    made = []
    for i in range(n):
        reasoning, tail = int(generator.integers(*length)), int(generator.integers(0, 8))
        total = reasoning + 3 + tail
        scores = np.exp(generator.normal(-5, 1, total) + np.linspace(0, 1, total))
        scores[reasoning + 3:] = 0
        logs = np.log(scores + 1e-8)
        weights = np.clip(1 + 0.5 * (logs - logs.mean()) / np.sqrt(logs.var() + 1e-8), 0.5, 5.0)
        weights[reasoning:reasoning + 3] = (1, 5, 1)
        weights[reasoning + 3:] = 1
        made.append(Scored(
            Rollout(f"p{i // 3}#{i % 3}", (1, 2), tuple(range(total)), None, bool(generator.random() < 0.5)),
            tuple([str(w) for w in generator.choice(words, reasoning)] + ["\\boxed{", "7", "}"] + [" done"] * tail),
            scores, weights, True, (reasoning, reasoning + 1, reasoning + 2), (reasoning + 1,),
            (reasoning, reasoning + 2), tuple(range(reasoning + 3, total)), 1,
            generator.gamma(1, 0.5, total), -generator.gamma(1, 0.4, total)))
    return made
