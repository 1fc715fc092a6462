"""How much faster the grader is than math-verify alone, one answer after the other, on samples that repeat.

    python tests/benchmarks/grading_speed.py ../shared/bench [--samples 3] [--share 1.0]

Three samples a problem on the six suites: the right answer in one of a few spellings, or one of a few wrong ones, as
samples of one model repeat. Both graders see the same pairs in one run; naive is timed on --share of the problems.
"""

import argparse
import random
import time

from grader_mutations import _plain, bare, near_misses, rewritings

from grail_cli.evaluation.benchmarks import PAPER, load_suite
from grail_cli.evaluation.grade import Grader


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("data_dir")
    arguments.add_argument("--samples", type=int, default=3)
    arguments.add_argument("--share", type=float, default=1.0)
    options = arguments.parse_args()
    rng = random.Random(0)
    pairs = []
    for suite in PAPER:
        for problem in load_suite(suite, options.data_dir)[1]:
            chance = rng.betavariate(0.5, 0.5)
            right, wrong = (
                [bare(problem.gold), *rewritings(problem.gold)[:2]],
                near_misses(problem.gold, rng)[:4],
            )
            for _ in range(options.samples):
                answer = rng.choices(right, [6, 1, 1])[0] if rng.random() < chance else rng.choice(wrong)
                pairs.append((problem.gold, answer))
    naive = [pair for pair in pairs if rng.random() < options.share]
    start = time.perf_counter()
    for pair in naive:
        _plain(pair)
    naive_s = (time.perf_counter() - start) / len(naive) * len(pairs)
    start = time.perf_counter()
    with Grader(workers=2) as grader:
        verdicts = grader.grade([(gold, rf"\boxed{{{answer}}}") for gold, answer in pairs])
    ours_s = time.perf_counter() - start
    print(
        f"{len(pairs)} answers ({len(set(pairs))} different): ours {ours_s:.1f} s with two workers, start "
        f"included; math-verify one after the other "
        f"{naive_s:.1f} s{'' if options.share == 1 else f' (from {len(naive)} of them)'}: "
        f"{naive_s / ours_s:.1f} times; "
        f"{sum(v.verdict in ('timeout', 'error') for v in verdicts)} unsettled"
    )


if __name__ == "__main__":
    main()
