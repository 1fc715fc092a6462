"""What a command says: the result on standard output, everything else on standard error.

With --json standard output carries one JSON document and nothing else. Progress is a bar on a terminal and plain lines
elsewhere, so that a batch system's log shows that the job lives.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

PLAIN_LINE_EVERY_S = 30.0


def is_terminal(stream) -> bool:
    """Whether colours and live displays make sense: decided by the stream alone, never by FORCE_COLOR."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def rich_console(stream):
    """A rich console for one stream: colours on a terminal only, and never highlighting numbers by itself."""
    from rich.console import Console as RichConsole

    terminal = is_terminal(stream)
    width = None if terminal or "COLUMNS" in os.environ else 200  # a file has no width: never cut a table
    return RichConsole(file=stream, force_terminal=terminal, no_color=not terminal or "NO_COLOR" in os.environ,
                       color_system="auto" if terminal else None, highlight=False, width=width, emoji=False,
                       markup=False)


def encodable(text: str, stream) -> str:
    """The text with characters that the stream cannot encode replaced, so that no table dies in an ASCII pipe."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="replace").decode(encoding)


class Console:
    """The voice of one command: `say`, `warn`, `progress` to standard error and one `result` to standard output."""

    def __init__(self, *, json: bool = False, quiet: bool = False):
        self.json, self.quiet = json, quiet
        self.warnings: list[str] = []

    def say(self, text: str) -> None:
        """Tell what happens; silent with --quiet."""
        if not self.quiet:
            print(encodable(text, sys.stderr), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Tell what changes a number: on standard error, and in the `warnings` of the JSON document."""
        self.warnings.append(text)
        print(encodable(f"warning: {text}", sys.stderr), file=sys.stderr, flush=True)

    def result(self, doc: object, human: object = None) -> None:
        """Print the result once: `doc` as JSON with --json, else `human` (text or something that rich can draw)."""
        if self.json:
            if self.warnings and isinstance(doc, dict):
                doc = {**doc, "warnings": self.warnings}
            print(json.dumps(doc, indent=2, ensure_ascii=True, allow_nan=False), flush=True)
        elif isinstance(human, str):
            print(encodable(human, sys.stdout), flush=True)
        elif human is not None:
            console = rich_console(sys.stdout)
            with console.capture() as captured:
                console.print(human)
            print(encodable(captured.get(), sys.stdout), end="", flush=True)

    @contextmanager
    def progress(self, what: str, *, total: int | None, unit: str = "items", done: int = 0) -> Iterator["Progress"]:
        """Show how far a long loop is: `with out.progress("sampling", total=90, unit="samples") as bar: bar.advance()`."""
        if self.quiet:
            yield Progress(what, total, unit, done)
        elif is_terminal(sys.stderr):
            bar = _RichProgress(what, total, unit, done)
            with bar.display:
                yield bar
        else:
            bar = _PlainProgress(what, total, unit, done)
            bar.line()
            yield bar
            bar.line()


class Progress:
    """The counter behind a progress display; this one shows nothing (--quiet)."""

    def __init__(self, what: str, total: int | None, unit: str, done: int):
        self.what, self.total, self.unit, self.done, self.note = what, total, unit, done, ""
        self._start, self._done_at_start = time.monotonic(), done

    def advance(self, count: int = 1, note: str | None = None) -> None:
        """Count finished items and, with `note`, say something about them (`accuracy 41 %`)."""
        self.done += count
        if note is not None:
            self.note = note
        self._show()

    def remaining_s(self) -> float | None:
        """Seconds left at the present rate, or None when that cannot be told."""
        made = self.done - self._done_at_start
        if not self.total or made <= 0:
            return None
        return (time.monotonic() - self._start) / made * (self.total - self.done)

    def text(self) -> str:
        """One plain line: `sampling 40/90 samples, 3.2/s, 16s left, accuracy 41 %`."""
        parts = [f"{self.what} {self.done}" + (f"/{self.total}" if self.total else "") + f" {self.unit}"]
        elapsed = time.monotonic() - self._start
        if elapsed > 0 and self.done > self._done_at_start:
            parts.append(f"{(self.done - self._done_at_start) / elapsed:.3g}/s")
        left = self.remaining_s()
        if left is not None and self.done != self.total:
            parts.append(f"{duration(left)} left")
        if self.note:
            parts.append(self.note)
        return ", ".join(parts)

    def _show(self) -> None:
        pass


class _PlainProgress(Progress):
    """A line every 30 s or 10 %, for logs and pipes."""

    def __init__(self, *args):
        super().__init__(*args)
        self._last_time, self._last_share = time.monotonic(), 0.0

    def line(self) -> None:
        print(encodable(self.text(), sys.stderr), file=sys.stderr, flush=True)

    def _show(self) -> None:
        share = self.done / self.total if self.total else 0.0
        now = time.monotonic()
        if self.done != self.total and (now - self._last_time >= PLAIN_LINE_EVERY_S
                                        or share - self._last_share >= 0.1):
            self._last_time, self._last_share = now, share
            self.line()


class _RichProgress(Progress):
    """A live bar on a terminal."""

    def __init__(self, *args):
        super().__init__(*args)
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichBar

        self.display = RichBar(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} {task.fields[unit]}"),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
            console=rich_console(sys.stderr), redirect_stdout=False)
        self._task = self.display.add_task(self.what, total=self.total, completed=self.done, unit=self.unit, note="")

    def _show(self) -> None:
        self.display.update(self._task, completed=self.done, note=self.note)


def counted(number: float, noun: str) -> str:
    """A number with its noun: `1 prompt`, `16 prompts`, `2.5 prompts`."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them: `42s`, `3m 05s`, `2h 10m`."""
    seconds = int(round(seconds))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"
