"""The shipped checkpoint: small, ordinary, and with something to learn."""

import json

import pytest

torch = pytest.importorskip("torch")

from grail_cli.credit import TokenBytes, find_regions  # noqa: E402
from grail_cli.models import check_folder, load_model, load_tokenizer, resolve_model  # noqa: E402
from grail_cli.presets import load_preset  # noqa: E402
from grail_cli.prompts import check_stamp, read_stamp  # noqa: E402
from grail_cli.tiny import tiny_model_path  # noqa: E402
from grail_cli.tiny.build import CHAT_TEMPLATE, build_tokenizer  # noqa: E402
from grail_cli.tiny.check import read_steps  # noqa: E402
from grail_cli.tiny.task import parse_question, suite_rows  # noqa: E402


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(resolve_model("tiny"))


def test_the_stamp_asks_the_question_alone(tokenizer):
    stamp = read_stamp(tiny_model_path())
    check_stamp(stamp, tokenizer, where="tiny")  # raises where the example renders to other ids
    question = suite_rows("arith")[0]["question"]
    assert stamp.example_text == f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    assert stamp.settings.suffix == load_preset("tiny-grpo", environment={}).preset.data.prompt_suffix == ""


@pytest.fixture(scope="module")
def sampled(tokenizer):
    """(problem, gold, completion ids, text) of one sample a problem at temperature 1."""
    rows, model = suite_rows("arith"), load_model(resolve_model("tiny"))
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": row["question"]}], tokenize=False,
                                             add_generation_prompt=True) for row in rows]
    batch = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        out = model.generate(**batch, max_new_tokens=64, do_sample=True, temperature=1.0, top_k=0)
    ids = [row[:row.index(tokenizer.eos_token_id) + 1] if tokenizer.eos_token_id in row else row
           for row in out[:, batch.input_ids.shape[1]:].tolist()]
    return [(parse_question(row["question"]), row["answer"], one, tokenizer.decode(one, skip_special_tokens=True))
            for row, one in zip(rows, ids, strict=True)]


def test_the_folder_is_small_and_complete():
    folder = tiny_model_path()
    assert str(folder) == resolve_model("tiny")
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
            "chat_template.jinja"} <= {path.name for path in folder.iterdir()}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4e6
    assert check_folder(str(folder))["architectures"] == ["Qwen3ForCausalLM"]


def test_every_id_that_can_be_drawn_is_a_token(tokenizer):
    config = json.loads((tiny_model_path() / "config.json").read_text())
    assert config["vocab_size"] == len(tokenizer) == len(tokenizer.get_vocab())


def test_the_shipped_tokenizer_is_the_one_that_the_script_builds(tokenizer):
    assert tokenizer.backend_tokenizer.to_str() == build_tokenizer().backend_tokenizer.to_str()
    assert tokenizer.chat_template == CHAT_TEMPLATE
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")


def test_the_start_is_right_about_one_time_in_four(sampled):
    right = sum(text.endswith(f"\\boxed{{{gold}}}") for _, gold, _, text in sampled)
    assert 30 <= right <= 90  # of 200: enough to learn from, room for 15 points and more


def test_nearly_every_completion_ends_with_a_box_within_64_tokens(sampled, tokenizer):
    ended = sum(ids[-1] == tokenizer.eos_token_id and "\\boxed{" in text for _, _, ids, text in sampled)
    assert ended >= 190


def test_both_ways_of_solving_are_in_the_model(sampled):
    kinds = [{step.kind for step in read_steps(problem, text)} for problem, _, _, text in sampled]
    assert sum("shortcut" in kind for kind in kinds) >= 40
    assert sum("shortcut" not in kind for kind in kinds) >= 40


def test_the_answer_is_found_on_the_ids_that_were_sampled(sampled, tokenizer):
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    found = 0
    for _, _, ids, text in sampled:
        regions = find_regions(ids, token_bytes)
        if regions is None:
            continue
        found += 1
        inside = tokenizer.decode([ids[i] for i in regions.content])
        assert f"\\boxed{{{inside}}}" in text
        assert tokenizer.decode([ids[i] for i in regions.answer]) == f"\\boxed{{{inside}}}"
    assert found >= 190


def test_the_tiny_presets_differ_in_the_credit_alone():
    names = ("grpo", "grail", "oar-g")
    presets = {name: load_preset(f"tiny-{name}", environment={}).preset for name in names}
    rest = [preset.model_dump(exclude={"credit", "description", "base"}) for preset in presets.values()]
    assert rest[0] == rest[1] == rest[2]
    assert [preset.credit.method for preset in presets.values()] == ["grpo", "grail", "oar_g"]
    assert presets["grpo"].model.path == "tiny" and presets["grpo"].data.train == "arith"
