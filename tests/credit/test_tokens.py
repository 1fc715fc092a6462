"""Bytes of tokens for every kind of tokenizer in use, and the kinds that are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from grail_cli.credit import CreditError, TokenBytes, find_regions

CORPUS = ["Thus π ≈ 3.14, so the answer is $\\boxed{\\frac{1}{2}}$.", "We add 12 and 34; naïve… ✓ \\boxed{46}",
          "{}\\{}\\}"]


def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE as in Qwen, Llama 3 and SmolLM2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<pad>", "<eos>"])
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("a b é", special=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def sentencepiece(*, strip: bool = True, metaspace: bool = False) -> PreTrainedTokenizerFast:
    """SentencePiece pieces with byte fallback as in Llama 2 and Mistral (strip), Gemma (no strip)."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += ["▁", "▁so", "▁the", "▁answer", "▁is", "so", "\\", "boxed", "{", "}", "}.", "▁\\", "4", "2", "é", ".",
               "▁▁"]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>",
                                     byte_fallback=True, fuse_unk=True))
    if metaspace:
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    else:
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * strip)
    tokenizer.add_special_tokens(["<s>", "</s>", "<unk>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


KINDS = {"byte-level": byte_level(), "llama 2": sentencepiece(), "gemma": sentencepiece(strip=False),
         "metaspace": sentencepiece(metaspace=True)}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_the_bytes_of_any_ids_make_up_the_decoded_text(kind, data):
    tokenizer = KINDS[kind]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) + 3), max_size=30))
    # behind another token, as a completion stands behind its prompt: blanks at the start of a text are the decoder's
    before = tokenizer.convert_tokens_to_ids("4")
    decoded = tokenizer.decode([before, *ids], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert "4" + TokenBytes.from_tokenizer(tokenizer).text(ids) == decoded


def test_special_tokens_and_unknown_ids_add_nothing_and_other_added_tokens_their_text():
    tokenizer = byte_level()
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    assert token_bytes[tokenizer.eos_token_id] == b"" and token_bytes[10**6] == b""
    assert token_bytes[tokenizer.convert_tokens_to_ids("<think>")] == b"<think>"
    assert token_bytes[tokenizer.convert_tokens_to_ids("a b é")] == "a b é".encode()


def test_a_character_split_over_byte_tokens_keeps_its_bytes_apart():
    tokenizer = sentencepiece()
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    ids = tokenizer.convert_tokens_to_ids(["<0xCF>", "<0x80>", "▁answer"])
    assert [token_bytes[i] for i in ids] == [b"\xcf", b"\x80", b" answer"]
    assert token_bytes.text(ids) == "π answer" and token_bytes.text(ids[:1]) == "\ufffd"


def test_bytes_that_are_no_character_open_no_box():
    tokenizer = sentencepiece()
    ids = tokenizer.convert_tokens_to_ids(["<0xFF>", "<0x5C>", "boxed", "{", "4", "}"])  # 0x5C is the backslash
    assert "\\boxed" not in tokenizer.decode(ids)
    assert find_regions(ids, TokenBytes.from_tokenizer(tokenizer)) is None
    assert find_regions(ids[1:], TokenBytes.from_tokenizer(tokenizer)).answer == (0, 1, 2, 3, 4)


def test_the_blank_before_the_first_word_of_a_completion_is_kept():
    tokenizer = sentencepiece()
    assert TokenBytes.from_tokenizer(tokenizer).text(tokenizer.convert_tokens_to_ids(["▁so", "▁the"])) == " so the"


def with_decoder(decoder) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "so": 1, "##me": 2, "a</w>": 3}, unk_token="[UNK]"))
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


@pytest.mark.parametrize("decoder,said", [
    (decoders.WordPiece(), "WordPiece tokenizers are not supported"),
    (None, "no decoder"),
    (decoders.BPEDecoder(suffix="</w>"), "'BPEDecoder' is not understood"),
    (decoders.CTC(), "'CTC' is not understood"),
    (decoders.Sequence([decoders.Replace("▁", " "), decoders.Strip("x", 1, 0)]), "'Strip' is not understood"),
])
def test_decoders_that_would_make_the_bytes_a_guess_are_refused(decoder, said):
    with pytest.raises(CreditError, match=said):
        TokenBytes.from_tokenizer(with_decoder(decoder))


def test_a_tokenizer_without_a_readable_decoder_is_refused():
    class Slow:
        pass

    with pytest.raises(CreditError, match="Slow shows no decoder.*tokenizer.json"):
        TokenBytes.from_tokenizer(Slow())


def test_a_tokenizer_that_decodes_otherwise_than_its_decoder_announces_is_refused(monkeypatch):
    backend = byte_level().backend_tokenizer

    class Odd:
        def __getattr__(self, name):
            return getattr(backend, name)

        def decode(self, ids, skip_special_tokens=True):
            return backend.decode(ids, skip_special_tokens=skip_special_tokens).replace("e", "E")

    with pytest.raises(CreditError, match="token bytes are not known"):
        TokenBytes.from_tokenizer(Odd())


def test_the_reference_tokenizer_is_understood(shared):
    tokenizer = AutoTokenizer.from_pretrained(shared / "vectors" / "model")
    ids = tokenizer("Thus π is \\boxed{4062π}.")["input_ids"]
    assert TokenBytes.from_tokenizer(tokenizer).text(ids) == "Thus π is \\boxed{4062π}."


def test_normalisers_do_not_matter_since_nothing_is_encoded_again():
    tokenizer = byte_level()
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert TokenBytes.from_tokenizer(tokenizer).text(tokenizer.convert_tokens_to_ids(["T", "h"])) == "Th"
