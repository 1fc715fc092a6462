"""What a preset may say: one typed section a part of the tool, unknown keys refused.

Names in `train` are those of TRL's GRPOConfig, so that a reader of the field knows them. Every field has a description;
`grail presets show` and the completion of `--set` read them here.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..credit.settings import CreditSettings

BOXED_SUFFIX = r" Please reason step by step, and put your final answer within \boxed{}."


# longest time of one go of a training phase, seconds; none of them should ever be met
DEADLINES = {"load": 3600.0, "rollout": 7200.0, "sync": 1800.0, "reward": 1800.0, "credit": 3600.0, "update": 7200.0,
             "save": 3600.0, "end": 1800.0}
ALARMS = {
    "no_signal_batches": 8.0,  # generated batches in a row without one group whose rewards differ
    "truncated_share": 0.95,  # completions without an end token
    "no_answer_share": 0.95,  # completions without a complete box
    "unscored_share": 0.2,  # completions that could not be graded
    "bounds_share": 0.95,  # tokens of reweighted rollouts whose weight is w_min or w_max
    "logp_difference": 0.2,  # mean |log p of sampler - log p of trainer|, with vLLM
    "patience_batches": 4.0,  # batches in a row for truncated, no_answer, bounds and logp_difference
}


class Section(BaseModel):
    """A part of a preset: closed, typed, without NaN or infinity."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_default=True)


def _merged(defaults: dict[str, float], given: dict[str, float]) -> dict[str, float]:
    """The defaults with what is given over them. Raises ValueError for an unknown name or a value that is not positive."""
    for name, value in given.items():
        if name not in defaults:
            raise ValueError(f"{name!r} is unknown; known: {', '.join(defaults)}")
        if value <= 0:
            raise ValueError(f"{name} must be positive, not {value}")
    return {**defaults, **given}


class ModelSection(Section):
    """The policy that is trained, and how its weights are held."""

    path: str = Field("tiny", min_length=1, description="folder, Hugging Face id, or `tiny`")
    revision: str | None = Field(None, description="revision on the Hub; null: main")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="number format of the weights")
    attn_implementation: Literal["eager", "sdpa", "flash_attention_2"] = Field("sdpa", description="attention kernel")
    chat_template: str | None = Field(
        None, description="Jinja file (or a shipped template's name) for a model without a chat template")
    trust_remote_code: bool = Field(False, description="run code that comes with the model")
    lora_rank: int = Field(0, ge=0, description="rank of LoRA adapters; 0 trains all weights")
    lora_alpha: int = Field(16, gt=0, description="LoRA scale")
    lora_dropout: float = Field(0.0, ge=0, lt=1, description="LoRA dropout")
    lora_target_modules: list[str] | Literal["all-linear"] = Field("all-linear", description="layers with an adapter")


class DataSection(Section):
    """The problems that are trained on, and how a prompt is written."""

    train: str = Field("arith", min_length=1, description="Hugging Face data set, .jsonl/.parquet file, or `arith`")
    config: str | None = Field(None, description="configuration of the Hub data set")
    split: str = Field("train", description="split of the data set")
    revision: str | None = Field(None, description="revision of the Hub data set")
    prompt_column: str = Field("prompt", description="column with the problem: text or chat messages")
    answer_column: str = Field("solution", description="column with the gold answer")
    prompt_suffix: str = Field(BOXED_SUFFIX, description="added to the user turn")
    system_prompt: str | None = Field(None, description="system turn before the problem")
    thinking: bool = Field(False, description="thinking switch of the chat template (enable_thinking)")
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict, description="more arguments of the chat template")
    limit: int | None = Field(None, gt=0, description="use the first N problems only")
    shuffle: bool = Field(True, description="shuffle once an epoch, the same order for every method")
    too_long: Literal["fail", "drop"] = Field("fail", description="prompts that do not fit the context")

    @field_validator("prompt_suffix", "system_prompt")
    @classmethod
    def _no_control_characters(cls, text: str | None) -> str | None:
        bad = sorted({repr(char) for char in text or "" if ord(char) < 32 and char not in "\n\t"})
        if bad:
            raise ValueError(f"has the control characters {', '.join(bad)}; in YAML write \\boxed in plain or single quotes")
        return text


