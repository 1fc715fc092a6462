"""What will be run to serve a model: checked, with every fault in one go, before anything is spawned."""

import os
import secrets
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from .. import models
from ..errors import GrailError, raise_all
from ..presets.schema import ServeSection
from ..prompts import template_path
from . import checks, devices, ports, registry

MODULE = "vllm.entrypoints.openai.api_server"
# set by accelerate and torchrun for their own processes; a server that inherits them waits for peers that
# never come
LAUNCHER_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                      "GROUP_RANK",
                      "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "NODE_RANK",
                      "VLLM_PORT")
LAUNCHER_PREFIXES = ("TORCHELASTIC_", "ACCELERATE_", "FSDP_")
OWN_FLAGS = {"--model": "--model", "--host": "--host", "--port": "--port", "--served-model-name": "--name",
             "--tensor-parallel-size": "--tp", "-tp": "--tp", "--data-parallel-size": "--dp", "-dp": "--dp"}
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


@dataclass(frozen=True)
class ServeSettings:
    """What to serve: a model, the preset's `serve` section, and what the calling command needs of the server.

    name: served name (default: the model's label). route: what will be asked, `chat` or `plain` completions.
    need_tokens: prompt + completion tokens that must fit; longest: what to call the longest prompt in a
    message. gpu_offset: GPUs taken by servers of the same command. log: where the log goes (default: beside
    the state file). env: more environment for the server.
    """

    model: str
    options: ServeSection = field(default_factory=ServeSection)
    name: str | None = None
    route: Literal["chat", "plain"] = "plain"
    need_tokens: int | None = None
    longest: str = ""
    gpu_offset: int = 0
    log: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    trust_remote_code: bool = False


def for_trainer(settings: ServeSettings) -> ServeSettings:
    """The same server, made ready for TRL's trainer: it samples from it and sends its weights to it over NCCL.

    These are the settings of `trl vllm-serve` (TRL 1.16); the trainer is given `root_url` as its base URL.
    """
    extra = ["--enable-scale-out", "--weight-transfer-config", '{"backend": "nccl"}', "--logprobs-mode",
             "processed_logprobs", "--max-logprobs", "-1", *settings.options.extra]
    return replace(settings, options=settings.options.model_copy(update={"extra": extra}),
                   env={"VLLM_SERVER_DEV_MODE": "1", **settings.env})


@dataclass(frozen=True)
class Plan:
    """A checked launch. `env` is the difference to our environment: None removes a variable."""

    settings: ServeSettings
    argv: list[str]
    env: dict[str, str | None]
    interpreter: checks.Interpreter
    served_name: str
    instance: str
    root: str
    gpus: list[str]
    port: int | None
    notes: list[str]

    def environment(self) -> dict[str, str]:
        """The whole environment of the server."""
        merged = {**os.environ, **{name: value for name, value in self.env.items() if value is not None}}
        return {name: value for name, value in merged.items() if self.env.get(name, value) is not None}

    def shown_env(self) -> dict[str, str | None]:
        """The difference of the environment, secrets masked."""
        return {name: value if value is None else masked(name, value) for name, value in self.env.items()}

    def command(self) -> str:
        """The launch as a line for a shell, secrets masked, to run the server by hand."""
        words = ["env"]
        for name, value in self.shown_env().items():
            words += ["-u", name] if value is None else [f"{name}={value}"]
        return shlex.join(words + self.argv)


def masked(name: str, value: str) -> str:
    """A value that may be shown: `***` for what a variable's name calls secret."""
    return "***" if any(word in name.upper() for word in SECRET) else value


def plan(settings: ServeSettings) -> Plan:
    """Check everything that can be checked now and work out the launch. Raises GrailError or Faults."""
    options = settings.options
    model = models.resolve_model(settings.model, where="--model")
    python = options.python or os.environ.get("GRAIL_VLLM_PYTHON") or sys.executable
    config = checks.config_of(model)  # a broken checkpoint is a fault by itself: nothing more can be said
    faults: list[GrailError] = []

    interpreter = None
    try:
        interpreter = checks.look_at_interpreter(python)
    except GrailError as fault:
        faults.append(fault)
    on_cpu = interpreter is not None and interpreter.build == "cpu"
    gpus: list[str] = []
    present = [] if on_cpu or interpreter is None else devices.present_gpus()
    if present:
        try:
            visible = devices.visible_names(present, devices.outer_mask())
            gpus = devices.select(options.gpus, options.tp * options.dp, visible, offset=settings.gpu_offset)
            faults += devices.check_memory(gpus, present, options.gpu_memory_utilization)
        except GrailError as fault:
            faults.append(fault)
    elif interpreter is not None:
        faults += checks.check_build(interpreter, gpus=0)
    if on_cpu:
        faults += checks.check_cpu_memory(options.kv_cache_gb, checks.weights_size(model))
    faults += checks.check_tp(config, options.tp)
    faults += checks.check_length(config, options.max_model_len, settings.need_tokens, settings.longest)
    faults += checks.check_template(model, options.chat_template, settings.route)
    faults += own_flags(options.extra)
    if models.is_local(model) and models.is_adapter(model):
        faults += checks.check_adapter(model)
    if options.port is not None:
        faults += check_port(options.host, options.port)
    raise_all(faults)
    return lay_out(settings, model, config, interpreter, gpus)


