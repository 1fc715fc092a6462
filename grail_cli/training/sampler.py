"""The vLLM server that belongs to a run: started before the ranks, watched with them, gone after them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..console import Console
from ..models import resolve_model
from ..presets.schema import Preset
from .launch import free_port
from .record import RunRecord

if TYPE_CHECKING:
    from ..serving import Server


@dataclass(frozen=True)
class RunServer:
    """A running server and the port over which it is sent new weights."""

    server: "Server"
    group_port: int

    def check_alive(self) -> None:
        """Raise RunFailed with the cause out of its log when it has died."""
        self.server.check_alive()

    def arguments(self) -> dict:
        """What GRPOConfig must know of it."""
        return {"vllm_server_base_url": self.server.root_url, "vllm_group_port": self.group_port}


@contextmanager
def server_of(preset: Preset, record: RunRecord, out: Console) -> Iterator[RunServer | None]:
    """A running server for `train.sampler: vllm_server` on the main machine, None otherwise.

    Its address and ports are put into the manifest. Raises what `grail_cli.serving.start` raises.
    """
    if preset.train.sampler != "vllm_server" or preset.launch.rank != 0:
        yield None
        return
    from ..serving import ServeSettings, for_trainer, start

    train = preset.train
    options = preset.serve.model_copy(update={
        "gpus": train.vllm_server_gpus or preset.serve.gpus,
        "max_model_len": train.vllm_max_model_length or preset.serve.max_model_len,
        "dtype": preset.model.dtype if preset.model.dtype != "auto" else preset.serve.dtype})
    settings = for_trainer(
        ServeSettings(
            resolve_model(preset.model.path),
            options,
            revision=preset.model.revision,
            log=record.logs / "vllm.log",
            trust_remote_code=preset.model.trust_remote_code,
            need_tokens=train.vllm_max_model_length,
            gpu_offset=0 if options.gpus else preset.launch.processes,
        )
    )
    with start(settings, out) as server:
        running = RunServer(server, free_port())
        record.note(
            vllm_server={"url": server.root_url, "group_port": running.group_port, "log": str(server.log)}
        )
        yield running