class TrainSection(Section):
    """GRPO as TRL runs it, the sampler of rollouts, checkpoints and alarms."""

    max_steps: int = Field(200, gt=0, description="optimiser steps")
    learning_rate: float = Field(1e-6, ge=0, description="peak step size")
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine"] = Field(
        "constant_with_warmup", description="step size over time")
    warmup_steps: int = Field(20, ge=0, description="steps of linear warm-up")
    optim: str = Field("adamw_torch_fused", description="optimiser, by its name in transformers")
    adam_beta2: float = Field(0.999, gt=0, lt=1, description="second-moment decay of AdamW")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of AdamW")
    max_grad_norm: float = Field(1.0, gt=0, description="gradient norm that is clipped to")
    per_device_train_batch_size: int = Field(8, gt=0, description="completions a micro-step and process")
    gradient_accumulation_steps: int = Field(8, gt=0, description="micro-steps an optimiser step")
    steps_per_generation: int | None = Field(None, gt=0, description="micro-steps a generated batch; null: accumulation")
    num_generations: int = Field(8, ge=2, description="completions a prompt: the group")
    num_iterations: int = Field(4, ge=1, description="times that a generated batch is used")
    max_completion_length: int = Field(4096, gt=0, description="longest completion, tokens")
    temperature: float = Field(1.0, gt=0, description="sampling temperature of rollouts")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; 1 is off")
    top_k: int = Field(0, ge=0, description="sample among the k likeliest tokens; 0 is off")
    min_p: float | None = Field(None, ge=0, le=1, description="smallest share of the likeliest token's probability")
    repetition_penalty: float = Field(1.0, gt=0, description="repetition penalty of rollouts; 1 is off")
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"] = Field(
        "dr_grpo", description="aggregation of the token losses")
    beta: float = Field(0.0, ge=0, description="weight of the KL term to the reference model")
    epsilon: float = Field(0.2, gt=0, description="lower clip of the importance ratio")
    epsilon_high: float | None = Field(0.28, gt=0, description="upper clip; null: epsilon")
    importance_sampling_level: Literal["token", "sequence"] = Field("token", description="ratio by token or sequence")
    scale_rewards: Literal["none", "group", "batch"] = Field("none", description="standard deviation that divides the advantage")
    mask_truncated_completions: bool = Field(True, description="leave completions without an end token out of the loss")
    seed: int = Field(42, ge=0, description="seed of order, sampling and initialisation")
    bf16: bool | None = Field(None, description="autocast to bfloat16; null: on where the GPU can")
    gradient_checkpointing: bool = Field(True, description="recompute activations (not re-entrant) to save memory")
    disable_dropout: bool = Field(True, description="switch dropout off")

    reward: str = Field("math", description="`math`, or module:function of your own")
    reward_strictness: Literal["lenient", "strict"] = Field("lenient", description="how the maths grader reads answers")
    reward_workers: int = Field(1, ge=1, description="grader processes a rank")
    reward_timeout_s: float = Field(5.0, gt=0, description="CPU seconds that grading one answer may take")

    sampler: Literal["hf", "vllm_colocate", "vllm_server"] = Field(
        "hf", description="who generates: transformers, vLLM in the training processes, or a vLLM server")
    vllm_gpu_memory_utilization: float = Field(0.3, gt=0, le=1, description="share of GPU memory for vLLM")
    vllm_tensor_parallel_size: int = Field(1, ge=1, description="GPUs a vLLM engine (colocate)")
    vllm_max_model_length: int | None = Field(None, gt=0, description="context of vLLM; null: what prompts and completions need")
    vllm_enable_sleep_mode: bool = Field(False, description="vLLM gives its memory back during the update (colocate)")
    vllm_importance_sampling_correction: bool = Field(
        False, description="correct for the sampler's own probabilities; biased when top_k, top_p or min_p truncate")
    vllm_server_gpus: str | None = Field(None, description="GPUs of the vLLM server, such as 6,7 (sampler: vllm_server)")

    logging_steps: int = Field(1, gt=0, description="steps between lines where there is no terminal; metrics.jsonl has every step")
    save_steps: int = Field(50, gt=0, description="steps between checkpoints")
    keep_last: int = Field(2, ge=1, description="newest resumable checkpoints that are kept")
    keep_every: int | None = Field(None, gt=0, description="weights kept for analysis at every N-th step; null: at every save")
    keep_best: str | None = Field(None, description="also keep the checkpoint with the best value of this metric")
    report_to: list[Literal["wandb", "trackio", "tensorboard"]] = Field(
        default_factory=list, description="trackers beside metrics.jsonl")
    on_alarm: Literal["warn", "stop"] = Field("warn", description="what a health alarm does")
    alarms: dict[str, float] = Field(default_factory=dict, description="thresholds of the alarms; those not named keep theirs")
    deadlines: dict[str, float] = Field(
        default_factory=dict, description="seconds that a phase may take in one go; those not named keep theirs")

    @field_validator("alarms")
    @classmethod
    def _known_alarms(cls, given: dict[str, float]) -> dict[str, float]:
        return _merged(ALARMS, given)

    @field_validator("deadlines")
    @classmethod
    def _known_deadlines(cls, given: dict[str, float]) -> dict[str, float]:
        return _merged(DEADLINES, given)


