"""The tiny model's parts behave as Qwen3's do."""

from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from grail_cli.tiny.build import build_model, build_tokenizer  # noqa: E402
from grail_cli.tiny.task import suite_rows  # noqa: E402


@lru_cache
def built():
    return build_tokenizer()


@pytest.fixture
def tokenizer():
    return built()


def test_the_tokenizer_is_always_the_same(tokenizer):
    assert build_tokenizer().backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_comes_back_whole(text):
    tokenizer = built()
    if not any(mark in text for mark in tokenizer.all_special_tokens):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids) == text


def test_digits_are_single_tokens_and_the_box_is_few(tokenizer):
    assert tokenizer.tokenize("12*3=36") == ["1", "2", "*", "3", "=", "3", "6"]
    assert tokenizer.tokenize("\n\\boxed{36}") == ["Ċ", "\\boxed", "{", "3", "6", "}"]


def test_turns_end_and_padding_are_qwens(tokenizer):
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert len(tokenizer) <= 600
    turn = [{"role": "user", "content": "1+1"}]
    text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>user\n1+1<|im_end|>\n<|im_start|>assistant\n"
    without = tokenizer.apply_chat_template(turn, tokenize=False)
    assert text.startswith(without) and without.endswith("<|im_end|>\n")


def test_prompts_are_short(tokenizer):
    for row in suite_rows("arith-hard"):
        turn = [{"role": "user", "content": row["question"]}]
        ids = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=True, return_dict=False)
        assert len(ids) <= 40


def test_the_model_is_a_small_qwen3_that_every_engine_can_run(tokenizer):
    model = build_model(tokenizer, seed=0)
    assert model.config.model_type == "qwen3"
    assert model.config.head_dim in (32, 64, 80, 96, 112, 128, 192, 256)
    assert 0.5e6 < sum(p.numel() for p in model.parameters()) < 1e6
    assert model.config.vocab_size >= len(tokenizer)
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert model.config.pad_token_id == tokenizer.pad_token_id


def test_the_seed_decides_the_weights_and_the_global_generator_is_left_alone(tokenizer):
    before = torch.random.get_rng_state()
    one, same, other = (build_model(tokenizer, seed=seed).lm_head.weight for seed in (3, 3, 4))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)
