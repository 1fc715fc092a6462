"""A model's folder is looked at before anything heavy is loaded."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grail_cli.errors import GrailError
from grail_cli.models import check_folder, context_length, device_for, is_adapter, load_model, load_tokenizer, resolve_model


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(resolve_model("tiny"), tmp_path / "model"))


def test_the_tiny_model_is_an_ordinary_checkpoint():
    config = check_folder(resolve_model("tiny"))
    assert config["model_type"] == "qwen3" and context_length(config) >= 128


@pytest.mark.parametrize("name", ["./nothing", "/no/where", "a/b/c", "runs/x/checkpoint-3", "not a name"])
def test_a_path_that_does_not_exist_is_refused_before_any_import(name):
    with pytest.raises(GrailError, match="no such folder"):
        resolve_model(name)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-4B", "gpt2"])
def test_a_hub_id_is_left_alone(name):
    assert resolve_model(name) == name


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "m").write_text("x")
    with pytest.raises(GrailError, match="a file, where a model folder"):
        resolve_model(str(tmp_path / "m"))


@pytest.mark.parametrize("missing, says", [("config.json", "no config.json"), ("tokenizer.json", "no tokenizer"),
                                           ("model.safetensors", "no weights")])
def test_what_is_missing_is_named(folder, missing, says):
    (folder / missing).unlink()
    with pytest.raises(GrailError, match=says):
        check_folder(str(folder))


def test_a_run_folder_points_to_its_checkpoints(tmp_path):
    (tmp_path / "checkpoint-20").mkdir()
    with pytest.raises(GrailError) as caught:
        check_folder(str(tmp_path))
    assert "checkpoint-20" in caught.value.hint


def test_a_torn_config_is_named(folder):
    (folder / "config.json").write_text('{"a":')
    with pytest.raises(GrailError, match="is no JSON document"):
        check_folder(str(folder))


def test_missing_shards_are_named(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}))
    (folder / "m-1.safetensors").write_bytes(b"")
    with pytest.raises(GrailError, match="lacks m-2.safetensors of its 2"):
        check_folder(str(folder))


def test_looking_at_a_folder_needs_no_torch():
    code = ("import sys; from grail_cli.models import check_folder, resolve_model; check_folder(resolve_model('tiny')); "
            "assert not {'torch', 'transformers'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_loaded_model_is_in_eval_mode_and_float32_on_a_cpu():
    import torch

    model = load_model(resolve_model("tiny"), device="cpu")
    assert not model.training and {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_torn_weights_are_a_sentence(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(GrailError, match="cannot be loaded"):
        load_model(str(folder), device="cpu")


def test_a_tokenizer_pads_on_the_left_and_has_a_pad_token():
    tokenizer = load_tokenizer(resolve_model("tiny"))
    assert tokenizer.padding_side == "left" and tokenizer.pad_token_id is not None


def test_lora_adapters_load_on_their_base(tmp_path):
    torch, peft = pytest.importorskip("torch"), pytest.importorskip("peft")
    base = load_model(resolve_model("tiny"), device="cpu")
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        expected = adapted(ids).logits
    adapted.save_pretrained(tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = resolve_model("tiny")
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    assert is_adapter(tmp_path / "adapter")
    check_folder(str(tmp_path / "adapter"))
    merged = load_model(str(tmp_path / "adapter"), device="cpu")
    with torch.no_grad():
        assert torch.allclose(merged(ids).logits, expected, atol=1e-5)
    assert load_tokenizer(str(tmp_path / "adapter")).vocab_size > 0


def test_the_device_comes_with_its_reason():
    device, why = device_for()
    assert device.type in ("cpu", "cuda") and why
    assert device_for("cpu")[1] == "as asked"
