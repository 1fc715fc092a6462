"""One model on its suites: claim the folder, sample what is missing, grade, write, summarise.

Everything that can be wrong is found before the model is loaded; everything finished is on disk before it is counted.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..console import Console
from ..errors import GrailError, RunFailed
from ..files import FolderLock, sha256_file, sha256_text, write_json
from ..models import check_folder, is_local, label, resolve_model
from ..prompts import PromptSettings, check_stamp, messages, read_stamp, render
from .backend import Backend, Failed, Finished, Request, Sampling, seed_of
from .benchmarks import Problem, fingerprint, load_suite, safe_name
from .grade import GRADER_VERSION, Grader
from .grading import grade_samples
from .score import averages, suite_scores
from .store import SUMMARY, Key, ResultsFolder, SuiteFolder, read_results, result_lines

if TYPE_CHECKING:
    from ..presets.schema import Preset

JOURNAL_EVERY_S = 0.5  # finished samples are synced to the journal at least so often


@dataclass
class Job:
    """What is asked of every model: suites in order, the preset, where results go, and what the flags allow."""

    preset: "Preset"
    suites: dict[str, list[Problem]]
    out: Path
    new: bool = False
    allow_missing: bool = False
    command: list[str] = field(default_factory=list)


def load_suites(names: list[str], data_dir: str | None, limit: int | None, say: Callable[[str], None]) -> dict[str, list[Problem]]:
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


def evaluate(model: str, job: Job, open_backend: Callable[..., AbstractContextManager[Backend]], console: Console) -> dict:
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
        folder.claim(settings_of(source, job, prompts), provenance(name, source, job, "checkpoint" if stamp else "preset"), job.new)
        failures: dict[str, list[Failed]] = {}
        _sample(folder, source, job, prompts, stamp, open_backend, console, failures)
        with Grader(workers=grading_workers(), strictness=job.preset.eval.strictness) as grader:
            for suite, problems in job.suites.items():
                finish_suite(folder.suite(suite), problems, grader, console)
        summary = summarise(folder.folder)
        folder.finish(suites={safe_name(suite): suite for suite in summary if isinstance(summary[suite], dict) and "verdicts" in summary[suite]},
                      started=stamp_time(started), ended=stamp_time(time.time()))
        _check_failed(summary, job, failures, str(folder.folder))
    return {"label": name, "folder": str(folder.folder), "suites": summary}


def _sample(folder: ResultsFolder, model: str, job: Job, prompts: PromptSettings, stamp, open_backend, console: Console,
            failures: dict[str, list[Failed]]) -> None:
    """Sample whatever is missing in every suite, through one backend."""
    n = job.preset.eval.n
    waiting: dict[str, tuple[SuiteFolder, dict[Key, dict], int]] = {}
    for suite, problems in job.suites.items():
        place = folder.suite(suite)
        have = place.load()
        if place.mended:
            console.warn(f"{suite}: a torn last line of the journal was cut off; that sample is made again.")
        _check_size(have, problems, n, place)
        missing = sum((problem.id, sample) not in have for problem in problems for sample in range(n))
        if missing:
            waiting[suite] = (place, have, missing)
    if not waiting:
        return
    with open_backend(model, prompts) as (backend, tokenizer):
        if stamp is not None and tokenizer is not None:
            check_stamp(stamp, tokenizer, where=model)
        for suite, (place, have, missing) in waiting.items():
            total = n * len(job.suites[suite])
            requests = list(_requests(suite, job, prompts, tokenizer))
            with console.progress(f"{label(model)} on {suite}", total=total, unit="samples", done=total - missing) as bar:
                try:
                    failures[suite] = _drain(backend, requests, have, place, bar)
                except KeyboardInterrupt as stop:
                    note = f"{bar.done} of {total} samples of {suite} are kept; the same command goes on."
                    stop.args = (note,)
                    raise


def _requests(suite: str, job: Job, prompts: PromptSettings, tokenizer) -> Iterator[Request]:
    for problem in job.suites[suite]:
        rendered = render(tokenizer, problem.question, prompts).ids if tokenizer is not None else None
        yield Request(problem.id, 0, job.preset.eval.n, seed_of(job.preset.eval.seed, suite, problem.id), messages(problem.question, prompts), rendered)


def _drain(backend: Backend, requests: list[Request], have: dict[Key, dict], place: SuiteFolder, bar) -> list[Failed]:
    """Journal samples as they finish; nothing counts as done before its line is synced."""
    failed, fresh, tokens = [], [], 0
    synced = begun = time.monotonic()
    stream = backend.generate(requests, frozenset(have))
    try:
        for item in stream:
            if isinstance(item, Failed):
                failed.append(item)
                continue
            tokens += item.completion_tokens or 0
            fresh.append(_row(item))
            if time.monotonic() - synced > JOURNAL_EVERY_S:
                place.add(fresh)
                bar.advance(len(fresh), f"{tokens / (time.monotonic() - begun):,.0f} tokens/s" + (f", {len(failed)} failed" if failed else ""))
                fresh, synced = [], time.monotonic()
    finally:
        if fresh:
            place.add(fresh)
            bar.advance(len(fresh))
    return failed


def _row(item: Finished) -> dict:
    return {"id": item.problem_id, "sample": item.sample, "seed": item.seed, "solution": item.text, "completion_ids": item.completion_ids,
            "completion_tokens": item.completion_tokens, "finish_reason": item.finish_reason, "prompt_ids": item.prompt_ids}


def _check_size(have: dict[Key, dict], problems: list[Problem], n: int, place: SuiteFolder) -> None:
    """Growing n or the limit keeps what is there; shrinking would throw samples away, so it is refused."""
    names = {problem.id for problem in problems}
    most = 1 + max((sample for _, sample in have), default=-1)
    more = len({identity for identity, _ in have} - names)
    if most > n or more:
        what = f"{most} samples a problem, more than the {n} asked for" if most > n else f"{more} problems beyond those asked for"
        raise GrailError(f"holds {what}.", where=str(place.folder), kind="settings_differ",
                         hint="ask for as many or more (--n, --limit), or choose another --out.")


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
        n = 1 + max((s.get("sample") if s.get("sample") is not None else place for line in content.problems
                     for place, s in enumerate(line["generated_solutions"])), default=0)
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
            raise RunFailed(f"{scores['failed']} of {scores['n'] * scores['samples']} samples of {suite} failed"
                            f"{f' (first: {why.why})' if why else ''}, more than eval.max_failed_share={job.preset.eval.max_failed_share}.",
                            where=where, kind="failed_samples",
                            hint="run the same command again to fill them in, or --allow-missing to count without them.")


def settings_of(model: str, job: Job, prompts: PromptSettings) -> dict:
    """What must be equal for samples to lie in one folder; n, the suites and the limit may grow."""
    section = job.preset.eval
    return {"model": model, "model_hash": model_hash(model), "revision": job.preset.model.revision,
            "sampling": sampling_of(section).__dict__, "seed": section.seed, "strictness": section.strictness,
            "batch_size": section.batch_size, "prompt_suffix": prompts.suffix, "system_prompt": prompts.system, "thinking": prompts.thinking,
            "chat_template_kwargs": prompts.chat_template_kwargs,
            "chat_template_sha": sha256_text(prompts.chat_template) if prompts.chat_template else None, "grader": GRADER_VERSION}


def sampling_of(section) -> Sampling:
    """The sampling parameters of a preset's section `eval`."""
    return Sampling(section.temperature, section.top_p, section.top_k, section.min_p, section.max_new_tokens)


