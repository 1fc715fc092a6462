"""Sampling in this process: equal to transformers' own decoding, one generator a sample, whatever the batch."""

import pytest
import torch
from scipy import stats
from transformers import Qwen3Config, Qwen3ForCausalLM

from grail_cli.evaluation.backend import Request, Sampling
from grail_cli.evaluation.transformers_backend import TransformersBackend, batches, choose

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, max_new_tokens=12)
WARM = Sampling(temperature=1.0, top_p=0.95, top_k=20, min_p=0.0, max_new_tokens=12)


class Letters:
    """The least that the backend asks of a tokenizer."""

    pad_token_id = eos_token_id = 0

    def decode(self, ids, skip_special_tokens=True):
        return " ".join(str(i) for i in ids if i != 0)


@pytest.fixture(scope="module")
def model():
    generator = torch.Generator().manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=60,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=128,
        )
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    model.generation_config.eos_token_id = [0, 7]
    return model


def requests(n: int = 1) -> list[Request]:
    return [Request(f"p{i}", 0, n, 1000 * i, [], [3 + i, 5, 9][: 1 + i % 3] + [11] * i) for i in range(6)]


def test_greedy_samples_are_those_of_generate(model):
    found = {f.problem_id: f for f in TransformersBackend(model, Letters(), GREEDY, 4).generate(requests())}
    for request in requests():
        expected = model.generate(
            torch.tensor([request.prompt_ids]), do_sample=False, max_new_tokens=12, pad_token_id=0
        )[0, len(request.prompt_ids) :].tolist()
        assert found[request.problem_id].completion_ids == expected
        assert found[request.problem_id].finish_reason == ("stop" if expected[-1] in (0, 7) else "length")


def test_a_sample_depends_on_its_seed_and_not_on_its_batch(model):
    def run(size: int, asked) -> dict:
        return {
            (f.problem_id, f.sample): f.completion_ids
            for f in TransformersBackend(model, Letters(), WARM, size).generate(asked)
        }

    together, alone, reversed_ = run(6, requests(3)), run(1, requests(3)), run(4, requests(3)[::-1])
    assert together == alone == reversed_
    assert len(set(map(tuple, together.values()))) > 12


def test_batches_are_settled_by_all_requests_so_that_a_resume_repeats_them(model):
    backend = TransformersBackend(model, Letters(), WARM, 4)
    whole = {(f.problem_id, f.sample): f for f in backend.generate(requests(2))}
    done = set(list(whole)[:5])
    rest = {(f.problem_id, f.sample): f for f in backend.generate(requests(2), done)}
    assert rest == {key: value for key, value in whole.items() if key not in done}


def test_batches_go_by_sample_index_and_then_by_length():
    planned = batches(requests(2), 4)
    assert [len(batch) for batch in planned] == [4, 2, 4, 2]
    assert [sample for batch in planned for _, sample in batch] == [0] * 6 + [1] * 6
    lengths = [len(request.prompt_ids) for request, _ in planned[0] + planned[1]]
    assert lengths == sorted(lengths)


def test_the_global_generator_is_left_alone(model):
    state = torch.get_rng_state()
    list(TransformersBackend(model, Letters(), WARM, 4).generate(requests()))
    assert torch.equal(torch.get_rng_state(), state)


def test_chosen_tokens_follow_the_truncated_distribution():
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0, -3.0]])
    draws = [(i + 0.5) / 6000 for i in range(6000)]
    tokens = choose(logits.expand(6000, -1), draws, Sampling(0.8, 0.9, 5, 0.05, 1))
    chances = torch.softmax(logits[0, :5] / 0.8, 0)
    kept = chances * ((chances.cumsum(0) - chances) < 0.9)
    kept = torch.where(kept / kept.sum() >= 0.05 * (kept / kept.sum()).max(), kept, 0)
    expected = (kept / kept.sum()).tolist()
    counts = [tokens.count(i) for i in range(6)]
    assert counts[5] == 0
    shown = [i for i in range(5) if expected[i] > 0]
    assert sum(counts[i] for i in shown) == 6000
    assert stats.chisquare([counts[i] for i in shown], [6000 * expected[i] for i in shown]).pvalue > 0.99


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0, 1e-6, 0, 0.0, 1),
        Sampling(1.0, 1.0, 1, 0.0, 1),
        Sampling(1.0, 1.0, 0, 1.0, 1),
        Sampling(0.0, 1.0, 0, 0.0, 1),
    ],
)
def test_every_limit_at_its_end_is_greedy(sampling):
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(1))
    assert choose(logits, [0.999] * 50, sampling) == logits.argmax(1).tolist()
