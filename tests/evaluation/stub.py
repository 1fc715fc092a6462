"""A sampler without a model: each sample follows from its seed, slowly if wanted. As a program it is one
evaluation.

python -m tests.evaluation.stub OUT N LIMIT DELAY_S
"""

import random
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from grail_cli.console import Console
from grail_cli.evaluation.backend import Failed, Finished
from grail_cli.evaluation.run import Job, evaluate, load_suites
from grail_cli.presets.load import load_preset


class StubBackend:
    """Right answers by chance of the seed; `failing` keys fail, `stop_after` samples raise KeyboardInterrupt."""

    about = {"backend": "stub"}

    def __init__(self, delay_s: float = 0.0, failing=frozenset(), stop_after: int | None = None):
        self.delay_s, self.failing, self.stop_after, self.made = delay_s, set(failing), stop_after, []

    def generate(self, requests, done=frozenset()):
        keys = [
            (r, s)
            for r in requests
            for s in range(r.first, r.first + r.count)
            if (r.problem_id, s) not in done
        ]
        random.Random(len(keys)).shuffle(keys)
        for request, sample in keys:
            if self.stop_after is not None and len(self.made) >= self.stop_after:
                raise KeyboardInterrupt
            time.sleep(self.delay_s)
            if (request.problem_id, sample) in self.failing:
                yield Failed(request.problem_id, sample, "planned")
                continue
            self.made.append((request.problem_id, sample))
            seed = request.seed + sample - request.first
            text = rf"\boxed{{{seed % 3}}}" if seed % 7 else "no idea"
            yield Finished(
                request.problem_id,
                sample,
                seed,
                text,
                [seed % 50, 1],
                2,
                "stop" if seed % 5 else "length",
                [1, 2, 3],
            )


def run(
    out: Path,
    n: int = 2,
    limit: int | None = 10,
    backend: StubBackend | None = None,
    suites=("arith",),
    sets=(),
    **flags,
) -> dict:
    """One evaluation of the tiny model's folder with the stub in place of the model."""
    preset = load_preset(None, sets=list(sets), flags={"eval.n": n, "eval.limit": limit}).preset

    @contextmanager
    def open_backend(model, prompts):
        yield backend or StubBackend(), None

    job = Job(preset, load_suites(list(suites), None, limit, lambda text: None), Path(out), **flags)
    return evaluate("tiny", job, open_backend, Console(quiet=True))


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), StubBackend(float(sys.argv[4])))
