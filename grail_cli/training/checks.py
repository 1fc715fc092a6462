"""Everything that can be wrong with a run, found before a weight is loaded, all of it at once.

`check_run` looks at preset, batch arithmetic, data, prompt lengths, gold answers, reward, disk, ports and
what this machine lacks. It loads no weights and starts no process group.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import GrailError
from ..hub import model_folder
from ..machine import gpu_count, needs
from ..models import check_folder, context_length, is_adapter, is_local, resolve_model
from ..presets.load import Resolved
from ..presets.schema import Preset
from .batches import batch_faults, batch_plan
from .combinations import combination_faults, combination_warnings
from .config import processes
from .data import GENERATED, Problems, hidden_columns, load_problems, too_long
from .rewards import trial_call
from .trackers import tracker_faults

GOLDS_CHECKED = 500  # gold answers that are graded against themselves before training, evenly over the data
BAD_GOLD_SHARE = 0.05
STALE_LOCK_S = 300.0


@dataclass
class Report:
    """What the checks found.

    faults stop the run; missing is what this machine lacks; warnings are said; problems is their number, None
    when they were not read; facts go to --json and the manifest.
    """

    faults: list[GrailError] = field(default_factory=list)
    missing: list[GrailError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: int | None = None
    facts: dict = field(default_factory=dict)

    def look(self, check: Callable):
        """Run one check; its fault is kept instead of stopping at it."""
        try:
            return check()
        except GrailError as fault:
            self.faults += getattr(fault, "faults", [fault])
            return None


def check_run(resolved: Resolved, folder: Path, *, deep: bool = True) -> Report:
    """Check a run of this preset into this folder; deep=False reads no data set and no tokenizer (--dry-run).
    """
    report, preset = Report(), resolved.preset
    source = report.look(lambda: resolve_model(preset.model.path))
    files = Path(source) if source and is_local(source) else None  # where its config.json is, and its weights may be
    config = report.look(lambda: check_folder(source)) if files else None
    if source and not files and deep:
        try:
            files = model_folder(source, revision=preset.model.revision)
            config = json.loads((files / "config.json").read_text(encoding="utf-8"))
        except GrailError as fault:
            report.missing.append(fault)
    local_data = (
        preset.data.train in GENERATED
        or Path(preset.data.train).exists()
        or preset.data.train.endswith(".jsonl")
    )
    problems = report.look(lambda: load_problems(preset.data)) if deep or local_data else None
    report.problems = len(problems) if problems else None
    report.faults += batch_faults(batch_plan(preset.train, processes(preset), report.problems))
    report.faults += combination_faults(preset)
    report.warnings += combination_warnings(preset)
    for finding in needs(preset):
        if finding.what == "launch.processes" and not gpu_count():
            report.warnings.append(f"{finding.what}: {finding.found}; the run goes over CPU processes.")
        else:
            report.missing.append(
                GrailError(
                    f"{finding.found}: {finding.cost}.",
                    where=finding.what,
                    hint=finding.remedy,
                    kind="missing_here",
                )
            )
    report.missing += tracker_faults(preset.train.report_to)
    report.look(lambda: _place(preset, folder, files, config, report))
    report.look(lambda: _ports(preset))
    if preset.launch.zero:
        report.look(_extension_locks)
    if deep and source and config is not None and problems:
        report.look(lambda: _lengths(preset, source, config, problems, report))
    if deep and problems:
        report.look(lambda: _reward(preset, problems, report))
    return report


def _lengths(preset: Preset, source: str, config: dict, problems: Problems, report: Report) -> None:
    """The tokenizer's bytes must be known, prompts and completions fit the context. Only prompts with many
    bytes are tokenised: a token has one at least.
    """
    from ..credit import TokenBytes
    from ..models import load_tokenizer
    from ..prompts import PromptSettings, render

    context = preset.train.vllm_max_model_length or context_length(config)
    prompts = PromptSettings.of(preset)
    tokenizer = load_tokenizer(
        source,
        revision=preset.model.revision,
        trust_remote_code=preset.model.trust_remote_code,
        chat_template=prompts.chat_template,
    )
    TokenBytes.from_tokenizer(tokenizer)  # or no answer could be found among sampled ids
    example = render(tokenizer, problems.rows[0]["problem"], prompts)
    report.facts |= {
        "example_prompt": example.text if len(example.text) <= 300 else f"{example.text[:150]} ... {example.text[-150:]}",
        "example_prompt_tokens": len(example.ids),
        "context": context,
    }
    if context is None:
        return
    room = context - preset.train.max_completion_length
    long = too_long(problems, lambda problem: render(tokenizer, problem, prompts), room)
    if not long:
        return
    names = ", ".join(f"{problems.rows[number]['problem_id']} ({tokens})" for number, tokens in long[:5])
    words = (
        f"{len(long)} of {len(problems)} prompts have more than {room} tokens, which is what the context of "
        f"{context} "
        f"leaves beside completions of {preset.train.max_completion_length}: {names}"
    )
    if preset.data.too_long == "fail" or len(long) == len(problems):
        raise GrailError(
            f"{words}.",
            where="train.max_completion_length",
            kind="too_long",
            hint="lower train.max_completion_length, or leave these out with --set data.too_long=drop.",
        )
    report.warnings.append(f"{words}; they are left out.")
    report.problems -= len(long)


def _reward(preset: Preset, problems: Problems, report: Report) -> None:
    """One call of the reward, and gold answers that a correct answer would be matched against."""
    if preset.train.reward != "math":
        if hidden := hidden_columns(problems, preset.data):
            report.warnings.append(f"columns {', '.join(hidden)} of {problems.source} do not reach the reward: "
                                   "something else has these names there; rename them to pass them on.")
        trial_call(preset.train.reward, problems.rows[0])
        return
    from ..evaluation.grade import Grader

    step = max(1, len(problems) // GOLDS_CHECKED)
    rows = problems.rows[::step]
    # against itself, which must be right, and against a number, which shows whether it can be read at all
    pairs = [
        (row["gold"], answer)
        for row in rows
        for answer in (f"\\boxed{{{row['gold']}}}", "\\boxed{-987654321}")
    ]
    with Grader(2, preset.train.reward_strictness, cpu_s=preset.train.reward_timeout_s) as grader:
        verdicts = [found.verdict for found in grader.grade(pairs)]
    # braces that do not close leave the ideal answer without a box
    bad = [(row["problem_id"], row["gold"],
            "unparseable_gold" if own == "no_box" or other == "unparseable_gold" else own)
           for row, own, other in zip(rows, verdicts[::2], verdicts[1::2], strict=True)
           if own != "correct" or other == "unparseable_gold"]
    report.facts["golds_checked"], report.facts["golds_bad"] = len(rows), len(bad)
    if not bad:
        return
    shown = "; ".join(f"{name} {gold[:40]!r} ({verdict})" for name, gold, verdict in bad[:3])
    words = (
        f"{len(bad)} of {len(rows)} gold answers looked at cannot be matched, not even by themselves: {shown}"
    )
    if len(bad) > BAD_GOLD_SHARE * len(rows):
        raise GrailError(
            f"{words}.",
            where=f"{problems.source} column {preset.data.answer_column!r}",
            kind="bad_gold",
            hint="mend or drop these rows, or name another column with data.answer_column.",
        )
    report.warnings.append(f"{words}; their rollouts will be unscored or wrong.")


def _place(preset: Preset, folder: Path, files: Path | None, config: dict | None, report: Report) -> None:
    """Whether the run folder can be written, and whether the checkpoints fit on its disk."""
    import shutil

    parent = folder.absolute()
    while not parent.exists():
        parent = parent.parent
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise GrailError(
            f"cannot be written: {error.strerror}.",
            where=f"--out {folder}",
            kind="not_writable",
            hint="choose another --out, or ask for the right to write there.",
        ) from None
    if config is None or preset.model.lora_rank or is_adapter(files):
        return  # not here to be looked at, or small
    weights = _weight_bytes(files)
    saves = -(-preset.train.max_steps // preset.train.save_steps)
    whole = min(saves, preset.train.keep_last)
    kept = preset.train.max_steps // preset.train.keep_every if preset.train.keep_every else saves
    # optimiser: two float32 moments and, in mixed precision, a master copy; half-precision files are half of it
    half = (config.get("dtype") or config.get("torch_dtype")) in ("bfloat16", "float16")
    need = whole * (7 if half else 4) * weights + max(0, kept - whole) * weights
    free = shutil.disk_usage(parent).free
    report.facts |= {"disk_needed_gb": round(need / 1e9, 2), "disk_free_gb": round(free / 1e9, 1)}
    if need > free:
        raise GrailError(f"{saves} checkpoints need about {need / 1e9:.0f} GB, {free / 1e9:.0f} GB are free.",
                         where=f"--out {folder}", kind="disk",
                         hint="choose another disk, or set train.keep_every so that fewer weights stay.")


def _weight_bytes(files: Path) -> int:
    """Bytes of a model's weights: of the files that are there, else what the index says; 0 when neither is there."""
    if found := list(files.glob("*.safetensors")):
        return sum(path.stat().st_size for path in found)
    index = files / "model.safetensors.index.json"
    return json.loads(index.read_text(encoding="utf-8"))["metadata"]["total_size"] if index.is_file() else 0


def _ports(preset: Preset) -> None:
    """A fixed main port must be free on the machine of rank 0."""
    import socket

    port = preset.launch.main_port
    if port is None or preset.launch.rank != 0 or processes(preset) == 1 or "RANK" in os.environ:
        return
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            raise GrailError(f"port {port} is in use.", where="launch.main_port", kind="port",
                             hint="leave it null for a free one.") from None


def _extension_locks() -> None:
    """A build of DeepSpeed's extensions that was killed leaves a lock that every later process waits for
    without an end.
    """
    root = Path(
        os.environ.get("TORCH_EXTENSIONS_DIR")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_extensions"
    )
    for lock in root.glob("**/lock"):
        age = time.time() - lock.stat().st_mtime
        if age > STALE_LOCK_S:
            raise GrailError(
                f"a build that was killed left this lock {age / 60:.0f} minutes ago; DeepSpeed would wait "
                "for it for ever.",
                where=str(lock),
                hint=f"when nothing else compiles on this machine: rm {lock}",
                kind="stale_lock",
            )
