"""`grail analyze` as a function: checkpoints read, scored, tabled and written, one after the other, resumable.

Data first: tokens.jsonl and summary.json of every checkpoint are on disk before a picture is made, and pictures are
made from them alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from . import agreement, faithfulness, steps, tables
from .options import Options
from .plan import Task, plan_runs
from .positional import positional_summary, reference_summary
from .records import Coverage, Rollout, Scored, take_coverage
from .rollouts import checked, read_rollouts, vocabulary_mark
from .score import respread, score_rollouts
from .store import (
    SCHEMA_VERSION,
    SUMMARY,
    TOKENS,
    cell,
    fingerprint,
    read_finished,
    read_tokens,
    write_tokens,
)
from .variants import changes_of
from ..console import Console
from ..errors import GrailError, RunFailed
from ..files import FolderLock, write_json
from ..models import check_folder, is_local, label, load_model, load_tokenizer, resolve_model
from ..prompts import check_stamp, read_stamp

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


FAITHFUL = {"grail": {"method": "grail", "alignment": "predictor"},
            "grail, own position": {"method": "grail", "alignment": "token"},
            "oar_g": {"method": "oar_g"}, "entropy": {"method": "entropy"}, "shuffled": {"method": "shuffled"}}
OAR_G_DRAWS = 4  # one draw of OAR-G's noise agrees with another only at Spearman 0.5


@dataclass(frozen=True)
class Reading:
    """One checkpoint analysed: its rollouts, its summary.json, and the other methods' view of the same rollouts."""

    task: Task
    scored: list[Scored]
    coverage: Coverage
    summary: dict
    variants: dict[str, list[Scored]]


def analyze_rollouts(model: str, rollouts: Path, out: Path, options: Options, console: Console) -> Reading:
    """One model and one file of rollouts: writes out/tokens.jsonl, out/summary.json and the tables' numbers in it."""
    name = resolve_model(model, where="--model")
    task = Task(label(name), name, f"texts: {rollouts.name}",
                lambda tok, prompts: read_rollouts(rollouts, tok, prompts))
    with FolderLock(out):
        return measure(task, options, out, console)


def analyze_runs(runs: list[Path], out: Path, options: dict[str, Options], console: Console, *,
                 results: Path | None = None, rollouts: Path | None = None, texts: str = "own"
                 ) -> tuple[list[Reading], dict[str, str]]:
    """Every checkpoint of the runs: writes out/LABEL/... for each; gives the readings and those skipped, by reason.

    options: by name of the run. A checkpoint whose tokenizer reads ids otherwise than the first one's is skipped under
    shared texts, since the same ids would be other texts to it.
    """
    plan = plan_runs(runs, results=results, rollouts=rollouts, texts=texts)
    skipped, readings, first_mark = dict(plan.skipped), [], None
    with FolderLock(out):
        for task in plan.tasks:
            mark = vocabulary_mark(load_tokenizer(task.checkpoint, **options[task.run].source))
            first_mark = first_mark or mark
            if task.texts.startswith("shared") and mark != first_mark:
                skipped[task.label] = (f"its tokenizer differs from that of {plan.tasks[0].label}, "
                                       "so that the same ids are other texts")
                continue
            readings.append(measure(task, options[task.run], out / task.label, console))
    for label, why in skipped.items():
        console.warn(f"{label} left out: {why}")
    return readings, skipped


