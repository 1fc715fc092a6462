"""Old samples graded again without a model: ours in place, the reference's folders into a folder of ours."""

from pathlib import Path

from ..console import Console
from ..files import FolderLock, write_json
from .benchmarks import Problem, safe_name
from .grade import GRADER_VERSION, Grader
from .grading import grade_samples
from .run import grading_workers, summarise
from .store import MANIFEST, SAMPLES, read_results, write_lines


def regrade_folder(folder: Path, out: Path, strictness: str | None, console: Console) -> dict:
    """Grade every sample below a model's folder again; returns what changed, with the rule.

    strictness: None grades as the folder was graded before (`lenient` where it does not say). A folder of ours is
    rewritten; of any other only a copy in out/LABEL. A gold that is the text of a list of one answer is that answer.
    """
    results = read_results(folder)
    ours = results.manifest is not None
    strictness = strictness or (results.manifest or {}).get("settings", {}).get("strictness", "lenient")
    target = folder if ours else out / safe_name(results.label)
    changed, count = [], 0
    with FolderLock(target), Grader(workers=grading_workers(), strictness=strictness) as grader:
        for suite, content in results.suites.items():
            problems, samples, before = [], {}, {}
            for row, line in enumerate(content.problems):
                identity = str(line["id"]) if line.get("id") is not None else f"row-{row + 1:04d}"
                line["id"] = identity
                problems.append(Problem(identity, line["question"], line["gt_answer"]))
                for index, solution in enumerate(line["generated_solutions"]):
                    solution.setdefault("sample", index)
                    samples[identity, solution["sample"]] = solution
                    before[identity, solution["sample"]] = _verdict(solution)
            with console.progress(f"grading {suite}", total=None, unit="answers") as bar:
                grade_samples(problems, samples, grader, bar.advance)
            count += len(samples)
            changed += [
                {
                    "suite": suite,
                    "id": key[0],
                    "sample": key[1],
                    "before": before[key],
                    "after": sample["verdict"],
                    "rule": sample["rule"],
                }
                for key, sample in sorted(samples.items())
                if before[key] is not None and before[key] != sample["verdict"]
            ]
            write_lines(target / safe_name(suite) / SAMPLES, content.problems)
        manifest = results.manifest or {"label": results.label, "settings": {}, "regraded_from": str(folder)}
        manifest = {
            **manifest,
            "settings": {**manifest.get("settings", {}), "strictness": strictness, "grader": GRADER_VERSION},
            "suites": {safe_name(suite): suite for suite in results.suites},
        }
        write_json(target / MANIFEST, manifest)
        summarise(target)
    return {"folder": str(target), "samples": count, "changed": changed}


def _verdict(solution: dict) -> str | None:
    """The verdict that a sample carried, from `correct` alone where there is no word; None for none."""
    if solution.get("verdict"):
        return solution["verdict"]
    if solution.get("correct") is None:
        return None
    return "correct" if solution["correct"] else "no_box" if solution.get("pred_answer") is None else "wrong"
