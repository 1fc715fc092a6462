"""A reward that differs within nearly every group, so that small runs have something to learn from."""


def reward(prompts, completions, completion_ids, **columns):
    return [sum(ids) % 5 / 4 for ids in completion_ids]
