"""One model on its suites: claim the folder, sample what is missing, grade, write, summarise.

Everything that can be wrong is found before the model is loaded; everything finished is on disk before it is
counted.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..console import Console
from ..errors import GrailError, RunFailed
from ..files import FolderLock, write_json
from ..models import check_folder, is_local, label, resolve_model
from ..prompts import PromptSettings, check_stamp, messages, read_stamp, render
from .backend import Backend, Failed, Finished, Request, seed_of
from .benchmarks import Problem, load_suite, safe_name
from .grade import GRADER_VERSION, Grader
from .grading import grade_samples
from .provenance import provenance, settings_of, stamp_time
from .resume import find_missing, settle_mix
from .score import averages, suite_scores
from .store import SUMMARY, Key, ResultsFolder, SuiteFolder, read_results, result_lines

if TYPE_CHECKING:
    from ..presets.schema import Preset

JOURNAL_EVERY_S = 0.5  # finished samples are synced to the journal at least so often


@dataclass
class Job:
    """What is asked of every model: suites in order, the preset, where results go, and what the flags
    allow. kind: what will sample, where it is known before it is opened.
    """

    preset: "Preset"
    suites: dict[str, list[Problem]]
    out: Path
    new: bool = False
    allow_missing: bool = False
    command: list[str] = field(default_factory=list)
    mix_backends: bool = False
    kind: str | None = None


def load_suites(
    names: list[str], data_dir: str | None, limit: int | None, say: Callable[[str], None]
) -> dict[str, list[Problem]]:
    """Suite -> problems for every name; limit: the first problems only. Raises GrailError before anything heavy."""
    suites: dict[str, list[Problem]] = {}
    for name in names:
        suite, problems = load_suite(name, data_dir, say)
        if safe_name(suite) in map(safe_name, suites):
            raise GrailError(f"the suite {suite!r} is named twice.", where="eval.bench")
        suites[suite] = problems[:limit]
    if not suites:
        raise GrailError("no suite was named.", where="eval.bench", hint="grail bench list")
    return suites


def evaluate(
    model: str, job: Job, open_backend: Callable[..., AbstractContextManager[Backend]], console: Console
) -> dict:
    """Evaluate one model; returns its summary (also written to results/LABEL/eval_summary.json).

    open_backend(model, prompts) -> context manager of a Backend; opened only when samples are missing.
    Raises GrailError for settings that do not fit the folder, RunFailed when too many samples failed.
    """
    name = label(model)
    folder = ResultsFolder(job.out / safe_name(name))
    source = resolve_model(model, where="--model")
    if is_local(source):
        check_folder(source, where="--model")
    stamp = read_stamp(source) if is_local(source) else None
    prompts = stamp.settings if stamp else PromptSettings.of(job.preset)
    with FolderLock(folder.folder):
        started = time.time()
        folder.claim(
            settings_of(source, job, prompts),
            provenance(name, source, job, "checkpoint" if stamp else "preset"),
            job.new,
        )
        failures: dict[str, list[Failed]] = {}
        with Grader(workers=grading_workers(), strictness=job.preset.eval.strictness) as grader:
            _sample(folder, source, job, prompts, stamp, open_backend, console, failures, grader)
            for suite, problems in job.suites.items():
                finish_suite(folder.suite(suite), problems, grader, console)
        summary = summarise(folder.folder)
        folder.finish(
            suites={
                safe_name(suite): suite
                for suite in summary
                if isinstance(summary[suite], dict) and "verdicts" in summary[suite]
            },
            started=stamp_time(started),
            ended=stamp_time(time.time()),
        )
        _check_failed(summary, job, failures, str(folder.folder))
    return {"label": name, "folder": str(folder.folder), "suites": summary}


def _sample(
    folder: ResultsFolder,
    model: str,
    job: Job,
    prompts: PromptSettings,
    stamp,
    open_backend,
    console: Console,
    failures: dict[str, list[Failed]],
    grader: Grader,
) -> None:
    """Sample whatever is missing in every suite, through one backend."""
    n = job.preset.eval.n
    waiting = find_missing(folder, job.suites, n, console)
    if not waiting:
        return
    told = {"new": job.new, "mix": job.mix_backends}
    if job.kind and settle_mix(folder, job.kind, **told):
        waiting = find_missing(folder, job.suites, n, console)
    with open_backend(model, prompts) as (backend, tokenizer):
        if settle_mix(folder, str(backend.about["backend"]), **told):
            waiting = find_missing(folder, job.suites, n, console)
        folder.note_backend(backend.about)
        if stamp is not None and tokenizer is not None:
            check_stamp(stamp, tokenizer, where=model)
        for suite, (place, have, missing) in waiting.items():
            total = n * len(job.suites[suite])
            requests = list(_requests(suite, job, prompts, tokenizer))
            golds = {problem.id: problem.gold for problem in job.suites[suite]}
            running = Running(golds, grader)
            with console.progress(
                f"{label(model)} on {suite}", total=total, unit="samples", done=total - missing
            ) as bar:
                try:
                    failures[suite] = _drain(backend, requests, have, place, bar, running)
                except KeyboardInterrupt as stop:
                    note = f"{bar.done} of {total} samples of {suite} are kept; the same command goes on."
                    stop.args = (note,)
                    raise


def _requests(suite: str, job: Job, prompts: PromptSettings, tokenizer) -> Iterator[Request]:
    for problem in job.suites[suite]:
        rendered = render(tokenizer, problem.question, prompts).ids if tokenizer is not None else None
        yield Request(
            problem.id,
            0,
            job.preset.eval.n,
            seed_of(job.preset.eval.seed, suite, problem.id),
            messages(problem.question, prompts),
            rendered,
        )


class Running:
    """What the progress line says: tokens a second, accuracy so far, failures. The grader's cache keeps its
    verdicts for the end.
    """

    def __init__(self, golds: dict[str, str], grader: Grader):
        self.golds, self.grader = golds, grader
        self.tokens = self.right = self.count = 0
        self.begun = time.monotonic()

    def add(self, rows: list[dict]) -> None:
        self.tokens += sum(row["completion_tokens"] or 0 for row in rows)
        verdicts = self.grader.grade([(self.golds[row["id"]], row["solution"]) for row in rows])
        self.right += sum(verdict.correct for verdict in verdicts)
        self.count += len(rows)

    def note(self, failed: int) -> str:
        rate = self.tokens / max(time.monotonic() - self.begun, 1e-9)
        return f"{rate:,.0f} tokens/s, accuracy {100 * self.right / self.count:.1f} %" + (
            f", {failed} failed" if failed else ""
        )


def _drain(
    backend: Backend,
    requests: list[Request],
    have: dict[Key, dict],
    place: SuiteFolder,
    bar,
    running: Running,
) -> list[Failed]:
    """Journal samples as they finish; nothing counts as done before its line is synced."""
    failed, fresh = [], []
    synced = time.monotonic()
    stream = backend.generate(requests, frozenset(have))
    try:
        for item in stream:
            if isinstance(item, Failed):
                failed.append(item)
                continue
            fresh.append(_row(item))
            if time.monotonic() - synced > JOURNAL_EVERY_S:
                place.add(fresh)
                running.add(fresh)
                bar.advance(len(fresh), running.note(len(failed)))
                fresh, synced = [], time.monotonic()
    except BaseException:  # stopped or broken: what is finished is kept, not graded now
        if fresh:
            there = place.load()  # the signal may have come just after they were written
            place.add([row for row in fresh if (row["id"], row["sample"]) not in there])
            bar.advance(len(fresh))
        raise
    if fresh:
        place.add(fresh)
        running.add(fresh)
        bar.advance(len(fresh), running.note(len(failed)))
    return failed


def _row(item: Finished) -> dict:
    return {
        "id": item.problem_id,
        "sample": item.sample,
        "seed": item.seed,
        "solution": item.text,
        "completion_ids": item.completion_ids,
        "completion_tokens": item.completion_tokens,
        "finish_reason": item.finish_reason,
        "prompt_ids": item.prompt_ids,
    }


def finish_suite(place: SuiteFolder, problems: list[Problem], grader: Grader, console: Console) -> None:
    """Grade a suite's samples and write samples.jsonl."""
    samples = place.load()
    with console.progress(f"grading {place.name}", total=None, unit="answers") as bar:
        grade_samples(problems, samples, grader, bar.advance)
    place.complete(result_lines(problems, samples))


