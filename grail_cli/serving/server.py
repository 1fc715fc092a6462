"""A server that belongs to a command: started, watched until it really answers, used, and gone afterwards.

    with serving.start(ServeSettings(model="runs/x/checkpoint-50"), out) as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key=server.api_key or "none")
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..console import Console, duration
from ..errors import RunFailed
from . import devices, logs, ports, ready, registry
from .plan import Plan, ServeSettings, check_port, plan
from .process import GuardedProcess

POLL_S = 0.25
HEARTBEAT_S = 15.0
PORT_TRIES = 3
PORT_CLASH = ("Address already in use", "EADDRINUSE")
GPU_SETTLE_S = 10.0  # a driver gives memory back a moment after the process has gone
GPU_SLACK_MIB = 512
FIRST_ANSWER_TIMEOUT_S = 600.0
MOST_REFUSALS = 20
RETRIED_STATUS = (0, 408, 429, 500, 502, 503, 504)  # may pass while a server is still coming up


class Server:
    """A running server and what a client needs to know about it."""

    def __init__(self, launch: Plan, reservation: ports.Reservation):
        self.plan = launch
        self.settings = launch.settings
        self.served_name = launch.served_name
        self.route = launch.settings.route
        self.api_key = launch.environment().get("VLLM_API_KEY")
        self.address = ready.Address(launch.settings.options.host, reservation.port, self.api_key)
        self.max_model_len: int | None = None
        self.keep_log = launch.settings.log is not None
        self.argv = [*launch.argv, "--port", str(reservation.port)]
        self._reservation = reservation
        self._gpu_used_before = devices.used_mib(launch.gpus)
        state = {"model": launch.settings.model, "served_name": launch.served_name,
                 "instance": launch.instance,
                 "host": launch.settings.options.host, "port": reservation.port, "route": self.route,
                 "grace_s": launch.settings.options.grace_s, "created": time.time(), "argv": self.argv}
        self.state_path = registry.claim(launch.served_name, state)
        self.name = self.state_path.stem
        try:
            self.log = (launch.settings.log or self.state_path.with_suffix(".log")).resolve()
            self.log.parent.mkdir(parents=True, exist_ok=True)
            if not self.keep_log:
                self.log.write_bytes(b"")  # what an earlier server of that name left
            self._log_start = self.log.stat().st_size if self.log.exists() else 0
            state |= {"name": self.name, "log": str(self.log), "own_log": not self.keep_log}
            self.process = GuardedProcess(self.argv, env=launch.environment(), log=self.log,
                                          state_path=self.state_path,
                                          state=state, grace_s=launch.settings.options.grace_s)
        except BaseException:
            self.state_path.unlink(missing_ok=True)
            raise

    @property
    def root_url(self) -> str:
        """http://HOST:PORT, for health, metrics and weight transfer."""
        return ports.root_url(self.address.host, self.address.port)

    @property
    def base_url(self) -> str:
        """What an OpenAI client calls its base URL."""
        return f"{self.root_url}/v1"

    def check_alive(self) -> None:
        """Raises RunFailed with the cause out of the log when the server has died; cheap, call it often."""
        code = self.process.poll()
        if code is not None:
            raise self.failure(f"the server of {self.served_name!r} has died", code)

    def failure(self, what: str, exit_code: int | None = None) -> RunFailed:
        """The error for a dead or hanging server: cause, advice, path of the log, how to run it by hand."""
        self.keep_log = True
        found = logs.digest(logs.read_log(self.log, self._log_start), exit_code)
        lines = [f"{what}: {found.cause}"]
        if not found.advice:  # not a known cause: what a person needs to look further
            lines += ["  last lines of its log:", *(f"    {line}" for line in found.tail)]
            lines += [f"  by hand: {self.plan.command()} --port {self.address.port}"]
        lines += [f"  whole log: {self.log}"]
        return RunFailed("\n".join(lines), hint=found.advice, kind="server")

    def refusal(self, message: str, hint: str = "", kind: str = "server") -> RunFailed:
        """The error for a server that lives and cannot be used."""
        self.keep_log = True
        return RunFailed(message, where=self.base_url, kind=kind, hint=hint or f"whole log: {self.log}")

    def wait_until_ready(self, out: Console) -> None:
        """Block until the server has answered one real request; say the phase meanwhile.

        Raises RunFailed when it dies, when it is somebody else's, or after start_timeout_s.
        """
        began = said = time.monotonic()
        limit = self.settings.options.start_timeout_s
        tail, phase, refused = logs.Tail(self.log, self._log_start), "starting", 0
        answer: ready.FirstAnswer | None = None
        while True:
            self.check_alive()
            elapsed = time.monotonic() - began
            before, phase = phase, logs.phase_of(tail.read(), phase)
            if answer is None and self._listed():
                phase = "waiting for the first answer"
                answer = ready.FirstAnswer(self.address, self.served_name, self.route,
                                           max(limit - elapsed, 1.0) if limit else FIRST_ANSWER_TIMEOUT_S)
            reply = answer.reply if answer is not None else None
            if reply is not None and reply.status == 200:
                break
            if reply is not None:
                refused += reply.status != 503  # `not yet` may be said as often as it takes
                if reply.status not in RETRIED_STATUS or refused > MOST_REFUSALS:
                    raise self.refusal(f"the server of {self.served_name!r} refuses requests: "
                                       f"{reply.error_text()}")
                answer = None
            if phase != before or time.monotonic() - said >= HEARTBEAT_S:
                out.say(f"{self.name}: {phase}, {duration(elapsed)}")
                said = time.monotonic()
            if limit and elapsed > limit:
                raise self.failure(f"the server of {self.served_name!r} was not ready after "
                                   f"{duration(limit)} ({phase})")
            time.sleep(POLL_S)
        self.process.ready({"ready": time.time(), "max_model_len": self.max_model_len})
        out.say(f"{self.name}: ready at {self.base_url} after {duration(time.monotonic() - began)}")

    def _listed(self) -> bool:
        """Whether /health answers and /v1/models shows our instance. Raises RunFailed when it is foreign."""
        if ready.call(self.address, "GET", "/health").status != 200:
            return False
        listed = ready.models(self.address)
        if listed == {}:
            return False
        if listed is None or self.plan.instance not in listed or self.served_name not in listed:
            serves = f"serves {', '.join(sorted(listed))}" if listed else "does not let us in"
            raise self.refusal(f"port {self.address.port} is answered by another server, which {serves}.",
                               hint="stop that server, or use --port auto.", kind="foreign_server")
        self.max_model_len = listed[self.plan.instance].get("max_model_len")
        self._reservation.close()
        return True

    def port_clash(self, error: BaseException) -> bool:
        """Whether a start failed over a port that nobody asked for by number, so that new ones may help."""
        if not isinstance(error, RunFailed) or not any(sign in error.message for sign in PORT_CLASH):
            foreign = isinstance(error, RunFailed) and error.kind == "foreign_server"
            return foreign and self.settings.options.port is None
        return self.settings.options.port is None or not check_port(self.address.host, self.address.port)

    def provenance(self) -> dict:
        """What a manifest records about the server."""
        return {"backend": "vllm", "vllm": self.plan.interpreter.version,
                "build": self.plan.interpreter.build,
                "python": self.plan.interpreter.python, "argv": self.argv, "served_name": self.served_name,
                "root": self.plan.root, "gpus": self.plan.gpus, "max_model_len": self.max_model_len}

    def stop(self, out: Console) -> None:
        """End the server and all that came out of it; the log stays if asked for or telling."""
        try:
            left = self.process.stop()
        finally:
            self._reservation.close()
            self.state_path.unlink(missing_ok=True)
            if not self.keep_log:
                self.log.unlink(missing_ok=True)
        if left:
            out.warn(f"{self.name}: processes {', '.join(map(str, left))} survived SIGKILL; a driver may "
                     f"hold them.")
        self._settle_gpus(out)

    def _settle_gpus(self, out: Console) -> None:
        if not self.plan.gpus:
            return
        deadline = time.monotonic() + GPU_SETTLE_S
        while (more := devices.used_mib(self.plan.gpus) - self._gpu_used_before) > GPU_SLACK_MIB:
            if time.monotonic() > deadline:
                out.warn(f"{self.name}: GPU {', '.join(self.plan.gpus)} still holds {more / 1024:.1f} GiB "
                         f"more than before "
                         "the start (nvidia-smi tells by whom).")
                return
            time.sleep(0.5)


