"""A run samples from its own real vLLM server. Weights travel over NCCL, which needs a GPU: on a CPU that one call is
replaced, and a learning rate too small to move a float32 weight keeps both sides equal all the same.
"""

import json

import psutil
import pytest

from grail_cli.console import Console
from grail_cli.presets.load import load_preset
from grail_cli.training.run import train
from tests.serving.conftest import wait_for
from tests.training.conftest import SMALL, metrics, own_rewards_are_found, rollouts  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# a reward is imported in each rank before its trainer is built
REWARD = """
import json
import os
from trl.generation import vllm_client, vllm_generation

vllm_client.is_vllm_available = vllm_generation.is_vllm_available = lambda *args, **kwargs: True
Client = vllm_client.VLLMClient

def no_nccl(self, device=0):
    assert self.get_server_info()["weight_transfer_config"] == {"backend": "nccl"} and self.get_world_size() == 1

def would_send(self, metadata, parameters):
    sent = [(name, list(tensor.shape)) for name, tensor in parameters]
    with open(os.environ["SENT"], "a") as file:
        file.write(json.dumps([sent, [[name, shape] for name, _, shape in metadata]]) + "\\n")

Client.init_communicator, Client.update_named_params = no_nccl, would_send

def reward(prompts, completions, completion_ids, **columns):
    return [sum(ids) % 5 / 4 for ids in completion_ids]
"""


def test_trainer_and_server_agree_on_every_token(vllm_python, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIL_VLLM_PYTHON", vllm_python)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("SENT", str(tmp_path / "sent.jsonl"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "server_reward.py").write_text(REWARD)
    monkeypatch.setattr("grail_cli.training.checks.needs", lambda preset: [])  # it says rightly that a GPU is missing
    run = tmp_path / "run"
    sets = {**SMALL, "data.train": "arith", "train.sampler": "vllm_server", "train.reward": "server_reward:reward",
            "train.max_steps": 4, "train.learning_rate": "1e-12", "train.vllm_max_model_length": 256,
            "train.temperature": 0.8}
    train(load_preset(None, sets=[f"{key}={value}" for key, value in sets.items()]), run, console=Console(quiet=True))

    rows = metrics(run)
    drift = [row["sampling/sampling_logp_difference/max"] for row in rows
             if row.get("sampling/sampling_logp_difference/max") is not None]
    assert len(drift) == 2 and max(drift) < 1e-3  # prompts, temperature and positions are the same on both sides
    found = rollouts(run)
    assert len(found) == 2 * 16 and all(row["completion_ids"] for row in found)
    assert len({tuple(row["completion_ids"]) for row in found}) > 8  # it did sample

    from safetensors import safe_open

    with safe_open(run / "checkpoint-4" / "model.safetensors", "pt") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}
    sends = [json.loads(line) for line in (tmp_path / "sent.jsonl").read_text().splitlines()]
    assert len(sends) == 2  # once a generated batch
    for sent, announced in sends:
        assert sent == announced and dict(map(tuple, sent)) == shapes

    server = json.loads((run / "manifest.json").read_text())["vllm_server"]
    assert server["url"].startswith("http://127.0.0.1:") and server["log"].startswith(str(run))
    port = int(server["url"].rpartition(":")[2])
    assert wait_for(lambda: not [found for found in psutil.net_connections("tcp")
                                 if found.laddr.port == port and found.status == psutil.CONN_LISTEN], 20)
