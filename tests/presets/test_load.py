"""A preset resolves in a fixed order, keeps every origin, and reports all its faults at once."""

import pytest
import yaml

from grail_cli.errors import Faults, GrailError
from grail_cli.presets import load_preset, preset_names
from grail_cli.presets.load import dotted_keys
from grail_cli.presets.schema import Preset


def load(name=None, **options):
    return load_preset(name, environment=options.pop("environment", {}), **options)


def faults_of(**options):
    with pytest.raises(GrailError) as caught:
        load(**options)
    return caught.value.line().splitlines()


@pytest.mark.parametrize("name", preset_names())
def test_every_shipped_preset_loads_and_its_output_loads_to_the_same(name, tmp_path):
    resolved = load(name)
    assert resolved.preset.description
    copy = tmp_path / "copy.yaml"
    copy.write_text(resolved.to_yaml(), encoding="utf-8")
    again = load(str(copy))
    assert again.preset.model_dump(exclude={"base"}) == resolved.preset.model_dump(exclude={"base"})


def test_the_paper_models_have_the_settings_of_the_paper():
    models = {"qwen3": "Qwen/Qwen3-4B", "qwen3-8b": "Qwen/Qwen3-8B", "r1-llama-8b": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
              "octothinker-3b": "OctoThinker/OctoThinker-3B-Short-Base",
              "octothinker-8b": "OctoThinker/OctoThinker-8B-Short-Base"}
    for short, path in models.items():
        for suffix, method in (("grpo", "grpo"), ("grail", "grail"), ("oar-g", "oar_g")):
            preset = load(f"{short}-{suffix}").preset
            train = preset.train
            assert (preset.model.path, preset.credit.method) == (path, method)
            assert (train.loss_type, train.beta, train.num_iterations, train.epsilon, train.epsilon_high) \
                == ("dr_grpo", 0, 4, 0.2, 0.28)
            assert (train.scale_rewards, train.mask_truncated_completions) == ("none", True)
            assert (train.temperature, train.top_p, train.top_k, train.num_generations) == (1.0, 1.0, 50, 8)
            assert (train.max_completion_length, train.learning_rate, train.warmup_steps, train.max_steps) \
                == (4096, 1e-6, 20, 200)
            assert (train.per_device_train_batch_size, train.gradient_accumulation_steps, preset.launch.processes,
                    preset.launch.zero) == (8, 8, 4, 2)
            assert (train.seed, train.save_steps, preset.data.thinking) == (42, 50, False)
            assert preset.data.prompt_suffix == r" Please reason step by step, and put your final answer within \boxed{}."


def test_each_layer_overrides_the_one_below_and_leaves_its_origin(tmp_path):
    (tmp_path / "low.yaml").write_text("credit: {std: 0.1, mean: 1.1, w_min: 0.01, w_max: 9}\ntrain: {seed: 1}\n")
    (tmp_path / "mine.yaml").write_text("base: low.yaml\ncredit:\n  mean: 1.2\n  w_min: 0.02\n  w_max: 8\n")
    (tmp_path / "config.yaml").write_text("credit: {w_min: 0.03, w_max: 7}\n")
    resolved = load(str(tmp_path / "mine.yaml"), config_file=str(tmp_path / "config.yaml"), sets=["train.seed=5", "train.seed=6"],
                    environment={"GRAIL_CREDIT__W_MAX": "6", "GRAIL_TRAIN__SEED": "4"}, flags={"train.max_steps": 3, "eval.n": None})
    credit, origins = resolved.preset.credit, resolved.origins
    assert (credit.std, credit.mean, credit.w_min, credit.w_max) == (0.1, 1.2, 0.03, 6)
    assert (resolved.preset.train.seed, resolved.preset.train.max_steps, resolved.preset.eval.n) == (6, 3, 3)
    assert origins["credit.std"].endswith("low.yaml:1:10")
    assert origins["credit.mean"].endswith("mine.yaml:3:3")
    assert origins["credit.w_max"] == "$GRAIL_CREDIT__W_MAX"
    assert (origins["train.seed"], origins["train.max_steps"], origins["eval.n"]) == ("--set", "--max-steps", "default")


