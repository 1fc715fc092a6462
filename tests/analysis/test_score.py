"""Scoring through the credit engine: equal to the vectors, and to itself in any batch and order."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from grail_cli.analysis.records import Rollout
from grail_cli.analysis.score import pack, prompt_batches, respread, score_rollouts
from grail_cli.credit import CreditSettings
from grail_cli.models import load_model, load_tokenizer

TEXTS = ["We add 4 and 5, so \\boxed{9} it is.", "Thus \\boxed{12}", "no answer here", "\\boxed{1} and \\boxed{2}",
         "Half of 8 is 4. Then twice 4 is 8. The answer is \\boxed{8}."]


@pytest.fixture(scope="module")
def model(checkpoint):
    return load_model(str(checkpoint))


@pytest.fixture
def rollouts(encode):
    prompts = ["What is 4 + 5?\n", "Half?\n"]
    return [Rollout(f"r{i}", tuple(encode(prompts[i % 2])), tuple(encode(text, end=True)), correct=i % 2 == 0)
            for i, text in enumerate(TEXTS)]


def scores_of(model, tokenizer, chosen, batch_tokens=4096, **settings):
    return score_rollouts(model, tokenizer, chosen, CreditSettings(**{"method": "grail", "rollouts": "all"} | settings),
                          temperature=1.0, batch_tokens=batch_tokens)


def test_batches_cover_every_rollout_once_and_keep_a_prompt_together():
    rollouts = [Rollout(str(i), (i % 3,), tuple(range(i + 1))) for i in range(12)]
    batches = list(prompt_batches(rollouts, 20))
    assert sorted(i for b in batches for i in b) == list(range(12))
    assert all(len(b) == 1 or sum(len(rollouts[i].completion_ids) + 1 for i in b) <= 20 for b in batches)
    order = [rollouts[i].prompt_ids for b in batches for i in b]
    assert sum(a != b for a, b in zip(order, order[1:], strict=False)) == 2


def test_packing_pads_prompts_on_the_left_and_completions_on_the_right():
    import torch

    ids, mask, completion, completion_mask = pack([Rollout("a", (1, 2), (3,)), Rollout("b", (4,), (5, 6))], 9,
                                                  torch.device("cpu"))
    assert ids.tolist() == [[1, 2], [9, 4]] and mask.tolist() == [[1, 1], [0, 1]]
    assert completion.tolist() == [[3, 9], [5, 6]] and completion_mask.tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("method", ["grail", "oar_g", "entropy", "shuffled"])
def test_batch_size_and_order_change_nothing(model, tokenizer, rollouts, method):
    whole = scores_of(model, tokenizer, rollouts, method=method)
    shuffled = rollouts[:]
    random.Random(1).shuffle(shuffled)
    for batch_tokens in (1, 90):
        again = {s.rollout.id: s for s in scores_of(model, tokenizer, shuffled, batch_tokens, method=method)}
        for one in whole:
            other = again[one.rollout.id]
            np.testing.assert_allclose(one.scores, other.scores, rtol=2e-3 if method == "oar_g" else 1e-4, atol=1e-7)
            np.testing.assert_allclose(one.weights, other.weights, atol=2e-3 if method == "oar_g" else 1e-4)
            np.testing.assert_allclose(one.entropy, other.entropy, rtol=1e-4, atol=1e-5)
            assert one.regions == other.regions and one.tokens == other.tokens


def test_entropy_and_log_probability_equal_a_plain_forward_pass(model, tokenizer, rollouts):
    import torch

    for one in scores_of(model, tokenizer, rollouts):
        r = one.rollout
        with torch.no_grad():
            logits = model(torch.tensor([[*r.prompt_ids, *r.completion_ids]])).logits[0].double()
        logp = logits.log_softmax(-1)[len(r.prompt_ids) - 1:-1]
        np.testing.assert_allclose(one.entropy, -(logp.exp() * logp).sum(-1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(one.logprob, logp[range(len(r.completion_ids)), list(r.completion_ids)], rtol=1e-4,
                                   atol=1e-5)


def test_left_out_rollouts_keep_their_raw_score(model, tokenizer, rollouts):
    for one in scores_of(model, tokenizer, rollouts, rollouts="wrong"):
        assert one.reweighted == (one.answer is not None and not one.rollout.correct)
        assert (one.scores.sum() > 0) == (one.answer is not None)
        if one.answer and one.rollout.correct:
            assert (one.weights[:one.reasoning] == 1).all()


def test_boxes_are_counted_and_tokens_read_like_the_tokenizer_says(model, tokenizer, rollouts):
    scored = scores_of(model, tokenizer, rollouts)
    assert [s.boxes for s in scored] == [1, 1, 0, 2, 1]
    assert "".join(scored[0].tokens[:-1]) == TEXTS[0] and scored[0].tokens[-1] == "<|end|>"


def test_respread_gives_the_engines_own_reasoning_weights(model, tokenizer, rollouts):
    for stats in ("completion", "reasoning"):
        settings = CreditSettings(method="grail", rollouts="all", stats=stats)
        for one in scores_of(model, tokenizer, rollouts, stats=stats):
            if one.reasoning:
                np.testing.assert_allclose(respread(one, settings)[:one.reasoning], one.weights[:one.reasoning], atol=1e-5)


def test_reasoning_statistics_do_not_depend_on_the_tail(model, tokenizer, rollouts, encode):
    short = rollouts[1]
    long = replace(short, completion_ids=(*short.completion_ids[:-1], *encode(" and so on and on"), 0))
    for stats, same in (("reasoning", True), ("completion", False)):
        a, b = (scores_of(model, tokenizer, [r], stats=stats)[0] for r in (short, long))
        assert np.allclose(a.weights[:a.reasoning], b.weights[:b.reasoning], atol=1e-5) == same


def test_scores_and_weights_equal_the_vectors_for_every_setting(shared):
    data = json.loads((shared / "vectors" / "vectors.json").read_text())
    folder = str(shared / "vectors" / "model")
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    rollouts = [Rollout(r["name"], tuple(r["prompt_ids"]), tuple(r["completion_ids"]), r["advantage"])
                for r in data["rollouts"]]
    for name, changes in data["settings"].items():
        settings = CreditSettings(method="grail", **{**data["paper"], **changes})
        scored = score_rollouts(model, tokenizer, rollouts, settings, temperature=1.0, batch_tokens=300, readings=False)
        for one, row in zip(scored, data["rollouts"], strict=True):
            expect = row["expect"][name]
            assert one.regions == expect["regions"], (name, row["name"])
            np.testing.assert_allclose(one.scores, expect["scores"], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(one.weights, expect["weights"], atol=1e-4)
