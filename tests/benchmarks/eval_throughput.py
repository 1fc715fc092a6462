"""Does `grail eval` keep a vLLM server as busy as a bare asyncio loop does? And what does eager mode save at the start?

    GRAIL_VLLM_PYTHON=ENV/bin/python python tests/benchmarks/eval_throughput.py --model SMOLLM2 [--prompts 60] [--rounds 3]
    ... --startup            also starts a second server without --enforce-eager and compares the start-up times

One server; both arms send the same prompt ids, n samples a prompt, the same seeds and sampling, so that they ask for the
same tokens. `bare` awaits all requests at once with the openai package. `grail` is `grail eval --backend URL` from its
first request to its last synced sample, journal and grading included. The arms take turns (bare, grail, bare, ...) after
one warm-up pass; the medians are compared. Markdown on standard output.

Measured on two CPU cores, SmolLM2-135M, 60 prompts x 3 samples: 32 tokens a sample, three rounds, bare 52.5 and grail 53.6
tokens/s, ratio 1.02 (single pairs 1.01, 1.02, 1.03); 128 tokens, one pair, 1.01. Start-up: 57 s eager, 4 min 26 s compiled.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from grail_cli import serving
from grail_cli.console import Console
from grail_cli.evaluation.backend import seed_of
from grail_cli.evaluation.open import over_http
from grail_cli.evaluation.run import Job, evaluate, load_suites
from grail_cli.models import load_tokenizer
from grail_cli.presets.load import load_preset
from grail_cli.prompts import PromptSettings, render


def bare(server: serving.Server, prompts: list[tuple[int, list[int]]], section, most: int) -> tuple[int, float]:
    """(tokens, seconds) of a loop that awaits all requests at once; prompts: (seed, ids); most: tokens a sample."""
    import openai

    async def ask() -> int:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none", timeout=1800) as client:
            replies = await asyncio.gather(*(client.completions.create(
                model=server.served_name, prompt=ids, n=section.n, seed=seed, temperature=section.temperature,
                top_p=section.top_p, max_tokens=most,
                extra_body={"top_k": section.top_k or -1, "min_p": section.min_p, "return_token_ids": True})
                for seed, ids in prompts))
        return sum(len(choice.model_extra["token_ids"]) for reply in replies for choice in reply.choices)

    began = time.perf_counter()
    tokens = asyncio.run(ask())
    return tokens, time.perf_counter() - began


def grail(server: serving.Server, preset, suites) -> tuple[int, float]:
    """(tokens, seconds) of `grail eval` against the running server."""
    spent = {}

    def open_backend(model, prompts):
        spent["opened"] = time.perf_counter()
        return over_http(model, prompts, preset, server.base_url, served=server.served_name,
                         check_alive=server.check_alive)

    with tempfile.TemporaryDirectory() as folder:
        document = evaluate(server.settings.model, Job(preset, suites, Path(folder)), open_backend,
                            Console(quiet=True))
        ended = time.perf_counter()
        suite = document["suites"]["arith"]
        return round(suite["avg_tokens"] * suite["samples"] * suite["n"]), ended - spent["opened"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--startup", action="store_true")
    options = parser.parse_args()

    preset = load_preset(None, flags={"eval.bench": ["arith"], "eval.n": 3, "eval.limit": options.prompts,
                                      "eval.max_new_tokens": options.max_new_tokens}).preset
    section, console = preset.eval, Console()
    suites = load_suites(["arith"], None, options.prompts, console.say)
    settings = PromptSettings.of(preset)
    tokenizer = load_tokenizer(options.model)
    prompts = [(seed_of(section.seed, "arith", problem.id), render(tokenizer, problem.question, settings).ids)
               for problem in suites["arith"]]
    longest = max(len(ids) for _, ids in prompts) + section.max_new_tokens
    serve = serving.ServeSettings(model=options.model, options=preset.serve, need_tokens=longest)

    began = time.perf_counter()
    with serving.start(serve, console) as server:
        eager_s = time.perf_counter() - began
        bare(server, prompts, section, 1)  # fills the prefix cache for both
        rates: dict[str, list[float]] = {"bare": [], "grail": []}
        for _ in range(options.rounds):
            for name, arm in (("bare", lambda: bare(server, prompts, section, section.max_new_tokens)),
                              ("grail", lambda: grail(server, preset, suites))):
                tokens, seconds = arm()
                rates[name].append(tokens / seconds)
                console.say(f"{name}: {tokens} tokens in {seconds:.1f} s, {tokens / seconds:.1f} tokens/s")
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"| arm | tokens/s (median of {options.rounds}) |\n|---|---|")
    for name, value in medians.items():
        print(f"| {name} | {value:.1f} |")
    print(f"\ngrail / bare = {medians['grail'] / medians['bare']:.3f}")

    if options.startup:
        slow = serve.__class__(**{**vars(serve),
                                  "options": serve.options.model_copy(update={"enforce_eager": False})})
        began = time.perf_counter()
        with serving.start(slow, console):
            print(f"\nstart-up: {eager_s:.0f} s with --enforce-eager, {time.perf_counter() - began:.0f} s "
                  f"without")


if __name__ == "__main__":
    main()
