"""Rollouts from wherever they lie, as one record type: a JSONL file, the samples of an evaluation, logged batches.

A row that cannot be scored is kept with its fault, so that it is counted and named; only a file that is no such file
at all raises. Ids that were sampled are taken as they are; text is encoded only where no ids are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .records import Rollout
from ..errors import GrailError
from ..files import read_jsonl
from ..prompts import PromptSettings, render

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PARQUET_NEEDS = ("completion_ids", "prompt_ids")


def read_rollouts(path: str | Path, tokenizer: PreTrainedTokenizerBase, prompts: PromptSettings) -> list[Rollout]:
    """Rollouts of a file or folder, in order: .jsonl with one a line, samples.jsonl, .parquet, or a folder of parquet.

    Raises GrailError when it does not exist, is none of these, or holds no row.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
        if not files:
            raise GrailError("a folder without .parquet files.", where=str(path), kind="bad_file",
                             hint="give a .jsonl file, a .parquet file, or RUN/completions.")
        rollouts = [r for file in files for r in parquet_rollouts(file, tokenizer, several=len(files) > 1)]
    elif path.suffix == ".parquet":
        rollouts = list(parquet_rollouts(path, tokenizer))
    else:
        rows = read_jsonl(path)
        samples = bool(rows) and "generated_solutions" in rows[0]
        rollouts = sample_rollouts(rows, tokenizer, prompts) if samples else [
            row_rollout(row, f"line {n}", tokenizer, prompts) for n, row in enumerate(rows, start=1)]
    if not rollouts:
        raise GrailError("no rollouts in it.", where=str(path), kind="empty_file")
    return [checked(r, tokenizer) for r in rollouts]


def row_rollout(row: dict, name: str, tokenizer: PreTrainedTokenizerBase, prompts: PromptSettings) -> Rollout:
    """One line of a rollouts file: ids, or texts / chat messages, with optional id, advantage, reward, correct.

    Messages are what the model was asked: `prompts` gives them template and thinking switch, and adds no words.
    """
    name = str(row.get("id", name))
    try:
        prompt, _ = _ids(row, "prompt", tokenizer, prompts)
        completion, encoded = _ids(row, "completion", tokenizer, prompts)
        advantage = _number(row, "advantage")
        correct = row.get("correct")
        if correct is None and (reward := _number(row, "reward")) is not None:
            correct = reward > 0
        if correct is not None and not isinstance(correct, bool | int):
            raise ValueError(f"correct is {correct!r}, not true or false")
    except ValueError as error:
        return Rollout(name, fault=f"unreadable row: {error}")
    return Rollout(name, prompt, completion, advantage, None if correct is None else bool(correct),
                   problem=str(row.get("problem_id", "")), truncated=bool(row.get("truncated", False)),
                   encoded_from_text=encoded,
                   fault=_spelling_fault(row.get("completion"), completion, encoded, tokenizer))


def sample_rollouts(rows: Iterable[dict], tokenizer: PreTrainedTokenizerBase, prompts: PromptSettings,
                    suite: str = "") -> list[Rollout]:
    """Rollouts of result lines (ours, or the reference's, which carry text only), a rollout a sample."""
    found = []
    for n, row in enumerate(rows):
        problem = str(row.get("id", n))
        problem = problem if not suite or problem.startswith(f"{suite}/") else f"{suite}/{problem}"
        prompt = row.get("prompt_ids") or render(tokenizer, str(row.get("question", "")), prompts).ids
        for k, sample in enumerate(row.get("generated_solutions", [])):
            text, ids = sample.get("solution"), sample.get("completion_ids")
            encoded = ids is None
            if encoded and not text:
                found.append(Rollout(f"{problem}#{k}", problem=problem, fault="empty completion"))
                continue
            ids = ids if ids is not None else _encode(tokenizer, text)
            found.append(Rollout(
                f"{problem}#{sample.get('sample', k)}", tuple(prompt), tuple(ids), None, _verdict(sample, row), problem,
                truncated=sample.get("finish_reason") == "length", encoded_from_text=encoded,
                fault=_spelling_fault(text, ids, encoded, tokenizer)))
    return found


def _verdict(sample: dict, row: dict) -> bool | None:
    """The stored verdict; text equality with the gold answer for lines of the reference, which store none."""
    if "correct" in sample:
        return bool(sample["correct"]) if sample["correct"] is not None else None
    predicted, gold = sample.get("pred_answer"), row.get("gt_answer")
    return None if gold is None else predicted is not None and str(predicted).strip() == str(gold).strip()


