"""The `grail` command: registers one file a command and nothing else.

Heavy libraries are imported inside the commands that need them, so that help and completion cost no more than Typer.
"""

import os
import sys
from typing import Annotated

import typer

from . import __version__
from .commands.common import examples

app = typer.Typer(
    name="grail", no_args_is_help=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100},
    help="Reinforcement learning with verifiable rewards on mathematics: from a preset to a table with error bars.")

SINGLE = ("demo", "train", "eval", "report", "analyze", "serve", "grade", "doctor")
GROUPS = ("presets", "bench")

import importlib  # TEMP until every room has landed
import importlib.util
_have = [n for n in SINGLE + GROUPS if importlib.util.find_spec(f"grail_cli.commands.{n}")]
for _name in _have:
    _module = importlib.import_module(f"grail_cli.commands.{_name}")
    if _name in SINGLE:
        app.command(_name, epilog=examples(_module.EXAMPLES), **getattr(_module, "OPTIONS", {}))(getattr(_module, _name))
    else:
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
    """The entry point of the installed command."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    sys.exit(app(standalone_mode=True))
