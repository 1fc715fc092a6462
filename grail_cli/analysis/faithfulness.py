"""Does the answer depend on the tokens that got the credit: deletion curves, OAR-P as reference, a random model.

F1 replaces reasoning tokens by the pad token, the top ones under a ranking, and measures how many nats the answer's
log-probability falls. The answer needs late tokens most whatever they say, so two controls belong to it: `latest`
(position alone), and deletion matched by position, one token from each of eight equal slices. F2 holds the rankings
against OAR-P, one forward pass a token. F3 asks whether a model with random weights ranks otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .agreement import spearman, top_indices
from .bootstrap import interval
from .records import Scored

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

SHARES = (0.05, 0.1, 0.2, 0.3)
SLICES = 8
RANDOM_DRAWS = 4
OAR_P_ROLLOUTS = 8


def rankings(by_method: dict[str, Scored], generator: np.random.Generator) -> dict[str, list[np.ndarray]]:
    """Name -> one or more readings (R,), largest first to be deleted, of one rollout scored by several methods.

    Methods give their raw score, `shuffled` its weights; controls: -log p, random (several draws), latest, and the
    lowest-scored tokens of the first method.
    """
    first = next(iter(by_method.values()))
    n = first.reasoning
    found = {name: [np.asarray((s.weights if name == "shuffled" else s.scores)[:n], dtype=np.float64)]
             for name, s in by_method.items()}
    if first.entropy is not None and "entropy" not in found:
        found["entropy"] = [first.entropy[:n]]
    if first.logprob is not None:
        found["-log p"] = [-first.logprob[:n]]
    found["random"] = [generator.random(n) for _ in range(RANDOM_DRAWS)]
    found["latest"] = [np.arange(n, dtype=np.float64)]
    found[f"lowest {next(iter(by_method))}"] = [-found[next(iter(by_method))][0]]
    return found


def deleted(reading: np.ndarray, share: float) -> list[int]:
    """Indices of the top `share` of the reasoning tokens, at least one."""
    return top_indices(reading, max(1, round(share * len(reading))))


def deleted_by_slice(reading: np.ndarray, slices: int = SLICES) -> list[int]:
    """Index of the top token in each of `slices` equal slices of the reasoning (as many as there are tokens)."""
    edges = np.linspace(0, len(reading), min(slices, len(reading)) + 1).round().astype(int)
    return [int(a + np.argmax(reading[a:b])) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]


def deletion_table(model: PreTrainedModel, by_method: dict[str, list[Scored]], *, pad_id: int, temperature: float,
                   batch_tokens: int, draws: int, seed: int, advance: Callable[[], None] = lambda: None) -> list[dict]:
    """F1: rows {ranking, kind, share, mean, low, high, rollouts}, drops of the answer's log-probability in nats.

    kind: `top share`, `position-matched`, or `area over random` (mean of the curve over its shares, less `random`'s).
    """
    drops: dict[tuple[str, str, float | None], list[float]] = {}
    for i, first in enumerate(next(iter(by_method.values()))):
        if first.reasoning:
            one = {name: scored[i] for name, scored in by_method.items()}
            for key, value in _drops_of(model, one, pad_id, temperature, batch_tokens, (seed, i)).items():
                drops.setdefault(key, []).append(value)
        advance()
    rows = []
    for (name, kind, share), values in drops.items():
        mean, low, high = interval(values, draws, seed)
        rows.append({"ranking": name, "kind": kind, "share": share, "mean": mean, "low": low, "high": high,
                     "rollouts": len(values)})
    return rows


def _drops_of(model: PreTrainedModel, by_method: dict[str, Scored], pad_id: int, temperature: float,
              batch_tokens: int, seed: tuple[int, int]) -> dict[tuple[str, str, float | None], float]:
    first = next(iter(by_method.values()))
    keys, deletions = [], []
    for name, readings in rankings(by_method, np.random.default_rng(seed)).items():
        for reading in readings:
            for share in SHARES:
                keys.append((name, "top share", share))
                deletions.append(deleted(reading, share))
            keys.append((name, "position-matched", None))
            deletions.append(deleted_by_slice(reading))
    logp = answer_logprobs(model, first, [[], *deletions], pad_id=pad_id, temperature=temperature,
                           batch_tokens=batch_tokens)
    found: dict[tuple[str, str, float | None], list[float]] = {}
    for key, value in zip(keys, logp[1:], strict=True):
        found.setdefault(key, []).append(float(logp[0] - value))
    means = {key: float(np.mean(values)) for key, values in found.items()}
    area = {name: float(np.mean([means[name, "top share", s] for s in SHARES])) for name, _, _ in means}
    means |= {(name, "area over random", None): value - area["random"] for name, value in area.items()
              if name != "random"}
    return means


def answer_logprobs(model: PreTrainedModel, one: Scored, deletions: list[list[int]], *, pad_id: int,
                    temperature: float, batch_tokens: int) -> np.ndarray:
    """Log-probability (nats) of the answer tokens after each deletion, shape (deletions,); nothing after it is read.

    All variants have the same length, so that no padding enters; they run `batch_tokens` tokens at a time.
    """
    import torch

    answer = one.answer or ()
    prompt, stop = list(one.rollout.prompt_ids), answer[-1] + 1
    row = torch.tensor(prompt + list(one.rollout.completion_ids[:stop]), device=model.device)
    ids = row.repeat(len(deletions), 1)  # (variants, P + answer end)
    for i, places in enumerate(deletions):
        ids[i, [len(prompt) + t for t in places]] = pad_id
    where = torch.tensor([len(prompt) + t for t in answer], device=model.device)
    size = max(1, batch_tokens // ids.shape[1])
    found = []
    with torch.no_grad():
        for chunk in ids.split(size):
            logits = model(chunk, use_cache=False, logits_to_keep=where - 1).logits.float() / temperature
            logp = torch.log_softmax(logits, dim=-1)  # (variants, answer, V)
            found.append(logp.gather(-1, row[where].expand(len(chunk), -1)[..., None]).sum((1, 2)))
    return torch.cat(found).double().cpu().numpy()


def reference_table(by_method: dict[str, list[Scored]], reference: list[Scored], *, name: str, draws: int, seed: int
                    ) -> list[dict]:
    """F2 and F3: Spearman of raw scores against those of a reference scoring of the same rollouts (found by id)."""
    truth = {s.rollout.id: s for s in reference if s.reasoning}
    rows = []
    for method, scored in by_method.items():
        rho = [spearman((s.weights if method == "shuffled" else s.scores)[:s.reasoning],
                        truth[s.rollout.id].scores[:s.reasoning])
               for s in scored if s.rollout.id in truth]
        mean, low, high = interval(rho, draws, seed)
        rows.append({"ranking": method, "reference": name, "spearman": mean, "low": low, "high": high,
                     "rollouts": int(np.isfinite(rho).sum())})
    return rows


def random_model(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """A model of the same shape with freshly drawn weights; the global random state is left as it was."""
    import torch

    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    return fresh.to(model.device, model.dtype).eval()
