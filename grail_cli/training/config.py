"""From a preset to TRL's GRPOConfig: one place, every field named, nothing left to a hidden default that matters."""

from pathlib import Path

from ..presets.schema import Preset, TrainSection

# fields of section `train` that are ours; all others carry the name that TRL or transformers gives them
OURS = {
    "reward",
    "reward_strictness",
    "reward_workers",
    "reward_timeout_s",
    "sampler",
    "vllm_server_gpus",
    "keep_last",
    "keep_every",
    "keep_best",
    "on_alarm",
    "alarms",
    "deadlines",
    "bf16",
    "logging_steps",
}


def grpo_arguments(preset: Preset, run: Path, *, cuda: bool, bf16_works: bool, world: int = 1) -> dict:
    """The keyword arguments of GRPOConfig for a run folder.

    cuda, bf16_works: what this machine has. `train.bf16: null` is on where the GPU can. Metrics are logged at
    every step: `metrics.jsonl` has a line a step, and nothing is lost between a log and a checkpoint.
    """
    train = preset.train
    arguments = {name: value for name, value in train.model_dump().items() if name not in OURS}
    arguments |= {
        "output_dir": str(run),
        "bf16": train.bf16 if train.bf16 is not None else cuda and bf16_works,
        "use_cpu": not cuda,
        "shuffle_dataset": preset.data.shuffle,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if train.gradient_checkpointing else None,
        "chat_template_kwargs": {},
        "logging_steps": 1,
        # a loss that is not finite is a fault, never an average of earlier ones
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "eval_strategy": "no",
        "remove_unused_columns": False,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": cuda,
        "disable_tqdm": True,
        "log_completions": False,
        "report_to": train.report_to or "none",
        "run_name": run.name,
        "ddp_timeout": int(preset.launch.timeout_s),
        "use_vllm": train.sampler != "hf",
        "vllm_mode": "server" if train.sampler == "vllm_server" else "colocate",
    }
    if world > 1:
        arguments["ddp_find_unused_parameters"] = False
        arguments["ddp_backend"] = "nccl" if cuda else "gloo"
    if preset.launch.zero:
        arguments["deepspeed"] = deepspeed_config(preset)
    return arguments


def deepspeed_config(preset: Preset) -> dict:
    """The DeepSpeed configuration of `launch.zero` and `launch.offload`; transformers fills in what it says
    as auto.
    """
    stage, offload = preset.launch.zero, preset.launch.offload
    zero: dict = {"stage": stage, "overlap_comm": False, "contiguous_gradients": True}
    if offload in ("optimizer", "all"):
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if stage == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
        if offload == "all":
            zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return {
        "zero_optimization": zero,
        "bf16": {"enabled": "auto"},
        "gradient_clipping": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "zero_force_ds_cpu_optimizer": False,
    }


def processes(preset: Preset) -> int:
    """Training processes over all machines."""
    return preset.launch.processes * preset.launch.machines


def sampling_of(train: TrainSection) -> dict:
    """How rollouts are sampled, for the stamp of a checkpoint."""
    return {name: getattr(train, name) for name in
            ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_completion_length")}
