"""The warm start gives the same weights for the same seed, and trains on solutions alone."""

import pytest

torch = pytest.importorskip("torch")

from grail_cli.tiny import tiny_model_path  # noqa: E402
from grail_cli.tiny.build import build_tokenizer  # noqa: E402
from grail_cli.tiny.warmstart import WARMUP, encode, learning_rate, main, warm_start  # noqa: E402


def test_the_loss_is_on_solution_and_end_alone():
    tokenizer = build_tokenizer()
    solution = "1+2=3\n3*3=9\n\\boxed{9}"
    ids, labels = encode(tokenizer, [("Work from left to right: 1+2*3", solution), ("1", "2")])
    counted = [[int(i) for i in row if i != -100] for row in labels]
    assert tokenizer.decode(counted[0]) == solution + "<|im_end|>"
    assert tokenizer.decode(counted[1]) == "2<|im_end|>"
    assert torch.equal(ids[labels != -100], labels[labels != -100])
    assert tokenizer.decode(ids[0]).startswith(
        "<|im_start|>user\nWork from left to right: 1+2*3<|im_end|>\n<|im_start|>assistant\n1+2=3")
    end = ids[1].tolist().index(tokenizer.eos_token_id, labels[1].tolist().index(counted[1][0]))
    assert set(ids[1][end + 1:].tolist()) == {tokenizer.pad_token_id}


def test_the_step_size_rises_holds_and_falls_to_nothing():
    factors = [learning_rate(step, 400) for step in range(401)]
    assert factors[0] == 1 / WARMUP and factors[WARMUP:200] == [1.0] * (200 - WARMUP)
    assert factors[200] == 1.0 and factors[300] == 0.5 and factors[400] == 0.0


def test_a_seed_gives_the_same_weights_twice_and_another_seed_others():
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    one, same, other = (warm_start(seed, steps=4)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["lm_head.weight"], other["lm_head.weight"])
    assert torch.equal(torch.random.get_rng_state(), before) and torch.get_num_threads() == threads


def test_the_loss_falls():
    said = []
    warm_start(0, steps=20, say=said.append)
    assert float(said[-1].split("loss ")[1].split()[0]) < 4.5  # log(384) = 5.95 is chance


def test_the_script_writes_a_folder_like_any_other(tmp_path):
    from grail_cli.models import check_folder, load_model, load_tokenizer

    main(["--out", str(tmp_path / "made"), "--steps", "1"])
    assert check_folder(str(tmp_path / "made"))["model_type"] == "qwen3"
    assert (tmp_path / "made/grail.json").read_text() == (tiny_model_path() / "grail.json").read_text()
    tokenizer, model = load_tokenizer(str(tmp_path / "made")), load_model(str(tmp_path / "made"))
    assert tokenizer.backend_tokenizer.to_str() == build_tokenizer().backend_tokenizer.to_str()
    assert model.lm_head.weight.shape[0] == model.config.vocab_size == len(tokenizer)
    assert model.dtype == torch.float32 and model.generation_config.eos_token_id == tokenizer.eos_token_id
