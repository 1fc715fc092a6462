"""One process of two: wraps the small network as training does, computes credit for its half, then trains a step.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... python -m tests.credit.worker KIND METHOD OUT
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed

from grail_cli.credit import CreditSettings, compute_credit

from .helpers import VOCAB, batch_of, network, random_rollouts

ROWS = 7  # the first process gets five, the second two: they need unequal numbers of passes


def rows_of_rank(rank: int) -> list[dict]:
    rows = random_rollouts(ROWS)
    return rows[:5] if rank == 0 else rows[5:]


def wrapped(kind: str):
    """The trained object and a function that makes one optimiser step of it on some ids."""
    model = network("qwen3, tied", dtype=torch.float32)
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(loss):
            loss.backward()
            optimiser.step()

        return model, step, {"is": type(model).__name__}
    import deepspeed

    # without this DeepSpeed compiles kernels on first use, and a killed build leaves a lock that later ones wait for
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    stage = int(kind.removeprefix("zero"))
    engine, optimiser, *_ = deepspeed.initialize(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), dist_init_required=False,
        config={"train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True,
                "zero_force_ds_cpu_optimizer": False,
                "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}})

    def step(loss):
        engine.backward(loss)
        engine.step()

    parameter = next(iter(engine.module.model.layers[0].parameters()))
    return engine, step, {"is": type(engine).__name__, "stage": engine.zero_optimization_stage(),
                          "optimizer": type(optimiser).__name__, "elements": parameter.numel()}


def main(kind: str, method: str, out: Path) -> None:
    rank = int(os.environ["RANK"])
    distributed.init_process_group("gloo")
    model, step, proof = wrapped(kind)
    settings = CreditSettings(method=method, rollouts="all")
    batch = batch_of(rows_of_rank(rank))
    found = {"proof": proof}
    if method != "grpo":
        for name, budget in (("whole", None), ("chunked", 1)):
            credit = compute_credit(model, batch, settings, 1.0, budget=budget)
            found[name] = (credit.weights, credit.scores)
        if rank == 1:
            batch.regions[:] = [None] * len(batch.regions)
        found["nothing to do on one rank"] = compute_credit(model, batch, settings, 1.0).weights
    model.train()
    ids = torch.randint(2, VOCAB, (2, 9), generator=torch.Generator().manual_seed(rank))
    losses = []
    for _ in range(2):
        loss = model(input_ids=ids, labels=ids).loss
        step(loss)
        losses.append(loss.item())
    found["losses"] = losses
    torch.save(found, out / f"{kind}-{method}-{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
