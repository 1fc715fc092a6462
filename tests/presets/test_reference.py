"""The reference's flat YAML files load unchanged, and keys without effect are named."""

import pytest

from grail_cli.errors import GrailError
from grail_cli.presets import load_preset

FLAT = """
model_name_or_path: Qwen/Qwen3-4B # change this
model_revision: main
dtype: bfloat16
attn_implementation: flash_attention_2
dataset_mixer:
  "trl-lib/DeepMath-103K": 1.0
dataset_splits: [train, test]
output_dir: ./models/run1
report_to:
  - wandb
save_only_model: true
save_total_limit: 2
max_steps: 200
learning_rate: 1.0e-06
lr_scheduler_type: constant
beta: 0
num_iterations: 4
epsilon_high: 0.28
scale_rewards: false
loss_type: "dr_grpo"
use_liger_kernel: false
use_grail: true
grail_std: 0.7
grail_leaf_source: "middle"
grail_rollout_symmetry: "wrong"
max_completion_length: 4096
top_k: 50
use_vllm: True
vllm_gpu_memory_utilization: 0.2
chat_template_kwargs:
  enable_thinking: false
"""


def load(tmp_path, text):
    file = tmp_path / "flat.yaml"
    file.write_text(text)
    return load_preset(None, config_file=str(file), environment={})


def test_a_flat_file_becomes_a_preset(tmp_path):
    resolved = load(tmp_path, FLAT)
    preset = resolved.preset
    assert (preset.model.path, preset.model.dtype, preset.data.train, preset.data.split) \
        == ("Qwen/Qwen3-4B", "bfloat16", "trl-lib/DeepMath-103K", "train")
    assert (preset.credit.method, preset.credit.std, preset.credit.leaf, preset.credit.rollouts) == ("grail", 0.7, "middle", "wrong")
    assert (preset.train.sampler, preset.train.scale_rewards, preset.train.learning_rate, preset.train.keep_last) \
        == ("vllm_colocate", "none", 1e-6, 2)
    assert preset.train.report_to == ["wandb"] and preset.data.thinking is False


def test_keys_that_the_file_leaves_out_have_the_defaults_of_the_reference(tmp_path):
    resolved = load(tmp_path, "use_grail: true\ngrail_std: 0.5\nmodel_name_or_path: Qwen/Qwen3-4B\n")
    assert (resolved.preset.credit.w_min, resolved.preset.credit.rollouts, resolved.preset.train.num_iterations) == (0.1, "all", 1)
    assert resolved.origins["credit.w_min"] == "default of the reference"


def test_keys_without_effect_are_named_with_the_reason(tmp_path):
    notes = "\n".join(load(tmp_path, FLAT).notes)
    assert "output_dir" in notes and "--out" in notes and "save_only_model" in notes


@pytest.mark.parametrize("line, says", [
    ("use_oar_g: true", "both on"), ("grail_stdd: 1", "did you mean 'grail_std'"), ("use_liger_kernel: true", "ignore token weights"),
    ("grail_rollout_symmetry: sideways", "not one of: wrong, correct, all, both"), ("scale_rewards: maybe", "not one of"),
    ('dataset_mixer: {a/b: 1, c/d: 1}', "2 data sets"), ("learning_rte: 1e-6", "did you mean 'learning_rate'")])
def test_what_cannot_be_is_refused(tmp_path, line, says):
    key = line.split(":")[0]
    kept = [row for row in FLAT.splitlines() if not row.startswith(key + ":")]
    text = "\n".join(kept).replace('\n  "trl-lib/DeepMath-103K": 1.0', "") if key == "dataset_mixer" else "\n".join(kept)
    with pytest.raises(GrailError) as caught:
        load(tmp_path, text + "\n" + line + "\n")
    assert says in caught.value.line()


@pytest.mark.parametrize("std", ["", "grail_std: null\n"])
def test_grail_without_its_spread_is_refused(tmp_path, std):
    with pytest.raises(GrailError, match="needs grail_std"):
        load(tmp_path, "use_grail: true\nmodel_name_or_path: Qwen/Qwen3-4B\n" + std)


def test_a_method_is_grpo_unless_one_is_switched_on(tmp_path):
    assert load(tmp_path, "learning_rate: 1e-6\n").preset.credit.method == "grpo"
    assert load(tmp_path, "use_oar_g: true\noar_g_tau: 0.3\n").preset.credit.oar_tau == 0.3