def parquet_rollouts(path: Path, tokenizer: PreTrainedTokenizerBase, *, several: bool = False) -> Iterator[Rollout]:
    """Logged training completions of one file; a torn file is one faulty rollout that names it.

    Raises GrailError for a whole file without the id columns.
    """
    import pyarrow
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise GrailError("no such file.", where=str(path), kind="missing_file") from None
    except (pyarrow.ArrowInvalid, pyarrow.ArrowException, OSError) as error:
        if not several:
            raise GrailError(f"not a whole parquet file ({str(error).splitlines()[0]}).", where=str(path),
                             kind="bad_file", hint="it was cut off while written; leave it out.") from None
        yield Rollout(path.name, fault="unreadable parquet file")
        return
    lacking = [name for name in PARQUET_NEEDS if name not in table.column_names]
    if lacking:
        raise GrailError(f"no column {' and '.join(lacking)}; it has {', '.join(table.column_names)}.",
                         where=str(path), kind="bad_file", hint="give completions that `grail train` logged.")
    for n, row in enumerate(table.to_pylist()):
        name = f"{path.stem}#{n}"
        if row["completion_ids"] is None or row["prompt_ids"] is None:
            yield Rollout(name, fault="unreadable row: no ids")
            continue
        reward, verdict = row.get("reward"), row.get("verdict")
        correct = verdict == "correct" if verdict in ("correct", "wrong", "no_box") else (
            None if reward is None or reward != reward else reward > 0)
        yield Rollout(name, tuple(row["prompt_ids"]), tuple(row["completion_ids"]), _finite(row.get("advantage")),
                      correct, problem=str(row.get("problem_id", "")), truncated=bool(row.get("truncated")),
                      fault=_spelling_fault(row.get("completion"), row["completion_ids"], False, tokenizer))


def checked(rollout: Rollout, tokenizer: PreTrainedTokenizerBase, embeddings: int | None = None) -> Rollout:
    """The rollout, with a fault when it has no tokens or an id outside the vocabulary."""
    if rollout.fault:
        return rollout
    size = len(tokenizer) if embeddings is None else min(len(tokenizer), embeddings)
    outside = next((i for i in (*rollout.prompt_ids, *rollout.completion_ids) if not 0 <= i < size), None)
    fault = ("empty completion" if not rollout.completion_ids else "empty prompt" if not rollout.prompt_ids else
             f"id outside the vocabulary: {outside} of {size}" if outside is not None else "")
    return with_fault(rollout, fault) if fault else rollout


def with_fault(rollout: Rollout, fault: str) -> Rollout:
    """The same rollout, marked as one that cannot be scored."""
    return replace(rollout, fault=fault)


def vocabulary_mark(tokenizer: PreTrainedTokenizerBase) -> str:
    """A fingerprint of token -> id; two tokenizers with the same mark read ids alike."""
    from ..files import sha256_text

    return sha256_text("\n".join(f"{i} {t}" for t, i in sorted(tokenizer.get_vocab().items(), key=lambda x: x[1])))


def _ids(row: dict, what: str, tokenizer: PreTrainedTokenizerBase, prompts: PromptSettings
         ) -> tuple[tuple[int, ...], bool]:
    """Ids of `prompt` or `completion` and whether they were encoded from text."""
    ids = row.get(f"{what}_ids")
    if ids is not None:
        if not isinstance(ids, list) or not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
            raise ValueError(f"{what}_ids is no list of whole numbers")
        return tuple(ids), False
    value: Any = row.get(what)
    if isinstance(value, str):
        return tuple(_encode(tokenizer, value)), True
    if _are_messages(value):
        if what == "completion":
            return tuple(_encode(tokenizer, "".join(m["content"] for m in value))), True
        return tuple(render(tokenizer, value, replace(prompts, suffix="", system=None)).ids), True
    raise ValueError(f"neither {what}_ids nor {what} (text or messages)")


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(
        isinstance(turn, dict) and isinstance(turn.get("content"), str) for turn in value)


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _number(row: dict, key: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) and key != "reward" or not isinstance(value, int | float):
        raise ValueError(f"{key} is {value!r}, not a number")
    if value != value or abs(value) == float("inf"):
        raise ValueError(f"{key} is {value}, not a finite number")
    return float(value)


def _finite(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)


def _spelling_fault(text: object, ids: Iterable[int], encoded: bool, tokenizer: PreTrainedTokenizerBase) -> str:
    """Whether ids spell the text stored beside them; they do not when another tokenizer wrote the file."""
    ids = list(ids)
    if encoded or not isinstance(text, str) or not text or any(not 0 <= i < len(tokenizer) for i in ids):
        return ""
    spelled = {_bare(tokenizer.decode(ids, skip_special_tokens=skip)) for skip in (True, False)}
    return "" if _bare(text) in spelled else "ids do not spell the stored text, another tokenizer wrote them"


def _bare(text: str) -> str:
    return "".join(text.split())
