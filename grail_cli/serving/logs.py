"""The cause of a failure out of a server's log, and the phase of a start-up that is still going on.

vLLM ends with `Engine core initialization failed. See root cause above`; the cause is a hundred lines up, in
another process. The rule: of the first process that failed, the exception it ended with. Warnings that merely
contain the word Error are not failures.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .causes import explain

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[@-_]")
# `(EngineCore_DP0 pid=12)` of recent versions, `(VllmWorker rank=1 pid=12)` and nothing at all of older ones
PROCESS = re.compile(r"^\((?P<name>[\w:.-]+(?: rank=\d+)?) pid=(?P<pid>\d+)\)\s?")
LEVEL = re.compile(r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
                   r"\d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]+\] ?)?")
WORKER_TAG = re.compile(r"^\[multiproc_executor\.py:\d+\] ")
EXCEPTION = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Failure)\b"
                       r"(?:\(\w+\))?(?::|$)")
USAGE = re.compile(r"^\S+\.py: error: |^usage: .*error: ")
FOLLOW_UPS = ("Engine core initialization failed", "WorkerProc initialization failed",
              "EngineCore encountered an issue",
              "Worker failed with error")
TAIL_LINES = 20
READ_LIMIT = 8 * 1024 * 1024  # of a longer log the first and the last half of this many bytes are read

PHASES = (
    # first, because that line recites the whole configuration, words such as warmup included
    (r"Initializing a V\d LLM engine|Resolved architecture|vLLM API server version", "starting the engine"),
    (r"Waiting for application startup|Application startup complete|Starting vLLM (API )?server",
     "opening the door"),
    (r"for the compilation|Dynamo bytecode|[Cc]ompiling a graph|torch\.compile (takes|took|cache)",
     "compiling"),
    (r"[Cc]apturing CUDA graph|Graph capturing", "capturing graphs"),
    (r"warm(ing)?[ -]?up|Warming", "warming up"),
    (r"KV cache size|Available KV cache memory|# (GPU|CPU) blocks|KV cache layout",
     "laying out the KV cache"),
    (r"Starting to load model|Loading (safetensors|weights|pt)|Loading model weights|Model loading took",
     "loading weights"),
)


@dataclass(frozen=True)
class Line:
    """One line of a log, cleaned: the process that wrote it, its level, the text."""

    process: str
    level: str
    text: str


@dataclass(frozen=True)
class Digest:
    """Why a server failed: cause in one line, advice (may be empty), context, last lines of the log."""

    cause: str
    advice: str = ""
    context: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


def clean(text: str) -> list[str]:
    """Lines without colours; of a line that was overwritten with carriage returns, the last state."""
    lines = []
    for raw in ANSI.sub("", text).split("\n"):
        states = [state for state in raw.rstrip("\r").split("\r") if state.strip()]
        lines.append(states[-1].rstrip() if states else "")
    return lines


def parse(text: str) -> list[Line]:
    """Lines with process prefix, level and place stripped."""
    parsed = []
    for line in clean(text):
        process = PROCESS.match(line)
        rest = line[process.end():] if process else line
        level = LEVEL.match(rest)
        rest = rest[level.end():] if level else rest
        rest = WORKER_TAG.sub("", rest)
        parsed.append(Line(process.group(0).strip() if process else "", level.group("level") if level else "",
                           rest))
    return parsed


def read_log(path: str | Path, start: int = 0) -> str:
    """The text of a log from byte `start` on; the middle of a huge one is left out."""
    with open(path, "rb") as file:
        size = file.seek(0, 2) - start
        file.seek(start)
        if size <= READ_LIMIT:
            return file.read().decode("utf-8", errors="replace")
        head = file.read(READ_LIMIT // 2)
        file.seek(start + size - READ_LIMIT // 2)
        return (head + b"\n" + file.read()).decode("utf-8", errors="replace")


def find_exception(lines: Sequence[Line]) -> int | None:
    """Index of the exception line that the first failing process ended with; None when no process raised.

    A process that reports the failure of another (`Worker failed with error`) is passed over when there is
    any other.
    """
    in_traceback: set[str] = set()
    last: dict[str, int] = {}  # process -> its last exception line, in the order of the first failures
    for index, line in enumerate(lines):
        if line.text.startswith("Traceback (most recent call last)"):
            in_traceback.add(line.process)
        elif line.process in in_traceback and EXCEPTION.match(line.text):
            in_traceback.discard(line.process)
            if line.process not in last or not is_follow_up(line.text):
                last[line.process] = index
        elif line.level == "ERROR" and line.process not in last and EXCEPTION.match(line.text):
            last[line.process] = index  # an error that was logged without its traceback
    candidates = list(last.values())
    causes = [index for index in candidates if not is_follow_up(lines[index].text)]
    return (causes or candidates or [None])[0]


def is_follow_up(text: str) -> bool:
    """Whether an exception only says that another process failed."""
    return any(phrase in text for phrase in FOLLOW_UPS)


def message_at(lines: Sequence[Line], index: int) -> str:
    """The exception message that begins at a line; pydantic and friends go on over several lines."""
    process, text = lines[index].process, lines[index].text
    parts = [text]
    for line in lines[index + 1:index + 4]:
        belongs = line.process == process and line.text.startswith("  ")
        if not belongs or line.text.lstrip().startswith(("File ", "For further")):
            break
        parts.append(line.text.strip())
    return re.sub(r"\s+\[type=\w+, input_value=.*", "", " ".join(parts))


def digest(text: str, exit_code: int | None = None) -> Digest:
    """Why the server failed, from the text of its log and, if it ended, its exit code."""
    lines = parse(text)
    tail = [line.text for line in lines if line.text.strip()][-TAIL_LINES:]
    usage = next((line.text for line in lines if USAGE.match(line.text)), None)
    index = find_exception(lines)
    if usage is not None:
        cause, context = usage, []
    elif index is not None:
        cause = message_at(lines, index)
        context = [line.text for line in lines[max(index - 3, 0):index] if line.text.strip()]
    else:
        cause, context = exit_text(exit_code), []
    others = [line.text for line in lines if line.level != "WARNING" and EXCEPTION.match(line.text)]
    known = explain([cause, *others], exit_code if index is None and usage is None else None)
    if known is not None:
        cause = known.cause or cause
    return Digest(cause, known.advice if known else "", context, tail)


def exit_text(exit_code: int | None) -> str:
    """What an exit code says when the log says nothing."""
    if exit_code is None:
        return "no error in its log"
    if exit_code < 0:
        return f"ended by signal {-exit_code}"
    return f"ended with exit code {exit_code} and no error in its log"


def phase_of(text: str, before: str = "") -> str:
    """The start-up phase that the newest lines of a log show; `before` when they show none."""
    for line in reversed(parse(text)):
        for pattern, phase in PHASES:
            if line.level in ("INFO", "") and re.search(pattern, line.text):
                return phase
    return before


class Tail:
    """Reads what was added to a log since the last look, in whole lines."""

    def __init__(self, path: str | Path, start: int = 0):
        self.path = Path(path)
        self._position = start

    def read(self) -> str:
        """New whole lines; empty when there are none."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._position)
                data = file.read(READ_LIMIT)
        except FileNotFoundError:
            return ""
        whole = data.rfind(b"\n") + 1
        self._position += whole
        return data[:whole].decode("utf-8", errors="replace")
