"""A small random model with a byte tokenizer, saved as a checkpoint folder, for tests that score."""

import pytest


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A 2-layer Qwen3 of 0.05 M parameters with one token a byte."""
    return make_checkpoint(tmp_path_factory.mktemp("model") / "checkpoint-1", seed=0)


def make_checkpoint(folder, *, seed, extra_tokens=()):
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate(["<|end|>", "<|pad|>", *extra_tokens, *alphabet])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|pad|>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, max_position_embeddings=512, tie_word_embeddings=True,
            initializer_range=0.3, eos_token_id=0, pad_token_id=1))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(checkpoint):
    from grail_cli.models import load_tokenizer

    return load_tokenizer(str(checkpoint))


@pytest.fixture
def encode(tokenizer):
    """Text to ids, with an end token when asked."""
    return lambda text, end=False: tokenizer(text, add_special_tokens=False)["input_ids"] + [0] * end
