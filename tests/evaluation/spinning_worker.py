"""A grading worker whose judge misbehaves as the answer says: for the tests of the limits."""

import os

from grail_cli.evaluation import judge, worker


def misbehave(gold: str, answer: str, strictness: str) -> tuple[str, str]:
    """Hang in C, hang in Python behind an `except`, fill the memory, die, write a file, fail, or answer."""
    if answer == "hang in C":
        return ("correct", str(pow(3, 10**9).bit_length()))
    if answer == "hang in Python":
        while True:
            try:
                sum(range(1000))
            except Exception:  # what libraries do
                pass
    if answer == "memory":
        return ("correct", str(len(bytearray(8 << 30))))
    if answer == "die":
        os.abort()
    if answer == "write":
        with open("written-by-an-answer", "w") as file:
            file.write("x" * 100)
    if answer == "fail":
        raise KeyError("a bug")
    return ("correct" if gold == answer else "wrong"), "string"


if __name__ == "__main__":
    judge.judge = misbehave
    worker.main()
