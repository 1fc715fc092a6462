"""`grail presets`: list, look, check, compare and copy the experiment files."""

from pathlib import Path
from typing import Annotated

import typer

from ..console import Console
from ..errors import GrailError
from .common import JsonOpt, QuietOpt, SetOpt, complete_preset, edge, examples

EXAMPLES = ["grail presets list", "grail presets show qwen3-grail --set credit.std=0.7",
            "grail presets diff qwen3-grail qwen3-grail-plus", "grail presets copy tiny-grail mine.yaml"]

app = typer.Typer(help="List, show, check, compare and copy presets.", no_args_is_help=False, rich_markup_mode=None,
                  invoke_without_command=True)
NameArg = Annotated[str, typer.Argument(metavar="NAME|FILE", help="Preset, by name or file.",
                                        autocompletion=complete_preset)]


@app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", epilog=examples(["grail presets list", "grail presets list --json"]))
@edge
def list_(json: JsonOpt = False, quiet: QuietOpt = False) -> None:
    """List the shipped presets with model, method and purpose."""
    from rich.table import Table

    from ..presets.locate import list_presets

    rows = list_presets()
    table = Table("preset", "model", "method", "what for", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["name"], row["model"], row["method"], row["fault"] or row["description"])
    Console(json=json, quiet=quiet).result(rows, table)


@app.command(epilog=examples(["grail presets show qwen3-grail", "grail presets show tiny-grail --set credit.std=0.7"]))
@edge
def show(name: NameArg, set_: SetOpt = None, json: JsonOpt = False, quiet: QuietOpt = False) -> None:
    """Print a preset with every value and where it comes from; the output is itself a preset."""
    from ..presets import load_preset

    resolved = load_preset(name, sets=set_ or [])
    document = {"name": resolved.name, "values": resolved.preset.model_dump(exclude={"base"}),
                "origins": resolved.origins}
    Console(json=json, quiet=quiet).result(document, resolved.to_yaml().rstrip("\n"))


@app.command(epilog=examples(["grail presets check mine.yaml", "grail presets check old_flat_config.yaml --json"]))
@edge
def check(file: NameArg, set_: SetOpt = None, json: JsonOpt = False, quiet: QuietOpt = False) -> None:
    """Check a preset, or a flat YAML file of the reference implementation: all faults at once."""
    from ..presets import load_preset
    from ..presets.locate import find_preset
    from ..presets.reference import is_flat_file

    flat = is_flat_file(find_preset(file))
    resolved = load_preset(None if flat else file, sets=set_ or [], config_file=file if flat else None)
    out = Console(json=json, quiet=quiet)
    for note in resolved.notes:
        out.warn(note)
    out.result({"name": file, "valid": True}, f"{file}: valid")


@app.command(epilog=examples(["grail presets diff tiny-grpo tiny-grail"]))
@edge
def diff(a: NameArg, b: NameArg, json: JsonOpt = False, quiet: QuietOpt = False) -> None:
    """Print the values in which two presets differ."""
    from rich.table import Table

    from ..presets import load_preset
    from ..presets.load import dotted_keys
    from ..presets.values import dump_value

    left, right = (load_preset(name).preset.model_dump() for name in (a, b))
    rows = []
    for key in dotted_keys():
        section, _, leaf = key.partition(".")
        if leaf and left[section][leaf] != right[section][leaf]:
            rows.append({"key": key, "a": left[section][leaf], "b": right[section][leaf]})
    table = Table("key", a, b, box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["key"], dump_value(row["a"]), dump_value(row["b"]))
    Console(json=json, quiet=quiet).result(rows, table if rows else "no difference")


@app.command(epilog=examples(["grail presets copy qwen3-grail mine.yaml"]))
@edge
def copy(name: NameArg, file: Annotated[Path, typer.Argument(help="File to write.")],
         force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
         json: JsonOpt = False, quiet: QuietOpt = False) -> None:
    """Copy a preset to a file of your own, whole, with the origin of every value."""
    from ..files import write_text
    from ..presets import load_preset

    if file.exists() and not force:
        raise GrailError(f"{str(file)!r} exists.", where="FILE", hint="choose another name, or --force.", kind="exists")
    if file.suffix not in (".yaml", ".yml"):
        raise GrailError(f"{str(file)!r} does not end in .yaml.", where="FILE", hint=f"write {file}.yaml", kind="bad_value")
    resolved = load_preset(name, environment={})
    write_text(file, f"# copied from {name}; edit, then: grail presets check {file}\n" + resolved.to_yaml())
    Console(json=json, quiet=quiet).result({"file": str(file)}, f"{file}")
