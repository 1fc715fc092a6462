"""Results on disk: a journal while sampling, whole files afterwards, settings that cannot mix, a reader for
both worlds.

results/LABEL/manifest.json (settings first, before any sample), results/LABEL/SUITE/samples.journal.jsonl (one synced
line a finished sample), results/LABEL/SUITE/samples.jsonl (a line a problem, once the suite is complete) and
results/LABEL/eval_summary.json, always computed from the samples that lie there.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import GrailError
from ..files import append_jsonl, mend_jsonl, read_json, read_jsonl, write_json, write_text
from .benchmarks import SUITES, Problem, safe_name, text_hash

SAMPLES, JOURNAL, SUMMARY, MANIFEST = (
    "samples.jsonl",
    "samples.journal.jsonl",
    "eval_summary.json",
    "manifest.json",
)
PROBLEMS = "problems.json"
_OF_SAMPLES = ("backends", "suites", "ended")  # of the manifest: what the samples made true
Key = tuple[str, int]  # (problem id, sample index)


@dataclass
class SuiteResults:
    """The result lines of one suite: dicts as samples.jsonl holds them, in suite order."""

    problems: list[dict] = field(default_factory=list)


@dataclass
class ModelResults:
    """One folder of results: its label, suites, and the summary and manifest that lie there (None where they
    do not).
    """

    label: str
    suites: dict[str, SuiteResults]
    summary: dict | None
    manifest: dict | None


class ResultsFolder:
    """results/LABEL while an evaluation writes to it; whoever uses it holds `files.FolderLock` on it."""

    def __init__(self, folder: Path):
        self.folder = folder

    def claim(self, settings: dict, provenance: dict, new: bool) -> None:
        """Write the manifest, or compare the settings of the one that is there.

        Raises GrailError naming every setting that differs: samples of two settings never mix. new: move the old
        results aside instead.
        """
        path = self.folder / MANIFEST
        if path.is_file():
            before = read_json(path)
            old = before.get("settings", {}) if isinstance(before, dict) else {}
            differ = [key for key in sorted({*old, *settings}) if old.get(key) != settings.get(key)]
            if not differ:
                return
            if not new:
                lines = "; ".join(
                    f"{key} was {shorten(old.get(key))}, now {shorten(settings.get(key))}" for key in differ
                )
                raise GrailError(
                    f"holds samples of other settings: {lines}.",
                    where=str(self.folder),
                    kind="settings_differ",
                    hint="use the same settings, another --out, or --new to move the old results aside.",
                )
            self._move_aside()
        elif any(self.folder.glob(f"*/{SAMPLES}")) or any(self.folder.glob(f"*/{JOURNAL}")):
            raise GrailError(
                "holds samples without a manifest, so their settings cannot be compared.",
                where=str(self.folder),
                kind="settings_differ",
                hint="choose another --out, or --new to move them aside.",
            )
        write_json(path, {"settings": settings, **provenance})

    def _move_aside(self) -> None:
        number = 1
        while (self.folder / f"old-{number}").exists():
            number += 1
        aside = self.folder / f"old-{number}"
        aside.mkdir()
        for entry in sorted(self.folder.iterdir()):
            if not entry.name.startswith(("old-", ".lock")):
                entry.rename(aside / entry.name)

    def finish(self, **more: object) -> None:
        """Add to the manifest: outcome, end, times."""
        path = self.folder / MANIFEST
        write_json(path, {**read_json(path), **more})

    def note_backend(self, about: dict) -> None:
        """Add who samples to the manifest; an evaluation that was resumed may have had several."""
        known = read_json(self.folder / MANIFEST).get("backends", [])
        if about not in known:
            self.finish(backends=[*known, about])

    def kinds(self) -> set[str]:
        """The kinds of backend, such as vllm, that the samples came from, as far as they say."""
        known = read_json(self.folder / MANIFEST).get("backends", [])
        return {one["backend"] for one in known if one.get("backend")}

    def begin_again(self) -> None:
        """Move the samples aside and keep the settings."""
        kept = read_json(self.folder / MANIFEST)
        self._move_aside()
        write_json(self.folder / MANIFEST, {k: v for k, v in kept.items() if k not in _OF_SAMPLES})

    def suite(self, name: str) -> "SuiteFolder":
        return SuiteFolder(self.folder / safe_name(name), name)


class SuiteFolder:
    """The samples of one suite: `load` what is there, `add` to the journal, `complete` into samples.jsonl."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.mended = False

    def claim(self, problems: list[Problem]) -> None:
        """Note the hashes of the problems. Raises GrailError for one that was asked differently before."""
        path = self.folder / PROBLEMS
        known = read_json(path) if path.is_file() else {}
        now = {problem.id: text_hash(problem.question + "\n" + problem.gold) for problem in problems}
        other = [identity for identity, mark in now.items() if known.get(identity, mark) != mark]
        if other:
            raise GrailError(
                f"holds samples of another question or gold under {len(other)} ids (first: {other[0]}).",
                where=str(self.folder),
                kind="settings_differ",
                hint="use the same file, another --out, or --new to move the old results aside.",
            )
        if not now.keys() <= known.keys():
            write_json(path, {**known, **now})

    def load(self) -> dict[Key, dict]:
        """Every finished sample by (problem id, sample index), from samples.jsonl and the journal; a torn
        end is cut.
        """
        found: dict[Key, dict] = {}
        self.mended = mend_jsonl(self.folder / JOURNAL)
        if (self.folder / JOURNAL).is_file():
            for row in read_jsonl(self.folder / JOURNAL):
                found.setdefault((row["id"], row["sample"]), row)
        if (self.folder / SAMPLES).is_file():
            for line in read_jsonl(self.folder / SAMPLES):
                for sample in line["generated_solutions"]:
                    found[(line["id"], sample["sample"])] = {
                        "id": line["id"],
                        "prompt_ids": line.get("prompt_ids"),
                        **sample,
                    }
        return found

    def add(self, rows: list[dict]) -> None:
        """Append finished samples to the journal, synced."""
        self.folder.mkdir(parents=True, exist_ok=True)
        append_jsonl(self.folder / JOURNAL, rows)

    def complete(self, lines: Iterable[dict]) -> None:
        """Write samples.jsonl whole, then drop the journal."""
        write_lines(self.folder / SAMPLES, lines)
        (self.folder / JOURNAL).unlink(missing_ok=True)