def test_all_faults_of_all_kinds_come_in_one_go(tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("credit:\n  stdd: 0.5\n  w_min: 9\ntrain:\n  learning_rate: fast\n  beta: -1\nsever: {port: 1}\n")
    lines = faults_of(name=str(file), sets=["eval.nn=3", "oops"], environment={"GRAIL_TRAIN__SEDE": "1"})
    text = "\n".join(lines)
    assert len(lines) == 8
    assert f"credit.stdd ({file}:2:3): no such key; did you mean 'std'?" in text
    assert f"train.learning_rate ({file}:5:3): 'fast' is no number." in text
    assert "sever" in text and "did you mean 'serve'?" in text
    assert "eval.nn (--set): no such key" in text
    assert "'oops' is not section.key=value" in text
    assert "$GRAIL_TRAIN__SEDE" in text and "GRAIL_TRAIN__SEED" in text
    assert f"train.beta ({file}:6:3): -1.0: input should be greater than or equal to 0." in text
    assert "w_min <= mean <= w_max does not hold: 9.0 <= 1.0 <= 5.0" in text


def test_a_key_of_another_section_is_told_where_it_lives():
    assert "did you mean credit.std?" in faults_of(sets=["train.std=1"])[0]
    assert "did you mean credit.std?" in faults_of(sets=["std=1"])[0]


def test_a_value_may_hold_equal_signs():
    assert load(sets=["data.prompt_suffix= a=b=c"]).preset.data.prompt_suffix == " a=b=c"


def test_falsy_values_override_truthy_ones(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("data: {thinking: true, prompt_suffix: x, chat_template_kwargs: {a: 1}, limit: 4}\n"
                    "train: {beta: 0.5, warmup_steps: 3, report_to: [wandb]}\n")
    preset = load(str(file), sets=["data.thinking=false", "data.prompt_suffix=", "data.chat_template_kwargs={}", "data.limit=null",
                                   "train.beta=0", "train.warmup_steps=0", "train.report_to=[]"]).preset
    assert preset.data.thinking is False and preset.data.prompt_suffix == "" and preset.data.chat_template_kwargs == {}
    assert preset.data.limit is None and preset.train.beta == 0 and preset.train.warmup_steps == 0
    assert preset.train.report_to == []


def test_presets_that_build_on_each_other_in_a_ring_are_refused_with_the_chain(tmp_path):
    (tmp_path / "a.yaml").write_text("base: b.yaml\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")
    assert "a -> b -> a" in faults_of(name=str(tmp_path / "a.yaml"))[0]


def test_an_unknown_preset_names_the_nearest():
    line = faults_of(name="qwen3-grial")[0]
    assert "did you mean 'qwen3-grail'" in line and "grail presets list" in line


@pytest.mark.parametrize("text, says", [("credit: [1", "not YAML"), ("- a\n", "a mapping of sections"), ("credit: 3\n", "section's keys"),
                                        ("train: {seed: 1, seed: 2}\n", "written twice")])
def test_a_file_that_is_no_preset_says_so(tmp_path, text, says):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    line = faults_of(name=str(file))[0]
    assert says in line and str(file) in line


def test_control_characters_in_a_prompt_are_refused():
    assert r"control characters '\x08'" in faults_of(sets=["data.prompt_suffix=within \boxed{}"])[0]


def test_every_field_has_a_description():
    for name, field in Preset.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            for key, sub in field.annotation.model_fields.items():
                assert sub.description, f"{name}.{key}"


def test_dotted_keys_cover_what_is_dumped():
    dumped = Preset().model_dump()
    keys = {f"{section}.{key}" for section, values in dumped.items() if isinstance(values, dict) for key in values}
    assert keys == {key for key in dotted_keys() if "." in key}


def test_a_resolved_preset_is_plain_yaml():
    values = yaml.safe_load(load("tiny-grail" if "tiny-grail" in preset_names() else "qwen3-grail").to_yaml())
    assert values["credit"]["method"] == "grail"


def test_faults_are_faults():
    with pytest.raises(Faults):
        load(sets=["a.b=1", "c.d=2"])