def measure(task: Task, options: Options, folder: Path, console: Console) -> Reading:
    """One checkpoint, from disk when it is finished with the same fingerprint, else scored and written."""
    if is_local(task.checkpoint):
        check_folder(task.checkpoint, where=task.label)
    stamp = read_stamp(task.checkpoint) if is_local(task.checkpoint) else None
    tokenizer = load_tokenizer(task.checkpoint, **options.source)
    if stamp is not None:
        check_stamp(stamp, tokenizer, task.checkpoint)
    rollouts = task.read(tokenizer, stamp.settings if stamp is not None else options.prompts)
    rollouts = rollouts[:options.section.max_rollouts]
    mark = fingerprint(task.checkpoint, rollouts, options.facts())
    done = read_finished(folder, mark)
    if done is not None:
        console.say(f"{task.label}: finished before, read from {folder}")
        return _read_back(task, options, folder, done, console)

    model = load_model(task.checkpoint, dtype=options.dtype, **options.source)
    _warn_of_noise(model, options, console)
    size = model.get_input_embeddings().num_embeddings
    rollouts = [checked(r, tokenizer, size) for r in rollouts]
    usable = [r for r in rollouts if not r.fault]
    if not usable:
        coverage = take_coverage([], rollouts)
        raise GrailError("none of its rollouts can be scored: " + "; ".join(coverage.sentences()), where=task.label,
                         kind="bad_data", hint="check that the file was written for this model.")
    started = time.monotonic()
    with console.progress(f"scoring {task.label}", total=len(usable), unit="rollouts") as bar:
        scored = _score(model, tokenizer, usable, options, bar.advance)
    seconds = time.monotonic() - started
    coverage = take_coverage(scored, [r for r in rollouts if r.fault])
    variants, extra = _more(model, tokenizer, scored, options, console)
    write_tokens(folder / TOKENS, rollouts, scored)
    for name, view in variants.items():
        write_tokens(folder / f"tokens-{name}.jsonl", usable, view)
    summary = {
        "schema_version": SCHEMA_VERSION, "grail": __version__, "label": task.label, "run": task.run, "step": task.step,
        "checkpoint": task.checkpoint, "texts": task.texts, "fingerprint": mark, "settings": options.facts(),
        "tokenizer": vocabulary_mark(tokenizer), "device": str(model.device), "dtype": str(model.dtype),
        "seconds_per_rollout": round(seconds / len(usable), 4), "coverage": coverage.as_dict(),
        **_numbers(scored, options, task),
        "tables": {name: [{k: cell(v) for k, v in row.items()} for row in rows]
                   for name, rows in (_tables(scored, options) | extra).items()}}
    write_json(folder / SUMMARY, summary)
    _warn(task, coverage, console)
    return Reading(task, scored, coverage, summary, variants)


def _read_back(task: Task, options: Options, folder: Path, summary: dict, console: Console) -> Reading:
    scored, _ = read_tokens(folder / TOKENS)
    variants = {name: read_tokens(folder / f"tokens-{name}.jsonl")[0] for name in options.compare}
    coverage = Coverage.from_dict(summary["coverage"])
    _warn(task, coverage, console)
    return Reading(task, scored, coverage, summary, variants)


def _warn(task: Task, coverage: Coverage, console: Console) -> None:
    for sentence in coverage.sentences():
        console.warn(f"{task.label}: {sentence}")


def _warn_of_noise(model: PreTrainedModel, options: Options, console: Console) -> None:
    """OAR-G's divergence is about 1e-5, below what half precision resolves: its scores would be rounding."""
    asked = [options.settings.method, *options.compare] + ["oar_g"] * options.faithful
    if model.dtype.itemsize < 4 and any(name.startswith("oar") for name in asked):
        console.warn(f"oar scores of a model in {str(model.dtype).removeprefix('torch.')} are mostly rounding; "
                     "--set model.dtype=float32")


def _score(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, chosen: list[Rollout], options: Options,
           advance: Callable[[int], None], add_seed: int = 0, **changes) -> list[Scored]:
    return score_rollouts(model, tokenizer, chosen, options.settings.model_copy(update=changes),
                          temperature=options.temperature, batch_tokens=options.section.batch_tokens,
                          seed=options.section.seed + add_seed, advance=advance, readings=not changes)


def _numbers(scored: list[Scored], options: Options, task: Task) -> dict:
    s = options.section
    return {"positional": positional_summary(scored, bins=s.bins, drop_first=s.drop_first, drop_last=s.drop_last,
                                             draws=s.bootstrap, seed=s.seed),
            "reference": reference_summary(scored, step=task.step, bins=s.bins)}


