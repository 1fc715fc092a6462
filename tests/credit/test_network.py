"""The policy inside its wrappers, and how it is frozen and put back."""

import pytest
import torch

from grail_cli.credit import CreditError, CreditSettings, compute_credit
from grail_cli.credit.network import decoder_layers, frozen, is_sharded, unwrap

from .helpers import CONFIGS, batch_of, network, random_rollouts

GRAIL = CreditSettings(method="grail", rollouts="all")


def lora(model, **options):
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(len(name)))
    return adapted.train()


def test_lora_counts_and_its_dropout_does_not():
    rows = batch_of(random_rollouts(4))
    adapted = lora(network("qwen3, tied"), lora_dropout=0.5)
    found = compute_credit(adapted, rows, GRAIL, 1.0)
    assert torch.equal(found.scores, compute_credit(adapted, rows, GRAIL, 1.0).scores)
    merged = adapted.merge_and_unload()
    assert torch.allclose(found.scores, compute_credit(merged, rows, GRAIL, 1.0).scores, rtol=1e-4, atol=1e-7)
    assert not torch.allclose(found.scores, compute_credit(network("qwen3, tied"), rows, GRAIL, 1.0).scores, rtol=0.1)


def test_lora_with_input_gradients_and_checkpointing_as_training_sets_it_up():
    rows = batch_of(random_rollouts(3))
    adapted = lora(network("llama, untied"))
    plain = compute_credit(adapted, rows, GRAIL, 1.0)
    adapted.enable_input_require_grads()
    adapted.gradient_checkpointing_enable({"use_reentrant": False})
    for budget in (None, 1):
        assert torch.allclose(plain.scores, compute_credit(adapted, rows, GRAIL, 1.0, budget=budget).scores, rtol=1e-5)
    trainable = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert trainable and all("lora_" in name for name in trainable)


def test_adapters_of_virtual_tokens_are_refused():
    peft = pytest.importorskip("peft")
    prompted = peft.get_peft_model(network(dtype=torch.float32),
                                   peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    with pytest.raises(CreditError, match="virtual tokens"):
        compute_credit(prompted, batch_of(random_rollouts(1)), GRAIL, 1.0)


def test_wrappers_are_taken_off():
    class Engine(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args, **kwargs):
            raise AssertionError("the engine's forward counts steps: it must not run")

    model = network()
    assert unwrap(Engine(Engine(model))) is model and unwrap(torch.compile(Engine(model))) is model
    batch = batch_of(random_rollouts(2))
    assert torch.equal(compute_credit(Engine(model), batch, GRAIL, 1.0).scores, compute_credit(model, batch, GRAIL, 1.0).scores)
    assert not is_sharded(model)


@pytest.mark.parametrize("kind", CONFIGS)
def test_decoder_layers_are_found_whatever_the_body_is_called(kind):
    layers = decoder_layers(network(kind))
    assert len(layers) == 3 and len({type(layer) for layer in layers}) == 1


def test_a_model_without_a_head_is_refused():
    with pytest.raises(CreditError, match="has no output head"):
        compute_credit(network().model, batch_of(random_rollouts(1)), GRAIL, 1.0)


def test_full_precision_switches_off_autocast_around_and_inside_the_model():
    model = network(dtype=torch.float32)
    model._original_forward, model.forward = model.forward, torch.autocast("cpu", torch.bfloat16)(model.forward)
    ids = torch.tensor([[3, 4, 5]])
    with torch.autocast("cpu", torch.bfloat16), frozen(model, checkpointed=False):
        assert model(input_ids=ids).logits.dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16), frozen(model, checkpointed=False, full_precision=True):
        assert model(input_ids=ids).logits.dtype == torch.float32


@pytest.mark.parametrize("method", ["oar_g", "oar_p"])
def test_oar_under_autocast_is_oar_in_float32(method):
    model, batch = network("qwen3, tied", dtype=torch.float32), batch_of(random_rollouts(3))
    settings = CreditSettings(method=method)
    plain = compute_credit(model, batch, settings, 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(plain.scores, compute_credit(model, batch, settings, 1.0).scores)


def test_oar_with_half_precision_weights_says_that_its_scores_are_rounding():
    model, batch = network(dtype=torch.bfloat16), batch_of(random_rollouts(2))
    with pytest.warns(UserWarning, match="load the model in float32"):
        compute_credit(model, batch, CreditSettings(method="oar_g"), 1.0)
