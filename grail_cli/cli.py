"""The `grail` command: registers one file a command and nothing else.

Heavy libraries are imported inside the commands that need them, so that help and completion cost no more than Typer.
"""

import os
import sys
from typing import Annotated

import typer

from . import __version__
from .commands import analyze, bench, demo, doctor, eval, grade, presets, report, serve, train
from .commands.common import examples
from .console import Console
from .errors import INTERRUPTED, USAGE, GrailError

USAGE_ERROR = typer.BadParameter.__base__  # what the parser raises; Typer names only this child of it

app = typer.Typer(
    name="grail", no_args_is_help=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100},
    help="Reinforcement learning with verifiable rewards on mathematics: from a preset to a table with error bars.")

# in the order that an experiment takes, which is the order of the help
SINGLE = {"demo": demo, "train": train, "eval": eval, "report": report, "analyze": analyze, "serve": serve, "grade": grade,
          "doctor": doctor}
GROUPS = {"presets": presets, "bench": bench}

for _name, _module in SINGLE.items():
    app.command(_name, epilog=examples(_module.EXAMPLES))(getattr(_module, _name))
for _name, _module in GROUPS.items():
    app.add_typer(_module.app, name=_name, epilog=examples(_module.EXAMPLES))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"grail {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _root(context: typer.Context,
          version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True,
                                                help="Print the version.")] = False) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """The entry point of the installed command; with --json a mistyped command line, too, is one JSON document."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        code = app(standalone_mode=False)
    except USAGE_ERROR as error:
        if "--json" in sys.argv:
            fault = GrailError(error.format_message(), where="command line", hint="see --help.")
            Console(json=True).result({"error": fault.as_json()})
        error.show()
        code = USAGE
    except typer.Abort:  # Ctrl-C before a command has begun
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)
