"""Results folders made by hand, in our format and in the reference's."""

import json
from pathlib import Path


def line(number: int, verdicts: str, suite: str = "amc23", n_tokens: int = 100) -> dict:
    """One line of samples.jsonl: a letter a sample, c right, w wrong, n no box (cut off), t timeout."""
    words = {
        "c": ("correct", True, "7"),
        "w": ("wrong", False, "8"),
        "n": ("no_box", False, None),
        "t": ("timeout", False, "9"),
    }
    solutions = []
    for i, letter in enumerate(verdicts):
        verdict, correct, pred = words[letter]
        text = "I cannot say." if pred is None else f"So it is \\boxed{{{pred}}}."
        solutions.append(
            {
                "solution": text,
                "pred_answer": pred,
                "completion_tokens": n_tokens + i,
                "completion_ids": [1, 2],
                "correct": correct,
                "verdict": verdict,
                "rule": "number",
                "seed": i,
                "sample": i,
                "finish_reason": "length" if letter == "n" else "stop",
            }
        )
    return {
        "id": f"{suite}-{number}",
        "question": f"Problem {number} of {suite}?",
        "gt_answer": "7",
        "prompt_ids": [1],
        "generated_solutions": solutions,
    }


def ours(folder: Path, suites: dict[str, list[str]], manifest: dict | None = None) -> Path:
    """A model's folder: a word of letters a problem."""
    for suite, words in suites.items():
        write_lines(folder / suite / "samples.jsonl", [line(i, word, suite) for i, word in enumerate(words)])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest or {"settings": {"temperature": 0.6, "n": 3}}))
    return folder


def reference(folder: Path, suite: str, rows: list[tuple[str, str, list[str]]], n: int = 3) -> Path:
    """The reference's file of one suite: (question, gold, answers); no ids, verdicts, finish reasons."""
    write_lines(
        folder / f"result-{suite}-{n}.jsonl",
        [
            {
                "question": question,
                "gt_answer": gold,
                "generated_solutions": [
                    {
                        "solution": f"The answer is \\boxed{{{answer}}}.",
                        "pred_answer": answer,
                        "completion_tokens": 50,
                    }
                    for answer in answers
                ],
            }
            for question, gold, answers in rows
        ],
    )
    return folder


def write_lines(path: Path, lines: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
