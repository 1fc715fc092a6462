"""The tiny model's parts, untrained: a byte-level tokenizer like Qwen's and a Qwen3 of 0.8 M parameters.

Digits are single tokens, any text can be encoded, `<|im_end|>` ends a turn and `<|endoftext|>` pads, so every
path of the toolkit (answer spans on ids, chat template, vLLM) meets what it meets in a real Qwen3.
"""

import random
from typing import TYPE_CHECKING

from .corpus import MIXED, examples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

PAD, TURN, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VOCABULARY = 384
# Qwen's own pieces: digits one by one, a word with the sign or blank before it (`\boxed`), line breaks apart.
PIECES = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
OTHER_WORDS = ("user assistant system "
               "Please reason step by step, and put your final answer within \\boxed{}.\n")
CONTEXT = 512


def build_tokenizer() -> "PreTrainedTokenizerFast":
    """The tokenizer: 256 bytes, the merges that the task's words need, three special tokens."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    pairs = examples(random.Random("tokenizer"), 2000, MIXED)
    text = [f"{question}\n{solution}\n" for question, solution in pairs] + [OTHER_WORDS] * 200
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[PAD, TURN, END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, pad_token=PAD, additional_special_tokens=[TURN],
        chat_template=CHAT_TEMPLATE, model_max_length=CONTEXT, clean_up_tokenization_spaces=False)


def build_model(tokenizer: "PreTrainedTokenizerFast", seed: int) -> "Qwen3ForCausalLM":
    """An untrained Qwen3 in float32, drawn from `seed`; torch's global generator is left as it was."""
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=384, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        max_position_embeddings=CONTEXT, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, dtype="float32")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id)
    return model
