"""Every rollout of a run in `completions/step-N.parquet`: enough to replay a batch under another method.

Columns: step, problem_id, prompt, prompt_ids, completion, completion_ids, gold, reward, verdict, advantage,
weights, truncated. A batch is written once, after its first pass, by the main process, with the weights that
pass used.
"""

import io
from pathlib import Path

from ..files import write_bytes

PENDING = ("step", "rows", "weights")


class RolloutWriter:
    """Collects a generated batch and its weights on each rank, and writes it from the main one.

    verdicts: called once a batch, gives (reward, verdict) a rollout of this rank, in order (see rewards.py).
    """

    def __init__(self, folder: Path, tokenizer, eos_token_ids: list[int], verdicts):
        self.folder, self.tokenizer, self.eos, self.verdicts = folder, tokenizer, set(eos_token_ids), verdicts
        self.step: int | None = None
        self.rows: list[dict] = []
        self.weights: dict[int, list[float]] = {}

    def begin(self, step: int, inputs: list[dict], completion_ids: list[list[int]], output: dict) -> None:
        """Take a generated batch of this rank; output is the trainer's, with advantages (B,) not yet spread.
        """
        prompts = [
            ids[mask.bool()].tolist()
            for ids, mask in zip(output["prompt_ids"], output["prompt_mask"], strict=True)
        ]
        texts = self.tokenizer.batch_decode(completion_ids, skip_special_tokens=True)
        self.step, self.weights = step, {}
        self.rows = [
            {
                "step": step,
                "problem_id": row["problem_id"],
                "prompt": row["prompt"],
                "prompt_ids": prompt,
                "completion": text,
                "completion_ids": list(ids),
                "gold": row["gold"],
                "reward": reward,
                "verdict": verdict,
                "advantage": advantage,
                "truncated": ids[-1] not in self.eos,
            }
            for row, prompt, text, ids, (reward, verdict), advantage in zip(
                inputs,
                prompts,
                texts,
                completion_ids,
                self.verdicts(),
                output["advantages"].tolist(),
                strict=True,
            )
        ]

    def add(self, rows, weights) -> None:
        """Take the weights (b, T) of the micro-batch with these row numbers (b,); None means ones."""
        for number, row in enumerate(rows.tolist()):
            length = len(self.rows[row]["completion_ids"])
            self.weights[row] = [1.0] * length if weights is None else weights[number, :length].tolist()

    def flush(self, accelerator) -> None:
        """Write the batch, rows of all ranks in rank order, whole."""
        from accelerate.utils import gather_object

        rows = [{**row, "weights": self.weights.get(number)} for number, row in enumerate(self.rows)]
        if accelerator.num_processes > 1:
            rows = gather_object(rows)
        if accelerator.is_main_process and rows:
            write_bytes(self.folder / f"step-{self.step:06d}.parquet", parquet_bytes(rows))
        self.rows, self.weights = [], {}

    def state(self) -> dict:
        """What a checkpoint in the middle of the first pass must keep."""
        return {name: getattr(self, name) for name in PENDING}

    def restore(self, state: dict) -> None:
        for name in PENDING:
            setattr(self, name, state[name])


def parquet_bytes(rows: list[dict]) -> bytes:
    """Rows as a parquet file with a schema that does not depend on their values."""
    import pyarrow as pa
    import pyarrow.parquet

    ids, numbers = pa.list_(pa.int32()), pa.list_(pa.float32())
    schema = pa.schema(
        [
            ("step", pa.int32()),
            ("problem_id", pa.string()),
            ("prompt", pa.string()),
            ("prompt_ids", ids),
            ("completion", pa.string()),
            ("completion_ids", ids),
            ("gold", pa.string()),
            ("reward", pa.float32()),
            ("verdict", pa.string()),
            ("advantage", pa.float32()),
            ("weights", numbers),
            ("truncated", pa.bool_()),
        ]
    )
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema), sink, compression="zstd")
    return sink.getvalue()


def cut_back(folder: Path, step: int) -> None:
    """Drop batches that were generated after an optimiser step, when a run goes back to it."""
    for path in folder.glob("step-*.parquet"):
        if int(path.stem.removeprefix("step-")) > step:
            path.unlink()