def _tables(scored: list[Scored], options: Options) -> dict[str, list[dict]]:
    c, drawn = options.settings, {"draws": options.section.bootstrap, "seed": options.section.seed}
    found = {"weights": tables.weight_table(scored, w_min=c.w_min, w_max=c.w_max, **drawn),
             "signal": tables.signal_table(scored, **drawn),
             "concentration": tables.concentration_table(scored, **drawn),
             "agreement": agreement.agreement_table(scored, **drawn),
             "token_types": tables.token_type_table(scored), "classes": tables.class_table(scored, **drawn)}
    if c.method == "grail":
        spreads = {stats: [respread(one, c.model_copy(update={"stats": stats})) for one in scored]
                   for stats in ("completion", "reasoning")}
        found["tail"] = tables.tail_groups(scored, spreads, **drawn)
        found["tail_lengths"] = tables.tail_lengths(
            scored, lambda one, stats: respread(one, c.model_copy(update={"stats": stats})), **drawn)
    return found


def _more(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, scored: list[Scored], options: Options,
          console: Console) -> tuple[dict[str, list[Scored]], dict[str, list[dict]]]:
    """The other methods on the same rollouts (--compare) and the checks of faithfulness (--faithfulness)."""
    usable, extra = [s.rollout for s in scored], {}
    drawn = {"draws": options.section.bootstrap, "seed": options.section.seed}
    variants: dict[str, list[Scored]] = {}
    for name in options.compare:
        changes, seed = changes_of(name)
        changes = {"rollouts": "all", "oar_draws": max(options.settings.oar_draws, OAR_G_DRAWS)} | changes
        with console.progress(f"scoring by {name}", total=len(usable), unit="rollouts") as bar:
            view = _score(model, tokenizer, usable, options, bar.advance, add_seed=seed, **changes)
        variants[name] = [replace(v, entropy=s.entropy, logprob=s.logprob) for v, s in zip(view, scored, strict=True)]
    if variants:
        extra["compare"] = agreement.compare_table(variants, **drawn)
        extra["methods"] = agreement.method_table(variants, **drawn)
        if found := steps.wrong_steps(scored, tokenizer):  # of the arithmetic task, which alone knows them
            extra["first_wrong_step"] = steps.step_table(variants, found, **drawn)
    if options.faithful:
        extra |= _faithfulness(model, tokenizer, scored, options, console)
    return variants, extra


def _faithfulness(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, scored: list[Scored], options: Options,
                  console: Console) -> dict[str, list[dict]]:
    drawn = {"draws": options.section.bootstrap, "seed": options.section.seed}
    kept = [s for s in scored if s.reasoning]
    if not kept:
        raise RunFailed("no rollout has reasoning before a box, so that nothing can be deleted.",
                        where="--faithfulness")
    rollouts, by_method = [s.rollout for s in kept], {}
    for name, changes in FAITHFUL.items():
        view = _score(model, tokenizer, rollouts, options, lambda n: None, rollouts="all", oar_draws=OAR_G_DRAWS,
                      **changes)
        by_method[name] = [replace(v, entropy=s.entropy, logprob=s.logprob) for v, s in zip(view, kept, strict=True)]
    with console.progress("deleting tokens", total=len(kept), unit="rollouts") as bar:
        deletion = faithfulness.deletion_table(
            model, by_method, pad_id=tokenizer.pad_token_id or 0, temperature=options.temperature,
            batch_tokens=options.section.batch_tokens, advance=bar.advance, **drawn)
    few = rollouts[::-(-len(rollouts) // faithfulness.OAR_P_ROLLOUTS)]  # spread over the problems
    with console.progress("OAR-P, one forward pass a token", total=len(few), unit="rollouts") as bar:
        oar_p = _score(model, tokenizer, few, options, bar.advance, method="oar_p", rollouts="all")
    fresh = faithfulness.random_model(model, options.section.seed)
    untrained = _score(fresh, tokenizer, rollouts, options, lambda n: None, method="grail", rollouts="all")
    return {"deletion": deletion,
            "against_oar_p": faithfulness.reference_table(by_method, oar_p, name="oar_p", **drawn),
            "against_random_model": faithfulness.reference_table({"grail": by_method["grail"]}, untrained,
                                                                 name="random weights", **drawn)}
