"""What happens around every optimiser step: clocks, signals, metrics, alarms, the live view."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from transformers import TrainerCallback

from .health import Alarm, Health
from .launch import STARTED, STOP_FILE
from .phases import Phases
from .record import finite


class StopRequest:
    """Ctrl-C, SIGTERM and SIGHUP while training: the first ends the run after the step in progress, with a
    checkpoint.

    The second raises KeyboardInterrupt at once. `signum` is what was received, or None. A context manager
    that puts the former handlers back.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, say: Callable[[str], None]):
        self.say, self.signum = say, None

    def __enter__(self) -> "StopRequest":
        self._former = {}
        if threading.current_thread() is not threading.main_thread():
            return self  # signals reach the main thread only; a caller's thread is stopped by its own means
        self._former = {signum: signal.signal(signum, self._receive) for signum in self.SIGNALS}
        return self

    def __exit__(self, *exc) -> None:
        for signum, handler in self._former.items():
            signal.signal(signum, handler)

    def _receive(self, signum: int, frame: object) -> None:
        if self.signum is not None:
            raise KeyboardInterrupt
        self.signum = signum
        self.say(f"{signal.Signals(signum).name}: finishing this step, then saving. Once more stops at once.")


class RunCallback(TrainerCallback):
    """Ties a trainer to its run folder. on_row(row) is called on the main process with every line of metrics.
    """

    def __init__(self, phases: Phases, health: Health, stop: StopRequest, run: Path, *, on_alarm: str,
                 on_row: Callable[[dict], None], warn: Callable[[str], None]):
        self.phases, self.health, self.stop, self.run = phases, health, stop, run
        self.on_alarm, self.on_row, self.warn = on_alarm, on_row, warn
        self.accelerator = None
        self.fatal: Alarm | None = None
        self.row: dict = {}
        self._stepped = time.monotonic()

    def on_train_begin(self, args, state, control, **kwargs):
        self._stepped = time.monotonic()
        self.phases.take()
        if self.phases.logs is not None:  # every machine's launcher asks its own folder
            (self.phases.logs / STARTED).touch()

    def on_step_begin(self, args, state, control, **kwargs):
        self.phases.begin("update")

    def on_step_end(self, args, state, control, **kwargs):
        self.phases.finish()
        if self._asked_to_stop():
            control.should_save = control.should_training_stop = True

    def _asked_to_stop(self) -> bool:
        """Whether any rank was told to stop; a launcher tells the main rank through a file."""
        told = self.stop.signum or (signal.SIGTERM if (self.run / STOP_FILE).exists() else 0)
        if self.accelerator.num_processes > 1:
            import torch

            flag = torch.tensor([float(told)], device=self.accelerator.device)
            told = int(self.accelerator.gather(flag).max().item())
        if told:
            self.stop.signum = told
        return bool(told)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" not in logs:  # transformers' summary at the end
            return
        now = time.monotonic()
        row = {
            "step": state.global_step,
            "epoch": round(state.epoch, 6),
            **{key: finite(value) for key, value in logs.items() if key != "epoch"},
        }
        if row.get("frac_reward_zero_std") is not None:
            row["groups_with_signal"] = 1.0 - row["frac_reward_zero_std"]
        row |= {f"time/{name}": round(seconds, 4) for name, seconds in self.phases.take().items()}
        row["time/step"], self._stepped = round(now - self._stepped, 4), now
        self.row = row
        for alarm in self.health.check(row):
            if state.is_world_process_zero:
                self.warn(f"step {state.global_step}: {alarm.sentence}. {alarm.hint}")
            if self.on_alarm == "stop":
                self.fatal = alarm
                control.should_save = control.should_training_stop = True
        if state.is_world_process_zero:
            self.on_row(row)