def summarise(folder: Path) -> dict:
    """The summary of everything that lies in a model's folder, written to eval_summary.json."""
    results = read_results(folder)
    settings = (results.manifest or {}).get("settings", {})
    summary: dict[str, dict] = {}
    for suite, content in results.suites.items():
        n = 1 + max(
            (
                s.get("sample") if s.get("sample") is not None else place
                for line in content.problems
                for place, s in enumerate(line["generated_solutions"])
            ),
            default=0,
        )
        summary[suite] = suite_scores(content.problems, n)
    if summary:
        sizes = {s["n"] for s in summary.values()}
        if len(sizes) == 1:
            summary |= averages(summary, sizes.pop())
    summary["grader"] = {"version": GRADER_VERSION, "strictness": settings.get("strictness", "lenient")}
    write_json(folder / SUMMARY, summary)
    return summary


def _check_failed(summary: dict, job: Job, failures: dict[str, list[Failed]], where: str) -> None:
    for suite in job.suites:
        scores = summary[suite]
        share = scores["failed"] / (scores["n"] * scores["samples"])
        if scores["failed"] and share > job.preset.eval.max_failed_share and not job.allow_missing:
            why = next(iter(failures.get(suite, [])), None)
            raise RunFailed(
                f"{scores['failed']} of {scores['n'] * scores['samples']} samples of {suite} failed"
                f"{f' (first: {why.why})' if why else ''}, more than "
                f"eval.max_failed_share={job.preset.eval.max_failed_share}.",
                where=where,
                kind="failed_samples",
                hint="run the same command again to fill them in, or --allow-missing to count without them.",
            )


def grading_workers() -> int:
    """Grading processes: the cores, four at most."""
    return max(
        1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    )
