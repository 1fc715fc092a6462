"""How fast a report's page opens: `python tests/benchmarks/report_page.py [samples]`.

Six suites, two models, 16 samples a problem: prints the size of the page and the time until its browser of samples
shows the first problem, as a ratio to a small page's. Needs Chromium.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from grail_cli.reporting import html
from grail_cli.reporting.model import ModelResults, Problem, Report, Sample
from tests.reporting import hand
from tests.reporting.browser import Browser

SIZES = {
    "aime24": 30,
    "amc23": 40,
    "math": 500,
    "minerva_math": 272,
    "college_math": 200,
    "olympiadbench": 200,
}


def report(samples: int, problems: float = 1.0) -> Report:
    """Two models with completions of 4.5 kB each, of words drawn by a private generator."""
    rnd = random.Random(0)
    words = ["".join(rnd.choices("abcdefghijklmnopqrstuvwxyz", k=rnd.randint(2, 9))) for _ in range(3000)]

    def problem(suite: str, i: int) -> Problem:
        made = (
            Sample(" ".join(rnd.choices(words, k=700)), "7", 1000, "correct", "number", "stop")
            for _ in range(samples)
        )
        return Problem(f"{suite}-{i}", " ".join(rnd.choices(words, k=50)), "7", tuple(made))

    models = tuple(
        ModelResults(
            label,
            label,
            {
                suite: tuple(problem(suite, i) for i in range(round(n * problems)))
                for suite, n in SIZES.items()
            },
        )
        for label in "ab"
    )
    scores = {(label, suite): hand.score(0.5, 0.1, 0.6, 700) for label in "ab" for suite in SIZES}
    return Report(models, tuple(SIZES), scores, {}, None, ())


def opened(page: str) -> float:
    """Seconds until the first problem is shown; the best of three."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        with Browser(Path(folder) / "profile") as browser:
            times = []
            for _ in range(3):
                start = time.perf_counter()
                browser.open(file)
                times.append(time.perf_counter() - start)
                browser.call("Page.navigate", url="about:blank")
    return min(times)


def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    whole = report(samples)
    start = time.perf_counter()
    full = html.page(whole)
    made = time.perf_counter() - start
    small, large = opened(html.page(report(1, 0.1))), opened(full)
    print(f"{2 * sum(SIZES.values()) * samples} completions: {len(full) / 1e6:.0f} MB, made in {made:.1f} s")
    print(
        f"opens in {large:.2f} s, {large / small:.1f} times a page with a tenth of the problems, one sample"
    )


if __name__ == "__main__":
    main()
