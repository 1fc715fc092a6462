"""Rewards: every verdict counted, what cannot be scored is kept out, a user's own function is tried first."""

import threading
from types import SimpleNamespace

import pytest

from grail_cli.errors import GrailError
from grail_cli.evaluation.grade import Grader
from grail_cli.training.rewards import MathReward, OwnReward, own_function, trial_call


class Logged(dict):
    def __call__(self, name, value):
        self[name] = value


def fake_grader(*verdicts):
    return SimpleNamespace(grade=lambda pairs: [SimpleNamespace(verdict=verdict) for verdict in verdicts])


def test_every_verdict_is_counted_and_only_right_and_wrong_are_scored():
    logged = Logged()
    words = ["correct", "wrong", "no_box", "unparseable_gold", "timeout", "error", "correct", "wrong"]
    reward = MathReward(fake_grader(*words))
    scores = reward(
        prompts=[""] * 8, completions=["x"] * 8, gold=["1"] * 8, log_metric=logged, completion_ids=[]
    )
    assert scores == [1.0, 0.0, 0.0, None, None, None, 1.0, 0.0]
    assert logged == {"verdicts/correct": 0.25, "verdicts/wrong": 0.25, "verdicts/no_box": 0.125,
                      "verdicts/unparseable_gold": 0.125, "verdicts/timeout": 0.125, "verdicts/error": 0.125}
    assert reward.last()[3] == (None, "unparseable_gold")


def test_the_reward_works_from_any_thread_and_an_endless_answer_costs_itself_alone():
    answers = [
        r"\boxed{42}",
        r"\boxed{9^{9^{9^9}}}",
        r"\boxed{7}",
        "no box",
        r"\boxed{\boxed{",
        r"\boxed{100000!}",
    ]
    found = []
    with Grader(2, cpu_s=1.0) as grader:
        reward = MathReward(grader)
        thread = threading.Thread(
            target=lambda: found.append(
                reward(
                    prompts=[""] * 6,
                    completions=answers,
                    gold=["42"] * 6,
                    log_metric=Logged(),
                    completion_ids=[],
                )
            )
        )
        thread.start()
        thread.join(60)
        assert (
            found and found[0][0] == 1.0 and found[0][2] == 0.0 and found[0][3] == 0.0 and found[0][4] == 0.0
        )
        assert found[0][1] in (0.0, None) and found[0][5] in (0.0, None)
        assert reward(
            prompts=[""], completions=[r"\boxed{42}"], gold=["42"], log_metric=Logged(), completion_ids=[]
        ) == [1.0]


def test_ctrl_c_is_never_a_wrong_answer():
    def interrupted(pairs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MathReward(SimpleNamespace(grade=interrupted))(
            prompts=[""], completions=["x"], gold=["1"], log_metric=Logged()
        )


def test_an_own_reward_that_is_not_finite_is_unscored_and_counted():
    logged = Logged()
    reward = OwnReward(
        lambda prompts, completions, **columns: [0.5, float("inf"), None, float("nan")], "mine"
    )
    assert reward(prompts=[""] * 4, completions=["x"] * 4, log_metric=logged) == [0.5, None, None, None]
    assert logged == {"verdicts/scored": 0.25, "verdicts/error": 0.75}


def test_an_own_reward_gets_at_training_what_the_trial_call_gave_it_and_no_more():
    def strict(prompts, completions, completion_ids, problem_id, problem, gold):
        return [1.0] * len(completions)

    row = {"problem_id": ["a"], "problem": ["1+1?"], "gold": ["2"]}
    assert OwnReward(strict, "mine")(
        prompts=["1+1?"], completions=["2"], completion_ids=[[5]], **row,
        trainer_state=object(), log_extra=print, log_metric=Logged(),
    ) == [1.0]


def test_an_own_reward_must_answer_once_a_completion():
    with pytest.raises(GrailError, match="returned 1 rewards for 2 completions"):
        OwnReward(lambda prompts, completions, **columns: [0.5], "mine")(
            prompts=["", ""], completions=["x", "y"], log_metric=Logged()
        )


@pytest.mark.parametrize(
    "spec, words",
    [
        ("maths", "neither 'math' nor module:function"),
        ("no_module_here:f", "cannot be imported"),
        ("json:nothing", "has no function 'nothing'"),
    ],
)
def test_a_reward_that_is_not_there_is_said(spec, words):
    with pytest.raises(GrailError, match=words):
        own_function(spec)


def test_the_trial_call_hands_over_the_columns_of_the_data(monkeypatch):
    seen = {}

    def reward(prompts, completions, gold, level, **columns):
        seen.update(gold=gold, level=level)
        return [1.0]

    monkeypatch.setattr("grail_cli.training.rewards.own_function", lambda spec: reward)
    trial_call("mine:reward", {"problem_id": "a", "problem": "1+1?", "gold": "2", "level": 3})
    assert seen == {"gold": ["2"], "level": [3]}
    with pytest.raises(GrailError, match="raised TypeError.*level"):
        trial_call("mine:reward", {"problem_id": "a", "problem": "1+1?", "gold": "2"})
