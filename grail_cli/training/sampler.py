"""The vLLM server that belongs to a run: started before the ranks, watched with them, gone after them."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..console import Console
from ..models import resolve_model
from ..presets.schema import Preset
from ..prompts import read_template
from .launch import free_port
from .record import RunRecord


@contextmanager
def server_of(preset: Preset, record: RunRecord, out: Console) -> Iterator[object | None]:
    """A running server for `train.sampler: vllm_server` on the main machine, None otherwise.

    Its address and ports are put into the manifest. Raises what `grail_cli.serving.start` raises.
    """
    if preset.train.sampler != "vllm_server" or preset.launch.rank != 0:
        yield None
        return
    from ..serving import ServeSettings, for_trainer, start

    train = preset.train
    options = preset.serve.model_copy(update={
        "gpus": train.vllm_server_gpus or preset.serve.gpus, "max_model_len": train.vllm_max_model_length or preset.serve.max_model_len,
        "dtype": preset.model.dtype if preset.model.dtype != "auto" else preset.serve.dtype})
    settings = for_trainer(ServeSettings(
        resolve_model(preset.model.path), options, revision=preset.model.revision, log=record.logs / "vllm.log",
        trust_remote_code=preset.model.trust_remote_code,
        need_tokens=train.vllm_max_model_length, gpu_offset=0 if options.gpus else preset.launch.processes))
    read_template(preset.model.chat_template)  # prompts go over as token ids; only a missing file is a fault
    with start(settings, out) as server:
        server.group_port = free_port()
        record.note(vllm_server={"url": server.root_url, "group_port": server.group_port, "log": str(server.log)})
        yield server
