"""Settings that are each fine and together wrong: what TRL would ignore, double, or find out after a rollout.
"""

from ..errors import GrailError
from ..presets.schema import Preset, TrainSection
from .config import processes

# metrics of every checkpoint of which more is better, as `keep_best` takes it
KEEP_BEST = ("reward", "answer_found", "groups_with_signal", "completions/mean_length", "entropy")
# losses that do not multiply the advantage token by token
NOT_BY_TOKEN = {"vespo": "it weights whole sequences by their advantage"}


def combination_faults(preset: Preset) -> list[GrailError]:
    """Every combination in a preset that cannot do what it says."""
    train, credit, launch, model = preset.train, preset.credit, preset.launch, preset.model
    faults = []

    def fault(where: str, message: str, hint: str) -> None:
        faults.append(GrailError(message, where=where, hint=hint, kind="combination"))

    if train.keep_best and train.keep_best not in keep_best_names(train):
        fault("train.keep_best", f"{train.keep_best!r} is no metric that every checkpoint has.",
              f"choose one of {', '.join(keep_best_names(train))}.")
    weighted = credit.method != "grpo"
    truncating = [
        name
        for name, on in (("top_k", train.top_k > 0), ("top_p", train.top_p < 1), ("min_p", bool(train.min_p)))
        if on
    ]
    if train.vllm_importance_sampling_correction and train.sampler == "hf":
        fault(
            "train.vllm_importance_sampling_correction",
            "corrects vLLM's probabilities, and train.sampler is hf.",
            "set it to false, or choose a vllm sampler.",
        )
    elif train.vllm_importance_sampling_correction and truncating:
        fault(
            "train.vllm_importance_sampling_correction",
            f"is biased when {', '.join(truncating)} truncates the sampler.",
            f"switch {', '.join(truncating)} off, or the correction.",
        )
    if weighted and train.loss_type in NOT_BY_TOKEN:
        fault("train.loss_type", f"{train.loss_type} cannot carry token weights of {credit.method}: "
              f"{NOT_BY_TOKEN[train.loss_type]}.", "choose dr_grpo, dapo, grpo, bnpo, cispo or sapo.")
    if train.loss_type == "luspo" and train.importance_sampling_level != "sequence":
        fault(
            "train.loss_type",
            "luspo needs importance ratios by sequence.",
            "set train.importance_sampling_level=sequence.",
        )
    if train.epsilon >= 1:
        fault("train.epsilon", f"{train.epsilon} would clip nothing from below; the ratio is never negative.",
              "choose a value under 1, such as 0.2.")
    if train.sampler == "vllm_colocate" and launch.processes % train.vllm_tensor_parallel_size:
        fault(
            "train.vllm_tensor_parallel_size",
            f"{train.vllm_tensor_parallel_size} does not divide the {launch.processes} processes.",
            "each vLLM engine takes whole groups of processes.",
        )
    if train.vllm_enable_sleep_mode and train.sampler != "vllm_colocate":
        fault(
            "train.vllm_enable_sleep_mode",
            f"has no effect with train.sampler {train.sampler}.",
            "set it to false.",
        )
    if train.vllm_server_gpus and train.sampler != "vllm_server":
        fault(
            "train.vllm_server_gpus",
            f"has no effect with train.sampler {train.sampler}.",
            "set train.sampler=vllm_server.",
        )
    if train.sampler == "vllm_server" and train.vllm_server_gpus and launch.gpus:
        both = set(_names(train.vllm_server_gpus)) & set(_names(launch.gpus))
        if both:
            fault(
                "train.vllm_server_gpus",
                f"GPUs {', '.join(sorted(both))} are launch.gpus, too.",
                "give each its own.",
            )
    if model.lora_rank and launch.zero == 3 and train.gradient_checkpointing and weighted:
        fault(
            "launch.zero",
            "3 with LoRA and gradient checkpointing makes TRL checkpoint re-entrantly, where saliency cannot "
            "be taken.",
            "use launch.zero=2, or train.gradient_checkpointing=false.",
        )
    if launch.offload != "none" and not launch.zero:
        fault("launch.offload", f"{launch.offload} has no effect without ZeRO.", "set launch.zero=2 or 3.")
    if launch.offload == "all" and launch.zero == 2:
        fault(
            "launch.offload",
            "all needs ZeRO 3; ZeRO 2 keeps only the optimiser's state apart.",
            "set launch.zero=3.",
        )
    if launch.gpus and len(_names(launch.gpus)) != launch.processes:
        fault(
            "launch.gpus",
            f"names {len(_names(launch.gpus))} GPUs for launch.processes {launch.processes}.",
            "one process uses one GPU.",
        )
    if launch.rank >= launch.machines:
        fault(
            "launch.rank",
            f"{launch.rank} is not below launch.machines {launch.machines}.",
            "ranks count from 0.",
        )
    if launch.machines > 1 and launch.main_port is None:
        fault("launch.main_port", "must be given when there are several machines: all must agree on it.",
              "choose a free one, such as 29500.")
    if train.keep_every and train.keep_every % train.save_steps:
        fault(
            "train.keep_every",
            f"{train.keep_every} is no multiple of train.save_steps {train.save_steps}: weights would "
            "stay at other steps than asked.",
            f"choose {train.keep_every // train.save_steps * train.save_steps or train.save_steps}.",
        )
    if processes(preset) > 1 and train.sampler == "vllm_server" and not train.vllm_server_gpus:
        fault("train.vllm_server_gpus", "must be named when training takes several GPUs.", "such as 6,7.")
    return faults


def keep_best_names(train: TrainSection) -> tuple[str, ...]:
    """Every name that `train.keep_best` can have with this reward."""
    verdict = "correct" if train.reward == "math" else "scored"
    return (*KEEP_BEST, f"rewards/{train.reward}/mean", f"verdicts/{verdict}")


def combination_warnings(preset: Preset) -> list[str]:
    """What works and may surprise."""
    train, credit, model = preset.train, preset.credit, preset.model
    said = []
    if model.dtype in ("bfloat16", "float16") and not preset.launch.zero and not model.lora_rank:
        said.append(
            f"model.dtype {model.dtype} with plain AdamW: steps of {train.learning_rate:g} are lost in "
            "rounding; "
            "use float32, or launch.zero 2."
        )
    if train.save_steps > train.max_steps:
        said.append(
            f"train.save_steps {train.save_steps} is past the last step {train.max_steps}: one checkpoint, "
            "at the end."
        )
    if train.warmup_steps >= train.max_steps:
        said.append(
            f"train.warmup_steps {train.warmup_steps}: the whole run of {train.max_steps} steps is warm-up."
        )
    if credit.method == "oar_p":
        said.append(
            "oar_p makes a forward pass for every reasoning token: expect it to be many times slower."
        )
    if train.sampler != "hf" and not train.vllm_importance_sampling_correction:
        said.append(
            "vLLM samples with other rounding than the trainer; ratios are taken against the trainer's own "
            "probabilities at generation (train.vllm_importance_sampling_correction is off)."
        )
    return said


def _names(gpus: str) -> list[str]:
    return [name.strip() for name in gpus.split(",") if name.strip()]
