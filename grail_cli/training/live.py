"""What a run looks like while it runs: a panel on a terminal, a plain line a step elsewhere.

Reward, share of groups with a signal, completion length, answers found, weights, seconds by phase, time left.
The loss is not shown: it says nothing about progress in GRPO.
"""

import sys

from ..console import duration, encodable, is_terminal, rich_console

# label, key of a metrics row, how it is written
SHOWN = (
    ("reward", "reward", "{:.3f}"),
    ("groups with a signal", "groups_with_signal", "{:.0%}"),
    ("answer found", "answer_found", "{:.0%}"),
    ("completion length", "completions/mean_length", "{:.0f} tokens"),
    ("truncated", "completions/clipped_ratio", "{:.0%}"),
    ("weight mean", "weights/mean", "{:.3f}"),
    ("weight spread", "weights/std", "{:.3f}"),
    ("entropy", "entropy", "{:.3f}"),
)


class LiveView:
    """Shows rows of metrics.jsonl as they come: `show(row)`; a context manager.

    total: last step of the run; every: steps between plain lines.
    """

    def __init__(self, total: int, *, every: int = 1, title: str = "", quiet: bool = False):
        self.total, self.title, self.quiet = total, title, quiet
        self.latest: dict = {}
        self._seconds, self._steps = 0.0, 0
        self.every = every
        self._live = None

    def __enter__(self) -> "LiveView":
        if not self.quiet and is_terminal(sys.stderr):
            from rich.live import Live

            self._live = Live(console=rich_console(sys.stderr), refresh_per_second=4, transient=False,
                              redirect_stdout=False, redirect_stderr=True)
            self._live.start()
        return self

    def __exit__(self, *exc) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, row: dict) -> None:
        """Take a step's metrics; what a step did not measure keeps its last value."""
        self.latest.update({key: value for key, value in row.items() if value is not None})
        self._seconds, self._steps = self._seconds + row["time/step"], self._steps + 1
        if self.quiet:
            return
        if self._live is not None:
            self._live.update(self.panel())
            return
        if row["step"] % self.every == 0 or row["step"] == self.total:
            print(encodable(self.line(), sys.stderr), file=sys.stderr, flush=True)

    def left_s(self) -> float | None:
        """Seconds left at the rate of this attempt."""
        return self._seconds / self._steps * (self.total - self.latest["step"]) if self._steps else None

    def phases(self) -> dict[str, float]:
        """Seconds of the newest step by phase, zeros left out."""
        return {key.removeprefix("time/"): value for key, value in self.latest.items()
                if key.startswith("time/") and key != "time/step" and value >= 0.005}

    def line(self) -> str:
        """The newest step in one line."""
        parts = [f"step {self.latest['step']}/{self.total}"]
        parts += [
            f"{label} {form.format(self.latest[key])}" for label, key, form in SHOWN if key in self.latest
        ]
        if "time/step" in self.latest:
            inside = " ".join(f"{name} {value:.1f}" for name, value in self.phases().items())
            parts.append(f"{self.latest['time/step']:.1f}s ({inside})")
        left = self.left_s()
        if left is not None and self.latest["step"] < self.total:
            parts.append(f"{duration(left)} left")
        return ", ".join(parts)

    def panel(self):
        """The newest step as a panel for a terminal."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        cells = [(label, form.format(self.latest[key])) for label, key, form in SHOWN if key in self.latest]
        for left, right in zip(cells[::2], [*cells[1::2], ("", "")][:len(cells[::2])], strict=True):
            grid.add_row(left[0], f"[bold]{left[1]}[/]", right[0], f"[bold]{right[1]}[/]")
        times = ", ".join(f"{name} {value:.1f}s" for name, value in self.phases().items())
        remaining = self.left_s()
        foot = f"step {self.latest['step']} of {self.total}" + (
            f", {duration(remaining)} left" if remaining else ""
        )
        return Panel(Group(grid, f"[dim]{self.latest.get('time/step', 0):.1f}s a step: {times}[/]",
                           ProgressBar(total=self.total, completed=self.latest["step"], width=60), foot),
                     title=self.title, title_align="left", expand=False)