def check_port(host: str, port: int) -> list[GrailError]:
    """A port that one of our servers is about to take is not visible to the kernel yet: look there, too."""
    ours = registry.on_port(port)
    if ours is not None:
        return [GrailError(f"port {port} belongs to our server {ours.name!r} ({ours.status}).",
                           where="serve.port",
                           kind="port", hint=f"grail serve --stop {shlex.quote(ours.name)}, or --port auto.")]
    try:
        ports.reserve(host, port).close()
    except GrailError as fault:
        return [fault]
    return []


def own_flags(extra: list[str]) -> list[GrailError]:
    """Arguments for vLLM that would go behind our back."""
    return [GrailError(f"{word.split('=')[0]} among vLLM's own arguments would go behind grail's back.",
                       where="--",
                       kind="usage", hint=f"use {OWN_FLAGS[word.split('=')[0]]} instead.")
            for word in extra if word.split("=")[0] in OWN_FLAGS]


def lay_out(settings: ServeSettings, model: str, config: dict, interpreter: checks.Interpreter,
            gpus: list[str]) -> Plan:
    """The command line and environment of a launch whose parts are known to be right."""
    options = settings.options
    on_cpu = interpreter.build == "cpu"
    served_name = settings.name or models.label(model)
    instance = f"grail-{secrets.token_hex(8)}"
    adapter = models.is_local(model) and models.is_adapter(model)
    root = checks.adapter_base(model) if adapter else model
    notes = [f"{settings.model}: its config.json is not on this machine, so only vLLM can tell whether it "
             f"fits."] if not config else []
    if options.host not in ("127.0.0.1", "localhost", "::1"):
        notes.append(f"listening on {options.host}: anybody on that network may use the server.")

    # the instance token is a second name of the same model: /v1/models then proves that the server is ours
    names = [models.label(root), instance] if adapter else [served_name, instance]
    argv = [interpreter.python, "-m", MODULE, "--model", root, "--served-model-name", *names, "--host",
            options.host,
            "--generation-config", "vllm", "--disable-uvicorn-access-log"]
    if adapter:
        rank = checks.read_adapter(model).get("r", 16)
        argv += ["--enable-lora", "--max-lora-rank", str(lora_rank(rank)), "--lora-modules",
                 f"{served_name}={model}"]
    for flag, value in (("--tensor-parallel-size", options.tp), ("--data-parallel-size", options.dp)):
        argv += [flag, str(value)] if value > 1 else []
    length = options.max_model_len or settings.need_tokens
    argv += ["--max-model-len", str(length)] if length else []
    # float32 on a CPU, as the transformers backend has it
    dtype = "float32" if on_cpu and options.dtype == "auto" else options.dtype
    argv += ["--dtype", dtype]
    if on_cpu:
        # a prompt that is split over two steps rewinds its request's random generator, which vLLM's CPU build
        # cannot do: with a seed in the request the whole engine dies (0.32)
        argv += ["--no-enable-chunked-prefill"]
    else:
        argv += ["--gpu-memory-utilization", f"{options.gpu_memory_utilization:g}"]
    eager = on_cpu if options.enforce_eager is None else options.enforce_eager
    argv += ["--enforce-eager"] if eager else []
    if options.chat_template is not None:
        argv += ["--chat-template", str(template_path(options.chat_template))]
    argv += ["--revision", settings.revision] if settings.revision else []
    argv += ["--trust-remote-code"] if settings.trust_remote_code else []
    argv += options.extra
    return Plan(settings, argv, environment(settings, gpus, on_cpu), interpreter, served_name, instance, root,
                gpus,
                options.port, notes)


def lora_rank(rank: int) -> int:
    """The smallest rank limit of vLLM that holds an adapter's rank."""
    return next((limit for limit in (1, 8, 16, 32, 64, 128, 256, 320, 512) if limit >= rank), rank)


def environment(settings: ServeSettings, gpus: list[str], on_cpu: bool) -> dict[str, str | None]:
    """What the server's environment has more, and less, than ours."""
    changes: dict[str, str | None] = {
        name: None for name in sorted(os.environ)
        if name in LAUNCHER_VARIABLES or name.startswith(LAUNCHER_PREFIXES)}
    changes |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
    if gpus:
        changes["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if on_cpu:
        changes["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, round(settings.options.kv_cache_gb)))  # whole GiB
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        one_copy = settings.options.tp * settings.options.dp == 1
        if one_copy and 0 < len(allowed) < (os.cpu_count() or 1):
            # `auto` would bind to cores that we may not use
            changes["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, allowed))
    return changes | dict(settings.env)
