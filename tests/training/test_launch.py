"""How processes are started: commands, configuration, SLURM and torchrun, without starting any."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from grail_cli.console import Console
from grail_cli.errors import GrailError
from grail_cli.presets.load import load_preset
from grail_cli.training import launch as launches
from grail_cli.training.config import deepspeed_config, grpo_arguments
from grail_cli.training.launch import accelerate_config, command, environment
from grail_cli.training.layout import fit_to_environment
from grail_cli.training.live import LiveView
from grail_cli.training.preview import launch_command, sbatch

GOLDEN = Path(__file__).parent / "golden"


def test_the_sbatch_script_is_as_agreed():
    resolved = load_preset(
        "qwen3-grail", sets=["credit.std=0.7", "launch.machines=2", "launch.main_port=29511"]
    )
    assert sbatch(resolved, Path("runs/big"), preset_as_given="qwen3-grail") == (GOLDEN / "qwen3-grail.sbatch").read_text()


@pytest.mark.parametrize("preset, config, words", [
    ("my presets/mine.yaml", None, "--preset 'my presets/mine.yaml' --out"),
    ("qwen3-grail", "over.yaml", "--preset qwen3-grail --config over.yaml --out"),
    (None, "flat.yaml", "train --config flat.yaml --out"),
    (None, None, "--preset runs/big/preset.yaml --out"),  # of `--resume RUN`
])
def test_the_script_names_the_files_that_the_command_was_given(preset, config, words):
    script = sbatch(load_preset("qwen3-grail"), Path("runs/big"), preset_as_given=preset, config=config)
    assert words in script


def test_the_command_of_a_machine_of_two_is_as_agreed():
    resolved = load_preset(
        "qwen3-grail",
        sets=["launch.machines=2", "launch.rank=1", "launch.main_address=10.0.0.1", "launch.main_port=29511"],
    )
    config = accelerate_config(resolved.preset, 29511)
    assert yaml.safe_dump(config, sort_keys=False) == (GOLDEN / "machine-1-of-2.yaml").read_text()
    assert launch_command(resolved, Path("runs/big")) == [
        "accelerate",
        "launch",
        "--config_file",
        "runs/big/logs/attempt-1/accelerate.yaml",
        "-m",
        "grail_cli.training.rank",
        "runs/big",
        "runs/big/logs/attempt-1",
    ]


def test_a_hostile_default_config_cannot_leak_in(tmp_path, monkeypatch):
    """accelerate reads the file named on its command line and no other; what it is told is complete."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (tmp_path / "accelerate").mkdir()
    (tmp_path / "accelerate" / "default_config.yaml").write_text(
        "num_processes: 8\nmixed_precision: fp16\ngpu_ids: '7'\n"
    )
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    preset = load_preset("qwen3-grail").preset
    path = tmp_path / "ours.yaml"
    path.write_text(yaml.safe_dump(accelerate_config(preset, 29600)))
    line = command(Path("run"), tmp_path)
    line[line.index("--config_file") + 1] = str(path)
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(line[2:]))
    assert (args.num_processes, args.mixed_precision, args.gpu_ids, args.multi_gpu) == (4, "no", "all", True)
    assert (args.main_process_port, args.num_machines) == (29600, 1)


def test_gpus_are_passed_on_untouched_and_threads_are_shared(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    preset = load_preset(None, sets=["launch.gpus=GPU-1a2b, GPU-3c4d", "launch.processes=2"]).preset
    env = environment(preset)
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-1a2b,GPU-3c4d" and int(env["OMP_NUM_THREADS"]) >= 1


def test_torchrun_sets_the_number_of_processes():
    resolved = fit_to_environment(
        load_preset(None), {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    )
    assert (resolved.preset.launch.processes, resolved.preset.launch.machines) == (4, 2)
    assert resolved.origins["launch.processes"] == "torchrun environment"


def test_nobody_would_start_the_runs_server_under_torchrun():
    with pytest.raises(GrailError, match="started by grail's own launcher"):
        fit_to_environment(
            load_preset(None, sets=["train.sampler=vllm_server"]), {"RANK": "0", "WORLD_SIZE": "2"}
        )


def test_a_second_machine_forgets_the_faults_of_its_earlier_attempt(tmp_path, monkeypatch):
    logs = tmp_path / "run" / "logs" / "machine-1"
    logs.mkdir(parents=True)
    (logs / "rank-1.error.json").write_text('{"rank": 1, "time": 0, "kind": "x", "message": "old", "hint": ""}')
    os.utime(logs / "rank-1.error.json", (0, 0))
    popen = subprocess.Popen
    monkeypatch.setattr(
        launches.subprocess, "Popen",
        lambda argv, **options: popen([sys.executable, "-c", "import time; time.sleep(1)"], start_new_session=True),
    )
    preset = load_preset(None, sets=["launch.machines=2", "launch.rank=1", "launch.main_port=29511"]).preset
    result = launches.launch(tmp_path / "run", preset, checkpoint=None, out=Console(quiet=True),
                             view=LiveView(1, quiet=True))
    assert result.outcome == "done" and not (logs / "rank-1.error.json").exists()


def test_slurm_with_one_task_a_node_gives_each_machine_its_rank():
    env = {"SLURM_NNODES": "2", "SLURM_NTASKS": "2", "SLURM_NODEID": "1", "MASTER_ADDR": "node-a"}
    launch = fit_to_environment(load_preset(None), env).preset.launch
    assert (launch.machines, launch.rank, launch.main_address, launch.main_port) == (2, 1, "node-a", 29500)
    assert (
        fit_to_environment(
            load_preset(None), {"SLURM_NNODES": "1", "SLURM_NTASKS": "1"}
        ).preset.launch.machines
        == 1
    )
    with pytest.raises(GrailError, match="SLURM has given 2 nodes"):
        fit_to_environment(load_preset(None, sets=["launch.machines=3"]), env)
    with pytest.raises(GrailError, match="127.0.0.1"):
        fit_to_environment(
            load_preset(None), {key: value for key, value in env.items() if key != "MASTER_ADDR"}
        )


@pytest.mark.parametrize(
    "stage, offload, keys",
    [
        (2, "none", {"stage"}),
        (2, "optimizer", {"offload_optimizer"}),
        (3, "all", {"offload_optimizer", "offload_param"}),
    ],
)
def test_zero_stages_and_offload(stage, offload, keys):
    zero = deepspeed_config(
        load_preset(None, sets=[f"launch.zero={stage}", f"launch.offload={offload}"]).preset
    )["zero_optimization"]
    assert keys <= set(zero) and zero["stage"] == stage
    assert ("offload_param" in zero) == (offload == "all")


def test_every_field_of_the_train_section_reaches_trl_or_is_ours():
    from trl import GRPOConfig

    preset = load_preset("tiny-grail").preset
    arguments = grpo_arguments(preset, Path("run"), cuda=False, bf16_works=False)
    known = set(GRPOConfig.__dataclass_fields__)
    assert set(arguments) <= known, set(arguments) - known
    assert (
        arguments["loss_type"] == "dr_grpo"
        and arguments["logging_steps"] == 1
        and arguments["report_to"] == "none"
    )
