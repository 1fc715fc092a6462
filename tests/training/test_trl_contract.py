"""The contract with TRL's loss: advantages of shape (B, T) weigh tokens, and ones are plain GRPO bit for bit.

Fails when a new TRL treats (B, T) advantages otherwise than 1.16 does, or has a loss type that is not
compared here.
"""

import inspect
import math
import re
import warnings
from collections import defaultdict

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from grail_cli.credit import token_advantages
from grail_cli.training.data import OURS, RESERVED

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")
B, T, P = 4, 7, 3


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, "<pad>")),
        pad_token="<pad>",
        eos_token="<eos>",
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            max_position_embeddings=64,
            initializer_range=0.3,
        )
    )
    args = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")),
        per_device_train_batch_size=B,
        num_generations=B,
        max_completion_length=T,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
    )
    trainer = GRPOTrainer(model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=args,
                          train_dataset=Dataset.from_list([{"prompt": "x"}]), processing_class=tokenizer)
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def batch(trainer) -> dict:
    """A batch whose policy has moved since it was sampled, so that ratios differ from 1 and some are clipped.
    """
    draw = torch.Generator().manual_seed(1)
    mask = torch.ones(B, T, dtype=torch.long)
    mask[1, 4:], mask[3] = 0, 0  # one short completion, one masked as a whole
    inputs = {
        "prompt_ids": torch.randint(2, 32, (B, P), generator=draw),
        "prompt_mask": torch.ones(B, P, dtype=torch.long),
        "completion_ids": torch.randint(2, 32, (B, T), generator=draw),
        "completion_mask": mask,
        "advantages": torch.tensor([0.75, -0.6, -1.3, 0.4]),
        "num_items_in_batch": mask.sum(),
    }
    with torch.no_grad():
        now, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
            torch.cat([inputs["prompt_mask"], mask], 1), T)
    return {**inputs, "old_per_token_logps": now + 0.3 * torch.randn(B, T, generator=draw),
            "ref_per_token_logps": now + 0.2 * torch.randn(B, T, generator=draw)}


def loss_and_gradients(trainer, inputs):
    trainer.model.train()
    trainer._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, inputs)
    loss.backward()
    return [loss.detach(), *(parameter.grad.clone() for parameter in trainer.model.parameters())]


def test_every_loss_type_of_trl_is_compared():
    source = inspect.getsource(GRPOTrainer._compute_loss)
    named = set()
    for found in re.findall(r'self\.loss_type (?:==|!=|in) (\[[^\]]*\]|"\w+")', source):
        named |= set(re.findall(r'"(\w+)"', found))
    assert named == set(LOSS_TYPES)


OPTIONS = {
    "as it is": {},
    "kl": {"beta": 0.1},
    "two-sided clip": {"args.delta": 1.3},
    "off-policy mask": {"off_policy_mask_threshold": 0.05},
    "high-entropy tokens": {"top_entropy_quantile": 0.5},
    "sampler ratio by token": {
        "use_vllm": True,
        "vllm_importance_sampling_correction": True,
        "ratio": (B, T),
    },
    "sampler ratio by sequence": {
        "use_vllm": True,
        "vllm_importance_sampling_correction": True,
        "ratio": (B, 1),
    },
}


