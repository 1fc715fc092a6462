"""A report made by hand, with known numbers, for the tests of the writers."""

from grail_cli.reporting.model import (
    AVERAGE,
    WEIGHTED,
    Difference,
    Estimate,
    ModelResults,
    Problem,
    Report,
    Sample,
    Score,
)

HOSTILE = (
    "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"> & =1+1"
)


def sample(verdict: str, pred: str | None, text: str = "", tokens: int = 100, finish: str = "stop") -> Sample:
    return Sample(text or f"So the answer is \\boxed{{{pred}}}.", pred, tokens, verdict, "number", finish)


def problems(suite: str, pattern: list[str]) -> tuple[Problem, ...]:
    """A problem for every word of the pattern: a letter a sample, c right, w wrong, n no box."""
    made = {
        "c": lambda: sample("correct", "7"),
        "w": lambda: sample("wrong", "8"),
        "n": lambda: sample("no_box", None, "I cannot say.", 900, "length"),
    }
    return tuple(
        Problem(
            f"{suite}-{i}", f"Problem {i} of {suite}: what is 3 + 4?", "7", tuple(made[c]() for c in word)
        )
        for i, word in enumerate(pattern)
    )


def score(acc: float, margin: float, passed: float, tokens: float, n: int = 40) -> Score:
    return Score(
        problems=n,
        fewest=3,
        most=3,
        k=3,
        acc=Estimate(acc, acc - margin, acc + margin, margin / 2, margin),
        majority=acc,
        tokens=tokens,
        passed=Estimate(passed, passed - margin, passed + margin, margin / 2, margin),
        samples=3 * n,
        truncated=2,
        no_box=1,
        unscored=0,
    )


def report(hostile: bool = False) -> Report:
    """Three models: `base`, `run@step-100`, `run@step-200`; suites amc23 and math, which step-100 lacks."""
    first = list(problems("amc23", ["ccc", "cww", "wwn"]))
    if hostile:
        first[0] = Problem(HOSTILE, HOSTILE, HOSTILE, (sample("correct", HOSTILE, HOSTILE),) * 3)
    name = f"base {HOSTILE}" if hostile else "base"
    models = (
        ModelResults(
            name,
            "results/base",
            {"amc23": tuple(first), "math": problems("math", ["cww", "www"])},
            {"sampling.temperature": 0.6, "model.path": "models/base", "nothing": None},
        ),
        ModelResults(
            "run@step-100",
            "results/run@step-100",
            {"amc23": problems("amc23", ["ccc", "ccw", "wwn"])},
            {"sampling.temperature": 0.6, "model.path": "runs/run/checkpoint-100"},
            run="run",
            step=100,
        ),
        ModelResults(
            "run@step-200",
            "results/run@step-200",
            {"amc23": problems("amc23", ["www", "ccc", "ccc"]), "math": problems("math", ["ccc", "ccw"])},
            {"sampling.temperature": 1.0, "model.path": "runs/run/checkpoint-200"},
            run="run",
            step=200,
        ),
    )
    scores = {
        (name, "amc23"): score(0.40, 0.10, 0.60, 812.5),
        (name, "math"): score(0.70, 0.04, 0.82, 640.25),
        ("run@step-100", "amc23"): score(0.45, 0.09, 0.61, 900.0),
        ("run@step-200", "amc23"): score(0.525, 0.08, 0.65, 1000.0),
        ("run@step-200", "math"): score(0.73, 0.04, 0.81, 700.0),
        (name, AVERAGE): score(0.55, 0.05, 0.71, 726.375),
        (name, WEIGHTED): score(0.56, 0.05, 0.72, 730.0),
        ("run@step-200", AVERAGE): score(0.6275, 0.05, 0.73, 850.0),
        ("run@step-200", WEIGHTED): score(0.63, 0.05, 0.74, 851.0),
    }
    differences = {
        ("run@step-100", "amc23"): Difference(40, Estimate(0.05, -0.02, 0.12), 0.16, 0.16, 0.10),
        ("run@step-200", "amc23"): Difference(40, Estimate(0.125, 0.05, 0.20), 0.0004, 0.0008, 0.11),
        ("run@step-200", "math"): Difference(500, Estimate(0.03, -0.001, 0.061), 0.06, 0.06, 0.04),
    }
    return Report(
        models=models,
        suites=("amc23", "math"),
        scores=scores,
        differences=differences,
        baseline=name,
        notes=("run@step-100 has no math: its cell is blank and it has no average.",),
    )
