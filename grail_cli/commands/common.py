"""What every command shares: its options, its voice, and the edge where faults become one line and an exit code."""

import functools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from ..console import Console, encodable
from ..errors import FAILED, INTERRUPTED, GrailError

EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 143, signal.SIGHUP: 129}


def complete_preset(incomplete: str) -> list[str]:
    """Shipped preset names that begin like the word typed."""
    from ..presets.locate import preset_names

    return [name for name in preset_names() if name.startswith(incomplete)]


def complete_set(incomplete: str) -> list[str]:
    """Dotted keys that begin like the word typed."""
    from ..presets.load import dotted_keys

    return [f"{key}=" for key in dotted_keys() if "." in key and key.startswith(incomplete)]


PresetOpt = Annotated[str | None, typer.Option(
    "--preset", "-p", metavar="NAME|FILE", help="Preset, by name or file.", autocompletion=complete_preset)]
SetOpt = Annotated[list[str] | None, typer.Option(
    "--set", "-s", metavar="SECTION.KEY=VALUE", help="Override one value; repeatable, the last wins, lists replace.",
    autocompletion=complete_set)]
JsonOpt = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no hints.")]


class Stopped(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised where Ctrl-C would be, so that all three run the same stop path."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum


def _raise_stopped(signum: int, frame: object) -> None:
    raise Stopped(signum)


def edge(command: Callable) -> Callable:
    """Turn what a command raises into words and an exit code: 2 or 1 for a GrailError, 130/143/129 for a signal.

    Anything else is a bug and keeps its traceback. The command may take a `json` argument: then a failure, too, is one
    JSON document on standard output.
    """

    @functools.wraps(command)
    def guarded(*args, **kwargs):
        as_json = bool(kwargs.get("json"))
        for signum in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, _raise_stopped)
        try:
            command(*args, **kwargs)
        except GrailError as error:
            _fail(error.as_json(), error.line(), as_json)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt as error:
            signum = getattr(error, "signum", signal.SIGINT)
            note = str(error.args[0]) if error.args and isinstance(error.args[0], str) else ""
            _fail({"kind": "interrupted", "message": note or "interrupted", "hint": "", "where": ""},
                  f"interrupted. {note}".strip(), as_json)
            raise typer.Exit(EXIT_CODES[signum]) from None
        except BrokenPipeError:
            # the reader of our output is gone (`| head`): nothing is left to say, and nobody to say it to
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None

    return guarded


def _fail(error: dict, line: str, as_json: bool) -> None:
    if as_json:
        Console(json=True).result({"error": error})
    for part in line.splitlines():
        print(encodable(f"error: {part}", sys.stderr), file=sys.stderr)


def examples(lines: Sequence[str]) -> str:
    """Copy-paste lines as the end of a command's help."""
    return "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in lines)  # \b: never wrapped, they are to be copied
