"""The files of an analysis: tokens.jsonl, tables as CSV and JSON, and the mark that lets a checkpoint be skipped.

A checkpoint's folder is finished when its summary.json is there, which is written last and carries the fingerprint of
everything that its numbers depend on. The same fingerprint: it is read back; another one: it is made anew.
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np

from .records import Rollout, Scored
from ..errors import GrailError
from ..files import read_json, read_jsonl, sha256_text, write_json, write_text

SCHEMA_VERSION = 1
SUMMARY, TOKENS = "summary.json", "tokens.jsonl"


def token_line(one: Scored) -> dict:
    """The line of tokens.jsonl for a scored rollout; lists as long as completion_ids, numbers with seven digits."""
    r = one.rollout
    doc = {"id": r.id, "token_ids": list(r.completion_ids), "tokens": list(one.tokens), "scores": _seven(one.scores),
           "weights": _seven(one.weights), "regions": one.regions, "reweighted": one.reweighted,
           "correct": r.correct, "advantage": r.advantage, "problem": r.problem, "truncated": r.truncated,
           "encoded_from_text": r.encoded_from_text, "boxes": one.boxes, "prompt_ids": list(r.prompt_ids)}
    for name, values in (("entropy", one.entropy), ("logprob", one.logprob)):
        if values is not None:
            doc[name] = _seven(values)
    return doc


def faulty_line(rollout: Rollout) -> dict:
    """The line of a rollout that could not be scored: its place is kept, its lists are null, `error` says why."""
    return {"id": rollout.id, "token_ids": list(rollout.completion_ids), "tokens": None, "scores": None,
            "weights": None, "regions": None, "error": rollout.fault}


def write_tokens(path: Path, rollouts: list[Rollout], scored: list[Scored]) -> None:
    """A line a rollout in the order of the input; `scored` are those without a fault, in the same order."""
    rest = iter(scored)
    lines = [faulty_line(r) if r.fault else token_line(next(rest)) for r in rollouts]
    write_text(path, "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines))


def read_tokens(path: Path) -> tuple[list[Scored], list[Rollout]]:
    """What `write_tokens` wrote: scored rollouts, and the faulty ones."""
    scored, faulty = [], []
    for row in read_jsonl(path):
        ids = tuple(row["token_ids"])
        if "error" in row:
            faulty.append(Rollout(row["id"], (), ids, fault=row["error"]))
            continue
        rollout = Rollout(row["id"], tuple(row["prompt_ids"]), ids, row["advantage"], row["correct"], row["problem"],
                          row["truncated"], row["encoded_from_text"])
        regions = {k: tuple(v) for k, v in (row["regions"] or {}).items()}
        arrays = {k: np.array(row[k], dtype=np.float64) if k in row else None
                  for k in ("scores", "weights", "entropy", "logprob")}
        scored.append(Scored(rollout, tuple(row["tokens"]), arrays["scores"], arrays["weights"], row["reweighted"],
                             regions.get("answer"), regions.get("content", ()), regions.get("boundary", ()),
                             regions.get("post", ()), row["boxes"], arrays["entropy"], arrays["logprob"]))
    return scored, faulty


def fingerprint(checkpoint: str, rollouts: list[Rollout], facts: dict) -> str:
    """SHA-256 over the weight files (name, size, time), the rollouts and every setting that a number depends on."""
    folder = Path(checkpoint)
    files = sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.bin")) + sorted(folder.glob("*.json"))
    weights = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.name != "checkpoint.json"]
    return sha256_text(json.dumps([SCHEMA_VERSION, checkpoint, weights, facts, repr(rollouts)], sort_keys=True,
                                  default=str))


def read_finished(folder: Path, mark: str) -> dict | None:
    """The summary of a finished checkpoint with this fingerprint, else None.

    Raises GrailError when another major version of the format wrote it.
    """
    path = folder / SUMMARY
    if not path.is_file() or not (folder / TOKENS).is_file():
        return None
    doc = read_json(path)
    if not isinstance(doc, dict) or doc.get("schema_version") != SCHEMA_VERSION:
        raise GrailError(f"not a summary of format {SCHEMA_VERSION}.", where=str(path), kind="bad_file",
                         hint="choose another --out, or remove that folder.")
    return doc if doc["fingerprint"] == mark else None


def write_table(folder: Path, name: str, rows: list[dict]) -> None:
    """folder/NAME.csv and folder/NAME.json with the same rows; a blank is empty in one and null in the other."""
    rows = [{k: cell(v) for k, v in row.items()} for row in rows]
    columns = list(dict.fromkeys(k for row in rows for k in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    write_text(folder / f"{name}.csv", text.getvalue())
    write_json(folder / f"{name}.json", rows)


def cell(value: object) -> object:
    """A value for JSON: NaN is null, numpy scalars are plain numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _seven(values: np.ndarray) -> list[float | None]:
    """Seven digits; what is not finite (a model that overflows) is null, which JSON can hold."""
    return [float(f"{v:.7g}") if math.isfinite(v) else None for v in values]
