"""The faults that a user can mend: one line each, and the exit code that goes with them.

GrailError and its kin carry a sentence (what, where, value, allowed) and a hint (the next step). The edge in
`commands/common.py` prints them; every other exception is a bug of ours and keeps its traceback.
"""

from collections.abc import Sequence

USAGE, FAILED, INTERRUPTED = 2, 1, 130


class GrailError(Exception):
    """Something that the user must change (exit code 2): usage, preset, missing file or package.

    message: one sentence with the value found and the values allowed. hint: the next step. where: the file and line,
    dotted key or flag that it is about. kind: a short machine word for `--json`.
    """

    exit_code = USAGE

    def __init__(self, message: str, *, hint: str = "", where: str = "", kind: str = "usage"):
        super().__init__(message)
        self.message, self.hint, self.where, self.kind = message, hint, where, kind

    def line(self) -> str:
        """The fault in one line, place first: `credit.std (--set): ... Next: ...`."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} Next: {self.hint}" if self.hint else text

    def as_json(self) -> dict:
        """The fault as the `error` object of `--json`."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, "where": self.where}


class RunFailed(GrailError):
    """It failed while running (exit code 1): a dead server, a full disk, a diverged loss."""

    exit_code = FAILED

    def __init__(self, message: str, *, hint: str = "", where: str = "", kind: str = "failed"):
        super().__init__(message, hint=hint, where=where, kind=kind)


class Faults(GrailError):
    """Several faults found in one go, printed a line each (exit code 2)."""

    def __init__(self, faults: Sequence[GrailError]):
        if not faults:
            raise ValueError("Faults needs at least one fault")
        super().__init__(f"{len(faults)} faults", kind="faults")
        self.faults = list(faults)

    def line(self) -> str:
        return "\n".join(fault.line() for fault in self.faults)

    def as_json(self) -> dict:
        if len(self.faults) == 1:
            return self.faults[0].as_json()
        return {**super().as_json(), "faults": [fault.as_json() for fault in self.faults]}


def raise_all(faults: Sequence[GrailError]) -> None:
    """Raise what was collected: nothing, the one fault, or all of them together."""
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise Faults(faults)


def nearest(word: str, known: Sequence[str]) -> str:
    """`Did you mean 'std'?` when a known name is close to the one typed, else the list of known names."""
    import difflib

    close = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    shown = sorted(set(known))
    return "known: " + ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


def install_hint(extra: str = "") -> str:
    """How to get an optional part of grail: the next step of every message about a missing package."""
    return f"in the clone of grail: pip install -e '.{f'[{extra}]' if extra else ''}'"
