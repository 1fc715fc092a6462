import math

import numpy as np
import pytest

from grail_cli.analysis.records import Coverage, Rollout, take_coverage
from grail_cli.analysis.score import respread
from grail_cli.analysis.tables import (
    class_table,
    concentration_table,
    signal_table,
    tail_groups,
    tail_lengths,
    token_type_table,
    top_mass,
    weight_quantities,
    weight_table,
)
from grail_cli.credit import CreditSettings

from .made import many, scored


def test_weight_quantities_by_hand():
    found = weight_quantities(np.array([0.5, 0.5, 1.0, 2.0]), 0.5, 2.0)
    assert found["mean"] == 1.0 and found["share at w_min"] == 0.5 and found["share at w_max"] == 0.25
    assert found["effective sample size / n"] == pytest.approx(16 / (4 * 5.5))
    assert found["Gini"] == pytest.approx(sum(abs(a - b) for a in (0.5, 0.5, 1, 2) for b in (0.5, 0.5, 1, 2)) / (2 * 16))
    assert found["p50"] == 0.75 and found["mass of the top 20 %"] == 0.5


def test_top_mass_of_equal_weights_is_the_share_itself():
    assert top_mass(np.ones(50), 0.2) == pytest.approx(0.2)


def test_the_weight_table_leaves_out_rollouts_that_were_not_reweighted():
    rows = weight_table([scored([1.0, 3.0, 1.0]), scored([1.0, 1.0, 1.0], reweighted=False)], w_min=0.5, w_max=5.0,
                        draws=20, seed=0)
    mean = next(r for r in rows if r["sign"] == "all" and r["quantity"] == "mean")
    assert mean["mean"] == 2.0 and mean["rollouts"] == 1 and math.isnan(mean["low"])


def test_a_flat_score_is_flagged():
    flat = scored(np.ones(12), scores=np.exp(np.linspace(-5, -4.9, 12)))
    rows = {r["quantity"]: r["mean"] for r in signal_table([flat], draws=9, seed=0) if r["sign"] == "all"}
    assert rows["share of rollouts with sd of log score < 0.3"] == 1.0


def test_shares_of_score_by_class_add_up_to_one():
    rows = [r for r in concentration_table(many(20), draws=20, seed=0) if r["sign"] == "all"]
    kinds = [r["mean"] for r in rows if r["quantity"].endswith(("newline tokens", "digit tokens", "latex tokens",
             "connective tokens", "word tokens", "punctuation tokens"))]
    assert len(kinds) == 6 and sum(kinds) == pytest.approx(1)


def test_classes_with_few_tokens_are_not_printed():
    assert class_table([scored([1.0] * 5, tokens=["a", "b", "c", "d", "e"])], draws=9, seed=0) == []


def test_token_types_are_ordered_by_mean_weight_with_a_context():
    tokens = ["lo", "hi"] * 25 + ["x"]
    rows = token_type_table([scored([0.5, 2.0] * 25 + [1.0], tokens=tokens)])
    assert [(r["end"], r["token"]) for r in rows] == [("highest", "hi"), ("highest", "lo"), ("lowest", "lo"),
                                                      ("lowest", "hi")]
    assert rows[0]["count"] == 25 and rows[0]["mean_weight"] == 2.0 and "[hi]" in rows[0]["context"]


def test_tail_groups_split_by_the_number_of_tokens_after_the_answer():
    none = scored([1.0, 2.0, 1.0])
    tail = scored([1.0, 3.0, 1.0, 1.0, 1.0], answer=(2,))
    rows = tail_groups([none, tail], {"completion": [none.weights, tail.weights]}, draws=9, seed=0)
    assert [(r["post_tokens"], r["mean"], r["mean_post"]) for r in rows] == [("0", 0.5, 0.0), ("2-4", 1.0, 2.0)]


def test_a_longer_tail_lowers_the_spread_as_the_closed_form_says_and_only_under_completion_statistics():
    generator = np.random.default_rng(0)
    logs = generator.normal(-5, 1, 41)
    one = scored(np.ones(41), scores=np.exp(logs))
    settings = CreditSettings(std=0.1, w_min=0.0, w_max=50.0)
    rows = tail_lengths([one], lambda s, rule: respread(s, settings.model_copy(update={"stats": rule})), draws=0, seed=0)
    found = {(r["post_tokens"], r["stats"]): r["mean"] for r in rows}
    assert len({round(v, 12) for (_, rule), v in found.items() if rule == "reasoning"}) == 1
    for k in (0, 1, 4, 16, 64):
        x = np.concatenate([np.log(np.exp(logs) + 1e-8), np.full(k, math.log(1e-8))])
        assert found[str(k), "completion"] == pytest.approx(0.1 * x[:40].std() / math.sqrt(x.var() + 1e-8), rel=1e-6)


def test_tables_do_not_depend_on_the_order_of_rollouts():
    rollouts = many(20)
    for table in (lambda s: weight_table(s, w_min=0.5, w_max=5.0, draws=0, seed=0),
                  lambda s: concentration_table(s, draws=0, seed=0), lambda s: class_table(s, draws=0, seed=0)):
        for one, other in zip(table(rollouts), table(rollouts[::-1]), strict=True):
            assert one["mean"] == pytest.approx(other["mean"], rel=1e-12) and one["rollouts"] == other["rollouts"]


def test_coverage_adds_up_and_names_the_causes():
    faulty = [Rollout("bad", fault="id outside the vocabulary: 999 of 384"), Rollout("void", fault="empty completion")]
    seen = take_coverage([scored([1.0, 1.0]), scored([1.0] * 4, answer=(), name="open"),
                          scored([1.0, 1.0], answer=(0, 1), name="now")], faulty)
    assert seen.read == 5 == seen.usable + sum(seen.left_out.values())
    assert seen.left_out == {"id outside the vocabulary": 1, "empty completion": 1, "no complete box": 1,
                             "answer at the first token, no reasoning": 1}
    assert any("999" in line for line in seen.sentences())
    assert Coverage.from_dict(seen.as_dict()) == seen
