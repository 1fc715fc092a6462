"""The problems that a run trains on: rows of id, problem and gold answer, read and checked before anything is
loaded.

A problem is a text or a list of chat messages. The order over a run depends on seed and epoch alone, so that
every method and every resumed run sees the same prompts.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import GrailError
from ..hub import advice, reachable
from ..presets.schema import DataSection

FILE_KINDS = (".jsonl", ".json", ".parquet")
GENERATED = ("arith", "arith-hard")  # the tiny task, made from a seed


@dataclass(frozen=True)
class Problems:
    """Rows {problem_id, problem, gold, ...other columns} and what was found on the way."""

    rows: list[dict]
    source: str
    columns: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def fingerprint(self) -> str:
        """SHA-256 over ids, problems and gold answers, in order: the same data or not."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(
                json.dumps([row["problem_id"], row["problem"], row["gold"]], sort_keys=True).encode()
            )
        return digest.hexdigest()


def load_problems(data: DataSection) -> Problems:
    """Read the training problems of section `data`.

    Raises GrailError for a missing or empty file, a missing column (those that exist are named) and a row
    without text or answer (its line is named).
    """
    if data.train in GENERATED:
        from ..tiny.task import train_rows

        data = data.model_copy(update={"prompt_column": "question", "answer_column": "answer"})
        raw, source = train_rows(data.train), data.train
    elif data.train.endswith(FILE_KINDS) or Path(data.train).exists():
        raw, source = _read_file(Path(data.train)), data.train
    else:
        raw, source = _read_hub(data), f"hub:{data.train}"
    return rows_from(raw, data, source)


# arguments that TRL gives a reward by itself, and columns that it would take for pictures or tools: never passed on
RESERVED = ("prompts", "completions", "completion", "completion_ids", "trainer_state", "log_extra", "log_metric",
            "environments", "image", "images", "tools", "row")
OURS = ("prompt", "problem", "gold")  # what a row's problem and answer are called, whatever their columns are


def rows_from(raw: Iterable[dict], data: DataSection, source: str) -> Problems:
    """Check columns and values of raw rows and name every row; raises GrailError as `load_problems` does."""
    rows, columns = [], []
    for number, row in enumerate(raw, start=1):
        if number == 1:
            columns = list(row)
            missing = [name for name in (data.prompt_column, data.answer_column) if name not in row]
            if missing:
                key = "data.prompt_column" if missing[0] == data.prompt_column else "data.answer_column"
                raise GrailError(
                    f"no column {missing[0]!r}; the columns are {', '.join(map(repr, columns))}.",
                    where=source,
                    hint=f"name the right one with --set {key}=NAME.",
                    kind="bad_data",
                )
        if data.limit and number > data.limit:
            break
        problem, gold = row.get(data.prompt_column), row.get(data.answer_column)
        problem = _problem(problem, source, number, data.prompt_column)
        if gold is None or str(gold).strip() == "":
            raise GrailError(
                f"row {number} has no answer in {data.answer_column!r}.",
                where=source,
                kind="bad_data",
                hint="mend or drop this row, or name another column with data.answer_column.",
            )
        extra = {
            name: value
            for name, value in row.items()
            if name not in ("problem_id", *OURS, *RESERVED)
        }
        rows.append({**extra, "problem_id": str(row.get("id", row.get("problem_id", number - 1))),
                     "problem": problem, "gold": str(gold)})
    if not rows:
        raise GrailError("holds no problem.", where=source, kind="bad_data",
                         hint="give a file with one row {prompt, solution} a problem.")
    return Problems(rows, source, columns)


def hidden_columns(problems: Problems, data: DataSection) -> list[str]:
    """Columns that a reward of one's own never sees, because another thing has their name."""
    return [name for name in problems.columns if name in RESERVED
            or name in OURS and name not in (data.prompt_column, data.answer_column)]


def _problem(value: object, source: str, number: int, column: str) -> str | list[dict]:
    """A problem text, or chat messages with a text each."""
    if isinstance(value, str) and value.strip():
        return value
    if (
        isinstance(value, list)
        and value
        and all(
            isinstance(turn, dict)
            and isinstance(turn.get("role"), str)
            and isinstance(turn.get("content"), str)
            for turn in value
        )
    ):
        return [{"role": turn["role"], "content": turn["content"]} for turn in value]
    raise GrailError(
        f"row {number}: {column!r} is {type(value).__name__} {str(value)[:60]!r}, where a text or a list of "
        "{role, content} messages is needed.",
        where=source,
        kind="bad_data",
        hint="mend or drop this row, or name another column with data.prompt_column.",
    )


def _read_file(path: Path) -> list[dict]:
    if not path.is_file():
        raise GrailError(
            "no such file.",
            where=str(path),
            kind="missing_file",
            hint="data.train takes a .jsonl or .parquet file, a Hub data set, `arith` or `arith-hard`.",
        )
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    from ..files import read_jsonl

    return read_jsonl(path)


def _read_hub(data: DataSection) -> Iterable[dict]:
    reachable()
    import datasets

    try:
        return datasets.load_dataset(data.train, data.config, split=data.split, revision=data.revision)
    except (
        FileNotFoundError,
        ConnectionError,
        ValueError,
        datasets.exceptions.DatasetNotFoundError,
    ) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise GrailError(
            f"cannot be loaded: {first}",
            where=f"data.train = {data.train}",
            kind="missing_file",
            hint=advice("check the name and the network, or give a local .jsonl or .parquet file."),
        ) from error


def to_dataset(problems: Problems):
    """Row numbers as the datasets.Dataset that TRL's sampler walks; the trainer looks the rows up itself.

    So answers of any type and columns of mixed types never pass through Arrow.
    """
    import datasets

    return datasets.Dataset.from_dict({"row": list(range(len(problems))), "prompt": [""] * len(problems)})


def too_long(problems: Problems, render: Callable, room: int) -> list[tuple[int, int]]:
    """(row number, tokens) of the prompts with more than `room` tokens, longest first.

    A token has at least one byte, so that only prompts with more than `room` bytes are tokenised; the
    template's share is taken from the first prompt.
    """
    if room <= 0:
        return [(number, 0) for number in range(len(problems))]
    around = len(render(problems.rows[0]["problem"]).text.encode()) - _bytes(problems.rows[0]["problem"])
    long = []
    for number, row in enumerate(problems.rows):
        if _bytes(row["problem"]) + around > room:
            tokens = len(render(row["problem"]).ids)
            if tokens > room:
                long.append((number, tokens))
    return sorted(long, key=lambda item: -item[1])


def without(problems: Problems, numbers: Iterable[int]) -> Problems:
    """The problems without some rows."""
    gone = set(numbers)
    return Problems(
        [row for number, row in enumerate(problems.rows) if number not in gone],
        problems.source,
        problems.columns,
    )


def _bytes(problem: str | list[dict]) -> int:
    return len(
        (problem if isinstance(problem, str) else "".join(turn["content"] for turn in problem)).encode()
    )
