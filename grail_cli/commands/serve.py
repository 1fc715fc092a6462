"""`grail serve`: vLLM servers that are owned, watched, found again and never left behind."""

import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import Console, duration
from ..errors import GrailError, RunFailed
from .common import EXIT_CODES, JsonOpt, PresetOpt, QuietOpt, SetOpt, Stopped, edge

if TYPE_CHECKING:
    from ..serving import Server, ServeSettings
    from ..serving.registry import Entry

EXAMPLES = [
    "grail serve --model runs/tiny/checkpoint-50",
    "grail serve --model Qwen/Qwen3-4B --gpus 0,1 --tp 2 --detach",
    "grail serve --model tiny --dry-run -- --max-num-seqs 16",
    "grail serve --list",
    "grail serve --stop all",
]
AUTO = ("auto", "0")
WATCH_S = 0.5


@edge
def serve(
    model: Annotated[list[str] | None, typer.Option(
        "--model", "-m", metavar="CKPT",
        help="Folder or Hub id (default: the preset's); repeat it for several servers on GPUs and ports of "
        "their own.")] = None,
    port: Annotated[str | None, typer.Option(
        "--port", metavar="N|auto", help="Port; auto: a free one (several models: N, N+1, ...).")] = None,
    host: Annotated[str | None, typer.Option(
        "--host", help="Address to listen on; 0.0.0.0 lets the network in.")] = None,
    gpus: Annotated[str | None, typer.Option(
        "--gpus", help="GPUs such as 0,1, shared out in order; default: the first ones.")] = None,
    tp: Annotated[int | None, typer.Option(
        "--tp", help="GPUs that one copy of the model is spread over.")] = None,
    dp: Annotated[int | None, typer.Option("--dp", help="Copies of the model.")] = None,
    name: Annotated[str | None, typer.Option(
        "--name", help="Served name; default: the checkpoint's label.")] = None,
    max_model_len: Annotated[int | None, typer.Option("--max-model-len", help="Context, tokens.")] = None,
    chat_template: Annotated[str | None, typer.Option(
        "--chat-template", metavar="FILE|NAME", help="Chat template for a model without one.")] = None,
    plain: Annotated[bool, typer.Option(
        "--plain", help="Plain completions only: no chat template is needed.")] = False,
    enforce_eager: Annotated[bool | None, typer.Option(
        "--enforce-eager/--no-enforce-eager",
        help="No compilation, no graphs: starts faster, decodes slower; default: on a CPU only.")] = None,
    python: Annotated[str | None, typer.Option(
        "--python", metavar="PATH", help="Interpreter that has vLLM.")] = None,
    detach: Annotated[bool, typer.Option(
        "--detach", "-d", help="Return once it is ready; it runs until --stop.")] = False,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Check everything, print what would run, start nothing.")] = False,
    list_: Annotated[bool, typer.Option(
        "--list", help="Show the servers of this machine that are ours.")] = False,
    stop: Annotated[str | None, typer.Option(
        "--stop", metavar="NAME|all", help="Stop a server, or all of ours.")] = None,
    logs: Annotated[str | None, typer.Option("--logs", metavar="NAME", help="Print a server's log.")] = None,
    follow: Annotated[bool, typer.Option(
        "--follow", "-f", help="With --logs: go on until the server ends.")] = False,
    preset: PresetOpt = None,
    set: SetOpt = None,
    vllm_args: Annotated[list[str] | None, typer.Argument(
        metavar="-- VLLM ARGS", help="Arguments that go to vLLM untouched.", show_default=False)] = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Serve checkpoints with vLLM until Ctrl-C, or detached."""
    console = Console(json=json, quiet=quiet)
    actions = {"--model": model, "--list": list_, "--stop": stop, "--logs": logs}
    flags = {"serve.host": host, "serve.gpus": gpus, "serve.tp": tp, "serve.dp": dp,
             "serve.max_model_len": max_model_len,
             "serve.chat_template": chat_template, "serve.enforce_eager": enforce_eager,
             "serve.python": python,
             "serve.extra": _passed_on(vllm_args), "serve.port": _port(port)}
    if preset and not any(actions.values()):
        actions["--model"] = model = _models_of(preset, set)
    asked = [flag for flag, value in actions.items() if value]
    if len(asked) != 1:
        raise GrailError(f"{' and '.join(asked)} exclude one another." if asked else "nothing to serve.",
                         where="grail serve",
                         hint="give one of --model CKPT, --list, --stop NAME, --logs NAME.")
    if follow and logs is None:
        raise GrailError("--follow goes with --logs NAME.", where="--follow", hint="grail serve --list names them.")
    stray = [key for key, value in flags.items() if value is not None]
    stray += [flag for flag, value in (("--name", name), ("--detach", detach), ("--dry-run", dry_run),
                                         ("--plain", plain)) if value]
    if not model and stray:
        raise GrailError(f"{asked[0]} starts no server, so {', '.join(stray)} would have no effect.",
                         where="grail serve", hint="leave it out, or start a server with --model CKPT.")
    if list_:
        return _list(console)
    if stop is not None:
        return _stop(stop, console)
    if logs is not None:
        return _logs(logs, follow, console)

    settings = _settings(model, name, "plain" if plain else "chat", preset, set, flags, any_port=port in AUTO)
    if dry_run:
        return _dry_run(settings, console)
    _run(settings, detach, console)


def _models_of(preset: str, sets: list[str] | None) -> list[str]:
    """The model of a preset, served when no other is named."""
    from ..presets.load import load_preset

    return [load_preset(preset, sets=sets or []).preset.model.path]


def _passed_on(words: list[str] | None) -> list[str] | None:
    if words and not words[0].startswith("-"):
        raise GrailError(f"{words[0]!r} is no option.", where="grail serve",
                         hint=f"--model {words[0]} serves a checkpoint.")
    return words or None


def _port(port: str | None) -> int | None:
    if port is None or port in AUTO:
        return None
    if not port.isdigit() or not 1 <= int(port) <= 65535:
        raise GrailError(f"{port!r} is no port.", where="--port", hint="a number from 1 to 65535, or auto.")
    return int(port)


def _settings(models: list[str], name: str | None, route: str, preset: str | None, sets: list[str] | None,
              flags: dict[str, object], *, any_port: bool) -> list["ServeSettings"]:
    from ..presets.load import load_preset
    from ..serving import ServeSettings

    if name is not None and len(models) > 1:
        raise GrailError(f"one --name for {len(models)} models.", where="--name",
                         hint="serve them by their own labels.")
    resolved = load_preset(preset, sets=sets or [],
                           flags={key: value for key, value in flags.items() if value is not None})
    options = resolved.preset.serve
    if any_port:  # said on the command line, so it wins over a port of the preset
        options = options.model_copy(update={"port": None})
    settings = []
    for number, model in enumerate(models):
        port = options.port + number if options.port is not None else None
        settings.append(ServeSettings(
            model=model, options=options.model_copy(update={"port": port}), name=name, route=route,
            gpu_offset=number * options.tp * options.dp,
            revision=resolved.preset.model.revision,
            trust_remote_code=resolved.preset.model.trust_remote_code))
    return settings


def _dry_run(settings: list["ServeSettings"], console: Console) -> None:
    from .. import serving

    plans = [serving.plan(one) for one in settings]
    for plan in plans:
        for note in plan.notes:
            console.say(note)
    lines = [f"{plan.command()} --port {plan.port or 'PORT'}" for plan in plans]
    console.result({"servers": [{"name": plan.served_name, "argv": plan.argv, "env": plan.shown_env(),
                                 "vllm": plan.interpreter.version, "build": plan.interpreter.build,
                                 "port": plan.port}
                                for plan in plans]}, "\n".join(lines))


def _run(settings: list["ServeSettings"], detach: bool, console: Console) -> None:
    from .. import serving

    servers: list[Server] = []
    keep = False
    try:
        if len(settings) == 1:
            servers.append(serving.launch_until_ready(settings[0], console))
        else:
            servers += [serving.launch(one, console) for one in settings]
            for server in servers:
                server.wait_until_ready(console)
        if detach:
            for server in servers:
                server.process.detach()
                console.say(f"{server.name}: runs on; stop it with: grail serve --stop {shlex.quote(server.name)}")
            keep = True
            _announce(servers, console)
        else:
            _watch(servers, console)
    finally:
        if not keep:
            for server in servers:
                server.process.begin_stop()
            for server in servers:
                server.stop(console)


def _announce(servers: list["Server"], console: Console) -> None:
    console.result({"servers": [_shown(server) for server in servers]},
                   "\n".join(f"{server.served_name}  {server.base_url}" for server in servers))


def _shown(server: "Server") -> dict:
    return {"name": server.name, "served_name": server.served_name, "url": server.base_url,
            "route": server.route,
            "model": server.settings.model, "pid": server.process.pid, "log": str(server.log),
            "max_model_len": server.max_model_len}


def _watch(servers: list["Server"], console: Console) -> None:
    """Print the result, then show the logs until Ctrl-C or a server's death; stderr alone from then on."""
    from ..serving.logs import Tail

    try:
        _announce(servers, console)
        console.say("serving; Ctrl-C stops.")
        tails = [(server, Tail(server.log, server.log.stat().st_size)) for server in servers]
        while True:
            for server, tail in tails:
                for line in tail.read().splitlines():
                    console.say(f"{server.name} | {line}" if len(servers) > 1 else line)
                server.check_alive()
            time.sleep(WATCH_S)
    except RunFailed as error:
        for line in error.line().splitlines():
            Console().say(f"error: {line}")
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt as stopped:
        console.say("stopping.")
        raise typer.Exit(EXIT_CODES[stopped.signum] if isinstance(stopped, Stopped) else 130) from None


def _list(console: Console) -> None:
    from ..serving import registry

    found = registry.entries()
    rows = [_row(entry) for entry in found]
    for warning in registry.orphan_warnings(found):
        console.warn(warning)
    console.result({"servers": rows}, _table(rows) if rows else "no servers.")
    for entry, row in zip(found, rows, strict=True):
        if row["status"] == "dead":
            registry.forget(entry)  # shown once; its log stays for --logs


def _row(entry: "Entry") -> dict:
    data = entry.data
    return {"name": entry.name, "status": entry.status, "served_name": data.get("served_name"),
            "url": entry.url,
            "model": data.get("model"), "pid": data.get("pid"), "detached": bool(data.get("detached")),
            "up_s": round(time.time() - data.get("created", time.time())), "log": data.get("log"),
            "exit_code": data.get("exit_code")}


def _table(rows: list[dict]) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("name", "status", "url", "model", "pid", "up"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(row["name"], row["status"], row["url"], row["model"], str(row["pid"] or ""),
                      duration(row["up_s"]))
    return table


def _stop(name: str, console: Console) -> None:
    from ..serving import registry

    chosen = registry.entries() if name == "all" else [registry.find(name)]
    for entry in chosen:
        console.say(f"{entry.name}: stopping")
        registry.stop(entry)
    stopped = [entry.name for entry in chosen]
    console.result({"stopped": stopped}, f"stopped {', '.join(stopped)}." if stopped else "no servers.")


def _logs(name: str, follow: bool, console: Console) -> None:
    from ..serving import registry
    from ..serving.logs import Tail

    left = registry.home() / "servers" / f"{name}.log"  # of a start that failed: its state file is gone
    known = name in [entry.name for entry in registry.entries()]
    entry = registry.find(name) if known or not left.is_file() else None
    path = entry.data.get("log", left) if entry is not None else left
    tail = Tail(path)
    text = tail.read()
    if console.json:
        return console.result({"name": name, "log": str(path), "lines": text.splitlines()})
    print(text, end="", flush=True)
    while follow and entry is not None and entry.status in ("starting", "ready", "orphan"):
        time.sleep(WATCH_S)
        print(tail.read(), end="", flush=True)