def launch(settings: ServeSettings, out: Console) -> Server:
    """Check, reserve a port and spawn; it is starting when this returns, and the caller must `stop` it."""
    checked = plan(settings)
    for note in checked.notes:
        out.say(note)
    for warning in registry.orphan_warnings(registry.entries()):
        out.warn(warning)
    registry.prune_logs()
    reservation = ports.reserve(settings.options.host, settings.options.port)
    try:
        server = Server(checked, reservation)
    except BaseException:
        reservation.close()
        raise
    out.say(f"{server.name}: starting on {settings.options.host}:{reservation.port}, log: tail -F "
            f"{server.log}")
    return server


def launch_until_ready(settings: ServeSettings, out: Console) -> Server:
    """Spawn and wait; a clash over ports that nobody asked for by number is tried again with new ones."""
    tries = PORT_TRIES
    while True:
        server = launch(settings, out)
        try:
            server.wait_until_ready(out)
            return server
        except BaseException as error:
            server.stop(out)
            tries -= 1
            if tries == 0 or not server.port_clash(error):
                raise
            out.say(f"{server.name}: a port was taken meanwhile; trying again with new ones.")


@contextmanager
def start(settings: ServeSettings, out: Console) -> Iterator[Server]:
    """A server for the length of a `with` block: ready inside it, gone after it, on every way out.

    Raises GrailError or Faults for what is found before spawning, RunFailed for a start that fails.
    """
    server = launch_until_ready(settings, out)
    try:
        yield server
    finally:
        server.stop(out)