def model_hash(model: str) -> str | None:
    """A hash of a local checkpoint: its small files whole, its weights by name, size and first and last megabyte."""
    if not is_local(model):
        return None
    parts = []
    for path in sorted(Path(model).iterdir()):
        if path.suffix in (".json", ".jinja") and path.name != "trainer_state.json" and path.is_file():
            parts.append(f"{path.name} {sha256_file(path)}")
        elif path.suffix in (".safetensors", ".bin") and path.name.startswith(("model", "adapter", "pytorch_model")):
            size = path.stat().st_size
            with open(path, "rb") as file:
                head = file.read(1 << 20)
                file.seek(max(0, size - (1 << 20)))
                parts.append(f"{path.name} {size} {sha256_text((head + file.read()).hex())}")
    return sha256_text("\n".join(parts))[:16]


def provenance(name: str, model: str, job: Job, prompts_from: str) -> dict:
    """What a reader of the results has to know beside the settings."""
    return {"label": name, "n": job.preset.eval.n, "limit": job.preset.eval.limit, "prompts_from": prompts_from,
            "suites_hash": {suite: fingerprint(problems) for suite, problems in job.suites.items()},
            "versions": {"grail": __version__, "python": platform.python_version(),
                         **{package: _version(package) for package in ("torch", "transformers", "math-verify", "openai", "vllm")}},
            "command": job.command, "host": platform.node(), "started": stamp_time(time.time())}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def stamp_time(seconds: float) -> str:
    """A time as text, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def grading_workers() -> int:
    """Grading processes: the cores, four at most."""
    return max(1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))
