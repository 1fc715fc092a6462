"""The batch arithmetic, against numbers worked out by hand."""

import pytest

from grail_cli.presets.schema import TrainSection
from grail_cli.training.batches import batch_faults, batch_plan


def section(
    micro, accumulation, generations, iterations=1, steps_per_generation=None, max_steps=100
) -> TrainSection:
    return TrainSection(
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        num_generations=generations,
        num_iterations=iterations,
        steps_per_generation=steps_per_generation,
        max_steps=max_steps,
    )


def test_the_papers_settings_on_four_gpus():
    plan = batch_plan(section(8, 8, 8, iterations=4, max_steps=200), processes=4, problems=103_000)
    assert plan.completions_a_step == 256
    assert plan.prompts_a_generation == 32
    assert plan.updates_a_generation == 4
    assert plan.off_policy
    assert plan.generations == 50
    assert plan.epochs == pytest.approx(50 * 32 / 103_000)
    assert plan.dropped_an_epoch == 103_000 % 32


@pytest.mark.parametrize("micro, accumulation, steps_per_generation, iterations, lives, off_policy", [
    (8, 4, None, 1, 1, False),  # one batch a step
    (8, 4, 2, 1, 0.5, False),  # two batches a step: still on-policy
    (8, 4, 8, 1, 2, True),  # the second half is trained on after an update
    (8, 4, None, 3, 3, True),
])
def test_how_long_a_batch_lives(micro, accumulation, steps_per_generation, iterations, lives, off_policy):
    plan = batch_plan(section(micro, accumulation, 4, iterations, steps_per_generation), processes=1)
    assert (plan.updates_a_generation, plan.off_policy) == (lives, off_policy)


def test_groups_that_do_not_fill_a_batch_are_a_fault_with_values_that_would_work():
    faults = batch_faults(batch_plan(section(6, 1, 8), processes=1))
    assert len(faults) == 1 and "6 x 1 micro-steps x 1 processes = 6" in faults[0].message
    assert "gradient_accumulation_steps to 4" in faults[0].hint  # 24 = 3 groups of 8
    assert not batch_faults(batch_plan(section(6, 4, 8), processes=1))


def test_the_number_of_processes_counts():
    assert batch_faults(batch_plan(section(4, 1, 8), processes=1))
    assert not batch_faults(batch_plan(section(4, 1, 8), processes=2))


def test_too_few_problems_for_one_batch_are_a_fault():
    faults = batch_faults(batch_plan(section(8, 4, 4), processes=1, problems=7))
    assert "7 problems do not fill one generated batch of 8 prompts" in faults[0].message


def test_the_sentence_names_what_a_reader_checks():
    text = batch_plan(section(8, 2, 4, iterations=2, max_steps=6), processes=2, problems=20).sentence()
    assert "8 completions x 2 micro-steps x 2 processes = 32 completions" in text
    assert "8 prompts x 4 = 32 rollouts, used for 2 optimiser steps (off-policy)" in text
    assert "(4 left out each pass)" in text