def result_lines(problems: list[Problem], samples: Mapping[Key, dict]) -> list[dict]:
    """The lines of samples.jsonl: problems in suite order, their samples by index; fields in a fixed order."""
    by_problem: dict[str, list[dict]] = {}
    for (identity, _), row in sorted(samples.items(), key=lambda item: item[0][1]):
        by_problem.setdefault(identity, []).append(row)
    fields = (
        "solution",
        "pred_answer",
        "completion_tokens",
        "completion_ids",
        "correct",
        "verdict",
        "rule",
        "answer_class",
        "finish_reason",
        "seed",
        "sample",
    )
    return [
        {
            "id": problem.id,
            "question": problem.question,
            "gt_answer": problem.gold,
            "prompt_ids": next(
                (row.get("prompt_ids") for row in by_problem.get(problem.id, []) if row.get("prompt_ids")),
                None,
            ),
            "generated_solutions": [
                {name: row.get(name) for name in fields} for row in by_problem.get(problem.id, [])
            ],
        }
        for problem in problems
    ]


def write_lines(path: Path, lines: Iterable[dict]) -> None:
    """A JSON Lines file, whole or not at all."""
    import json

    write_text(path, "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines))


def shorten(value: object) -> str:
    """A setting as it is shown in a sentence."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def read_results(folder: str | Path) -> ModelResults:
    """The results below one model's folder: ours, or the reference's `result-*-*.jsonl` files.

    Raises GrailError for a folder without results, a line without its fields, an id that comes twice.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise GrailError(
            "no such folder." if not folder.exists() else "a file, where a folder of results is needed.",
            where=str(folder),
            kind="missing_file",
        )
    manifest = read_json(folder / MANIFEST) if (folder / MANIFEST).is_file() else None
    summary = read_json(folder / SUMMARY) if (folder / SUMMARY).is_file() else None
    names = (manifest or {}).get("suites", {}) if isinstance(manifest, dict) else {}
    suites = {
        names.get(path.parent.name, path.parent.name): path
        for path in sorted(folder.glob(f"*/{SAMPLES}"))
        if not path.parent.name.startswith("old-")
    }
    if not suites:
        for path in sorted(folder.glob("result-*.jsonl")):
            suites[reference_suite(path.name, folder.name)] = path
    if not suites:
        raise GrailError(
            f"no results here: neither SUITE/{SAMPLES} nor result-*-*.jsonl.",
            where=str(folder),
            kind="no_results",
            hint="give a folder that grail eval wrote, such as results/NAME.",
        )
    label = manifest.get("label", folder.name) if isinstance(manifest, dict) else folder.name
    return ModelResults(
        label, {name: SuiteResults(_checked(path)) for name, path in suites.items()}, summary, manifest
    )


def reference_suite(file_name: str, model: str) -> str:
    """The suite in a name like result-MODEL-SUITE.jsonl or result-SUITE-MODEL.jsonl."""
    stem = file_name.removeprefix("result-").removesuffix(".jsonl")
    for name in sorted(SUITES, key=len, reverse=True):
        if re.search(rf"(?:^|-){re.escape(name)}(?:-|$)", stem):
            return name
    rest = stem.replace(model, "").strip("-")
    return rest or stem


def _checked(path: Path) -> list[dict]:
    lines = read_jsonl(path)
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        missing = [key for key in ("question", "gt_answer", "generated_solutions") if key not in line]
        if missing:
            raise GrailError(
                f"line {number} has no {missing[0]!r}; it has: {', '.join(line)}.",
                where=f"{path}:{number}",
                kind="bad_file",
                hint="a result line has question, gt_answer and generated_solutions.",
            )
        if not isinstance(line["generated_solutions"], list) or not all(
            isinstance(s, dict) for s in line["generated_solutions"]
        ):
            raise GrailError(
                f"generated_solutions of line {number} is no list of objects.",
                where=f"{path}:{number}",
                kind="bad_file",
            )
        identity = line.get("id")
        if identity is not None:
            if str(identity) in seen:
                raise GrailError(
                    f"the id {identity!r} comes in lines {seen[str(identity)]} and {number}.",
                    where=f"{path}:{number}",
                    kind="bad_file",
                    hint="remove one of them.",
                )
            seen[str(identity)] = number
    return lines
