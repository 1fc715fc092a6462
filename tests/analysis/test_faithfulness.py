import numpy as np
import pytest

from grail_cli.analysis.faithfulness import (
    answer_logprobs,
    deleted,
    deleted_by_slice,
    deletion_table,
    random_model,
    rankings,
    reference_table,
)
from grail_cli.analysis.records import Rollout, Scored
from grail_cli.models import load_model

from .made import many


@pytest.fixture(scope="module")
def model(checkpoint):
    return load_model(str(checkpoint))


@pytest.fixture
def one(encode):
    ids = tuple(encode("We add 4 and 5, so \\boxed{9}."))
    answer = tuple(range(19, 28))
    n = len(ids)
    return Scored(Rollout("r", (60, 61), ids), tuple("x" * n), np.linspace(1, 2, n), np.ones(n), True, answer, (26,),
                  answer[:7] + answer[8:], (28,), 1, np.linspace(0, 1, n), -np.linspace(0, 1, n))


def test_the_top_share_is_deleted_and_at_least_one_token():
    reading = np.array([1.0, 5.0, 3.0, 2.0])
    assert deleted(reading, 0.5) == [1, 2] and deleted(reading, 0.01) == [1]


def test_position_matched_deletion_takes_the_best_of_each_slice():
    assert deleted_by_slice(np.array([1, 5, 3, 2, 0, 9.0]), 3) == [1, 2, 5]
    assert deleted_by_slice(np.array([1.0, 2.0]), 8) == [0, 1]


def test_deleting_nothing_gives_the_answers_log_probability_and_deletions_are_those_of_single_passes(model, one):
    import torch

    deletions = [[], [3], [0, 18]]
    found = answer_logprobs(model, one, deletions, pad_id=1, temperature=0.7, batch_tokens=40)
    for places, value in zip(deletions, found, strict=True):
        ids = [60, 61, *one.rollout.completion_ids]
        for t in places:
            ids[2 + t] = 1
        with torch.no_grad():
            logp = (model(torch.tensor([ids])).logits[0].double() / 0.7).log_softmax(-1)
        expect = sum(logp[2 + t - 1, one.rollout.completion_ids[t]].item() for t in one.answer)
        assert value == pytest.approx(expect, abs=1e-4)


def test_the_table_holds_every_ranking_with_curve_match_and_area(model, one):
    rows = deletion_table(model, {"grail": [one, one]}, pad_id=1, temperature=1.0, batch_tokens=400, draws=20, seed=0)
    kinds = {(r["ranking"], r["kind"]) for r in rows}
    for name in ("grail", "entropy", "-log p", "random", "latest", "lowest grail"):
        assert (name, "top share") in kinds and (name, "position-matched") in kinds
        assert ((name, "area over random") in kinds) == (name != "random")
    latest = [r["mean"] for r in rows if r["ranking"] == "latest" and r["kind"] == "top share"]
    grail = [r["mean"] for r in rows if r["ranking"] == "grail" and r["kind"] == "top share"]
    assert latest == pytest.approx(grail)  # the scores rise with position here
    assert all(r["rollouts"] == 2 for r in rows)


def test_the_random_ranking_depends_on_the_seed_alone(one):
    a, b = (rankings({"grail": one}, np.random.default_rng(4))["random"][0] for _ in range(2))
    assert (a == b).all()


def test_a_reference_is_found_by_id_and_agrees_with_itself():
    scored = many(6)
    rows = reference_table({"grail": scored}, scored[:4], name="oar_p", draws=20, seed=0)
    assert rows[0]["spearman"] == pytest.approx(1) and rows[0]["rollouts"] == 4


def test_the_random_model_has_other_weights_and_leaves_the_random_state_alone(model):
    import torch

    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    a, b = random_model(model, 5), random_model(model, 5)
    assert (torch.random.get_rng_state() == before).all()
    mine, theirs = (m.get_input_embeddings().weight for m in (a, b))
    assert (mine == theirs).all() and not torch.equal(mine, model.get_input_embeddings().weight)
