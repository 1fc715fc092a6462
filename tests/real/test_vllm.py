"""A real vLLM on this machine's CPU: serve, evaluate, agree with transformers, and be gone even after SIGKILL."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from grail_cli.serving import registry
from tests.serving.conftest import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(autouse=True)
def environment(vllm_python, monkeypatch):
    monkeypatch.setenv("GRAIL_VLLM_PYTHON", vllm_python)


def grail(*words: str) -> subprocess.CompletedProcess:
    done = subprocess.run([sys.executable, "-m", "grail_cli", *map(str, words)], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return done


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as reply:
        return json.load(reply)


def samples(results: Path, suite: str) -> list[dict]:
    """The lines of the one model in a results folder."""
    (file,) = results.glob(f"*/{suite}/samples.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def group_of(name: str) -> list[int]:
    return registry.find(name).leftovers()


@pytest.fixture(scope="module", params=["tiny", "smollm2"])
def served(request, vllm_python, smollm2):
    """A model, and what `grail serve --detach` said of its server; it is stopped and gone afterwards."""
    model = smollm2 if request.param == "smollm2" else "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAIL_VLLM_PYTHON", vllm_python)
        (server,) = json.loads(grail("serve", "--model", model, "--max-model-len", 512, "--detach",
                                     "--json").stdout)["servers"]
    group = group_of(server["name"])
    assert len(group) >= 2  # API server, engine, worker
    yield model, server
    grail("serve", "--stop", server["name"])
    assert not [pid for pid in group if Path(f"/proc/{pid}").exists()]
    assert registry.entries() == []


def test_a_model_is_served_under_its_name(served):
    model, server = served
    assert server["name"] == Path(model).name and server["max_model_len"] == 512
    reply = post(f"{server['url']}/chat/completions", {
        "model": server["name"], "messages": [{"role": "user", "content": "What is 2 + 3?"}], "max_tokens": 16,
        "temperature": 0, "return_token_ids": True})
    assert reply["choices"][0]["message"]["content"].strip() and reply["choices"][0]["token_ids"]


def test_greedy_answers_equal_those_of_transformers(served, tmp_path):
    model, server = served
    common = ["eval", "--model", model, "--bench", "arith", "--n", 1, "--limit", 20, "--set", "eval.temperature=0",
              "--set", "eval.max_new_tokens=96"]
    grail(*common, "--backend", server["url"], "--out", tmp_path / "vllm")
    grail(*common, "--backend", "transformers", "--out", tmp_path / "transformers")
    ours, theirs = samples(tmp_path / "vllm", "arith"), samples(tmp_path / "transformers", "arith")
    assert [line["prompt_ids"] for line in ours] == [line["prompt_ids"] for line in theirs]
    equal = sum(a["generated_solutions"][0]["completion_ids"] == b["generated_solutions"][0]["completion_ids"]
                for a, b in zip(ours, theirs, strict=True))
    print(f"{server['name']}: {equal} of 20 completions are equal")
    assert equal >= 19


def test_evaluation_starts_a_server_of_its_own_and_records_real_token_ids_of_every_sample(tmp_path):
    from transformers import AutoTokenizer

    from grail_cli.models import resolve_model

    grail("eval", "--model", "tiny", "--bench", "arith", "--n", 3, "--limit", 12, "--backend", "vllm",
          "--set", "eval.max_new_tokens=128", "--out", tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(resolve_model("tiny"))
    lines = samples(tmp_path, "arith")
    assert len(lines) == 12
    for line in lines:
        assert line["prompt_ids"] and len(line["generated_solutions"]) == 3
        for sample in line["generated_solutions"]:
            assert len(sample["completion_ids"]) == sample["completion_tokens"]
            assert tokenizer.decode(sample["completion_ids"], skip_special_tokens=True) == sample["solution"]
            assert sample["finish_reason"] in ("stop", "length")
        assert len({sample["seed"] for sample in line["generated_solutions"]}) == 3
    (manifest,) = tmp_path.glob("*/manifest.json")
    assert '"vllm"' in manifest.read_text()
    assert registry.entries() == []


def test_an_adapter_is_served_on_its_base_and_answers_as_it_does_in_transformers(tmp_path):
    import torch
    from peft import LoraConfig, get_peft_model

    from grail_cli.models import load_model, load_tokenizer, resolve_model

    base, adapter = resolve_model("tiny"), tmp_path / "adapter"
    torch.manual_seed(0)
    model = get_peft_model(load_model(base), LoraConfig(r=8, lora_alpha=16, target_modules="all-linear",
                                                        task_type="CAUSAL_LM"))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # begins as zeros: an adapter that changes nothing
            parameter.data.normal_(0, 0.06)
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(adapter)
    load_tokenizer(base).save_pretrained(adapter)
    shutil.copy(Path(base) / "grail.json", adapter)

    common = ["--bench", "arith", "--n", 1, "--limit", 20, "--set", "eval.temperature=0", "--set",
              "eval.max_new_tokens=64"]
    found = {}
    for name, which, backend in (("vllm", adapter, "vllm"), ("transformers", adapter, "transformers"),
                                 ("base", "tiny", "transformers")):
        grail("eval", "--model", which, *common, "--backend", backend, "--out", tmp_path / name)
        found[name] = [line["generated_solutions"][0]["completion_ids"] for line in samples(tmp_path / name, "arith")]
    equal, as_base = (sum(a == b for a, b in zip(found[name], found[other], strict=True))
                      for name, other in (("vllm", "transformers"), ("vllm", "base")))
    print(f"adapter: {equal} of 20 completions are equal, {as_base} equal the base model's")
    assert equal >= 19 and as_base < 19
    assert registry.entries() == []


def test_a_real_server_is_gone_within_five_seconds_of_its_owners_sigkill():
    owner = subprocess.Popen([sys.executable, "-m", "grail_cli", "serve", "--model", "tiny", "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert owner.stdout.readline() == "{\n"  # ready
        group = group_of("tiny")
        assert len(group) >= 2
    finally:
        owner.kill()
        owner.wait()
    began = time.monotonic()
    assert wait_for(lambda: not [pid for pid in group if os.path.exists(f"/proc/{pid}")], 10.0)
    assert time.monotonic() - began < 5.0
    assert wait_for(lambda: registry.entries() == [], 2.0)