class LaunchSection(Section):
    """Processes, machines and memory partitioning."""

    processes: int = Field(1, ge=1, description="training processes on this machine, one a GPU")
    gpus: str | None = Field(None, description="GPUs to use, such as 0,1; null: the first `processes`")
    zero: Literal[0, 2, 3] = Field(0, description="DeepSpeed ZeRO stage; 0 is plain DDP")
    offload: Literal["none", "optimizer", "all"] = Field("none", description="what ZeRO keeps in CPU memory")
    machines: int = Field(1, ge=1, description="machines")
    rank: int = Field(0, ge=0, description="rank of this machine")
    main_address: str = Field("127.0.0.1", min_length=1, description="address of the machine of rank 0")
    main_port: int | None = Field(None, ge=1, le=65535, description="port on that machine; null: a free one")
    timeout_s: float = Field(1800.0, gt=0, description="deadline of a collective operation between ranks")


class ServeSection(Section):
    """A vLLM server that belongs to a command."""

    python: str | None = Field(None, description="interpreter that has vLLM; null: GRAIL_VLLM_PYTHON or this one")
    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int | None = Field(None, ge=1, le=65535, description="port; null: a free one")
    gpus: str | None = Field(None, description="GPUs such as 0,1; null: the first tp x dp")
    tp: int = Field(1, ge=1, description="tensor parallel size")
    dp: int = Field(1, ge=1, description="data parallel size")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="number format of the weights")
    max_model_len: int | None = Field(None, gt=0, description="context; null: what prompt and completion need")
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="share of GPU memory that vLLM may take")
    kv_cache_gb: float = Field(1.0, gt=0, description="KV cache on a CPU machine, GB")
    enforce_eager: bool | None = Field(
        None, description="no compilation, no graphs: starts faster, decodes slower; null: on a CPU only")
    chat_template: str | None = Field(None, description="Jinja file for a model without a chat template")
    start_timeout_s: float = Field(1800.0, ge=0, description="longest start-up; 0: as long as the server lives")
    grace_s: float = Field(30.0, gt=0, description="seconds between SIGTERM and SIGKILL")
    extra: list[str] = Field(default_factory=list, description="arguments that go to vLLM untouched")


class EvalSection(Section):
    """Sampling and grading of the suites."""

    bench: list[str] = Field(default_factory=lambda: ["arith"], description="suites")
    n: int = Field(3, ge=1, description="samples a problem")
    temperature: float = Field(0.6, ge=0, description="sampling temperature; 0 is greedy")
    top_p: float = Field(0.95, gt=0, le=1, description="nucleus sampling; 1 is off")
    top_k: int = Field(20, ge=0, description="sample among the k likeliest tokens; 0 is off")
    min_p: float = Field(0.0, ge=0, le=1, description="smallest share of the likeliest token's probability")
    max_new_tokens: int = Field(8192, gt=0, description="longest completion, tokens")
    seed: int = Field(0, ge=0, description="seed of the samples")
    limit: int | None = Field(None, gt=0, description="first N problems a suite")
    backend: str = Field("auto", min_length=1, description="auto, transformers, vllm, or the URL of a server")
    batch_size: int | None = Field(None, gt=0, description="sequences at once (transformers); null: by memory")
    concurrency: int = Field(64, ge=1, description="most requests in flight (servers)")
    timeout_s: float = Field(1800.0, gt=0, description="deadline of one request")
    strictness: Literal["lenient", "strict"] = Field("lenient", description="how the grader reads answers")
    data_dir: str | None = Field(None, description="folder with the suites as files; null: the Hub and its cache")
    max_failed_share: float = Field(0.005, ge=0, le=1, description="share of failed samples above which there is no summary")


class AnalyzeSection(Section):
    """Where the credit goes: positions, agreement, faithfulness."""

    bins: int = Field(20, ge=1, description="bins over the reasoning tokens")
    drop_first: int = Field(0, ge=0, description="reasoning tokens left out at the start")
    drop_last: int = Field(0, ge=0, description="reasoning tokens left out before the answer")
    texts: Literal["own", "shared"] = Field("own", description="each checkpoint's own samples, or the same for all")
    max_rollouts: int | None = Field(None, gt=0, description="rollouts a checkpoint; null: all")
    batch_tokens: int = Field(8192, gt=0, description="tokens scored at once")
    bootstrap: int = Field(1000, ge=0, description="bootstrap draws of an interval")
    seed: int = Field(0, ge=0, description="seed of bootstrap and controls")


class Preset(Section):
    """A whole experiment: what `runs/NAME/preset.yaml` holds."""

    description: str = Field("", description="one line for `grail presets list`")
    base: str | None = Field(None, description="preset that this one builds on")
    model: ModelSection = Field(default_factory=ModelSection)
    data: DataSection = Field(default_factory=DataSection)
    train: TrainSection = Field(default_factory=TrainSection)
    credit: CreditSettings = Field(default_factory=CreditSettings)
    launch: LaunchSection = Field(default_factory=LaunchSection)
    serve: ServeSection = Field(default_factory=ServeSection)
    eval: EvalSection = Field(default_factory=EvalSection)
    analyze: AnalyzeSection = Field(default_factory=AnalyzeSection)