def prepared(base, monkeypatch, loss_type, level, options):
    inputs = batch(base)
    monkeypatch.setattr(base, "loss_type", loss_type)
    monkeypatch.setattr(base, "importance_sampling_level", level)
    for name, value in options.items():
        if name == "ratio":
            inputs["importance_sampling_ratio"] = (
                torch.rand(value, generator=torch.Generator().manual_seed(2)) + 0.5
            )
        else:
            monkeypatch.setattr(
                base.args if name.startswith("args.") else base, name.removeprefix("args."), value
            )
    return inputs


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_weights_of_one_are_plain_grpo_bit_for_bit(base, monkeypatch, loss_type, level, option):
    inputs = prepared(base, monkeypatch, loss_type, level, OPTIONS[option])
    mask = inputs["completion_mask"]
    plain = loss_and_gradients(base, inputs)
    assert plain[0] != 0
    uniform = token_advantages(inputs["advantages"], mask.float(), mask)  # padding weighs 0
    for a, b in zip(plain, loss_and_gradients(base, {**inputs, "advantages": uniform})):
        assert torch.equal(a, b)
    # the path of weights that are not all 1: equal to the bit by token, to rounding where a ratio is one a
    # sequence
    product = inputs["advantages"][:, None] * mask
    for a, b in zip(plain, loss_and_gradients(base, {**inputs, "advantages": product})):
        assert torch.equal(a, b) if level == "token" else torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_one_weight_that_is_not_one_takes_the_path_of_tokens():
    advantages, mask = torch.tensor([0.5, -1.0]), torch.tensor([[1, 1, 0], [1, 1, 1]])
    weights = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 2.0]])
    assert token_advantages(advantages, weights, mask).tolist() == [[0.5, 0.5, 0.0], [-1.0, -1.0, -2.0]]
    assert token_advantages(advantages, mask.float(), mask) is advantages


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo"])
def test_a_token_weight_scales_the_clipped_term_of_its_token_alone(base, monkeypatch, loss_type):
    inputs = prepared(base, monkeypatch, loss_type, "token", {"beta": 0.0})
    weights = torch.rand(B, T, generator=torch.Generator().manual_seed(3)) * 3
    advantages = inputs["advantages"][:, None] * weights
    logps = inputs["old_per_token_logps"] + 0.3 * torch.randn(
        B, T, generator=torch.Generator().manual_seed(4)
    )
    logps.requires_grad_()
    monkeypatch.setattr(
        base, "_get_per_token_logps_and_entropies", lambda *a, **k: (logps, torch.zeros(B, T), None)
    )
    base._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    base.model.train()
    loss = base._compute_loss(base.model, {**inputs, "advantages": advantages})
    loss.backward()

    mask = inputs["completion_mask"]
    ratio = (logps - inputs["old_per_token_logps"]).exp().detach()
    a = inputs["advantages"][:, None]
    clipped = torch.where(a > 0, ratio > 1 + base.epsilon_high, ratio < 1 - base.epsilon_low)
    share = {"grpo": mask / mask.sum(1, keepdim=True).clamp(min=1) / B, "bnpo": mask / mask.sum(),
             "dr_grpo": mask / (B * T), "dapo": mask / inputs["num_items_in_batch"]}[loss_type]
    by_hand = -a * weights * ratio * ~clipped * share  # d loss / d logp
    assert clipped.any() and not clipped.all()
    assert torch.allclose(logps.grad, by_hand, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("scale, expected", [
    ("none", [0.5, -0.5, 0.0, 0.0]),
    ("group", [0.5 / (0.5**0.5 + 1e-4), -0.5 / (0.5**0.5 + 1e-4), 0.0, 0.0]),
])
def test_a_reward_of_none_is_out_of_the_mean_and_gets_no_advantage(base, monkeypatch, scale, expected):
    """`rewards.py` says None for what cannot be graded: two of four rollouts here, beside one right and one wrong."""
    given = [1.0, 0.0, None, None]
    generated = iter([[[5, 6, 1], [7, 1], [8, 1], [9, 1]], [[5, 1]] * 4])
    monkeypatch.setattr(base, "reward_funcs", [lambda completions, **_: given])
    monkeypatch.setattr(base, "_generate_single_turn", lambda *a, **k: (next(generated), None))
    monkeypatch.setattr(base, "_tokenize_prompts", lambda prompts: ([[2, 3]] * len(prompts), None, {}))
    monkeypatch.setattr(base, "scale_rewards", scale)
    base.model.train()
    base._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    found = base._generate_and_score_completions([{"prompt": "x"}] * B)
    assert found["advantages"].tolist() == pytest.approx(expected)
    assert base._metrics["train"]["reward"] == [0.5]
    given = [None] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = base._generate_and_score_completions([{"prompt": "x"}] * B)
    assert found["advantages"].tolist() == [0.0] * 4
    assert math.isnan(base._metrics["train"]["reward"][1])  # `log()` leaves it out


def test_no_column_of_the_data_can_take_the_place_of_what_trl_hands_a_reward():
    source = inspect.getsource(GRPOTrainer._calculate_rewards)
    own = set(re.findall(r'reward_kwargs\["(\w+)"\]', source)) | set(re.findall(r"(\w+)=\w+, ", re.findall(
        r"reward_func\(\s*(prompts=.*?)\*\*reward_kwargs", source, re.S)[0]))
    assert {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"} <= own
    assert own <= {*RESERVED, *OURS}


def test_a_batch_that_is_masked_as_a_whole_has_a_finite_zero_loss(base):
    inputs = batch(base)
    inputs["completion_mask"] = torch.zeros_like(inputs["completion_mask"])
    for advantages in (inputs["advantages"], inputs["advantages"][:, None] * torch.zeros(B, T)):
        found = loss_and_gradients(base, {**inputs, "advantages": advantages})
        assert all(torch.isfinite(value).all() and not value.any() for value in found)
