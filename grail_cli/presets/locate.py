"""Where presets are: the shipped ones are found by listing a folder, never by a table in code."""

from pathlib import Path

from ..errors import GrailError, nearest


def preset_dir() -> Path:
    """The folder of the shipped presets: inside an installed wheel, or at the top of a source tree."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_presets"
    return inside if inside.is_dir() else package.parent / "presets"


def preset_names() -> list[str]:
    """Names of the shipped presets, sorted."""
    return sorted(path.stem for path in preset_dir().glob("*.yaml"))


def find_preset(name: str, *, beside: Path | None = None) -> Path:
    """The file of a preset, given by name or by path (relative to `beside`, then to the working folder).

    Raises GrailError with the nearest names when there is none.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        for folder in filter(None, (beside, Path.cwd())):
            if (folder / name).is_file():
                return folder / name
        raise GrailError(f"no preset file {name!r}.", hint="check the path, or `grail presets list`.",
                         where=name, kind="missing_file")
    shipped = preset_dir() / f"{name}.yaml"
    if shipped.is_file():
        return shipped
    raise GrailError(f"no preset {name!r}; {nearest(name, preset_names())}", hint="`grail presets list`",
                     where="preset", kind="unknown_preset")


def list_presets() -> list[dict]:
    """Every shipped preset as {name, description, base, fault}; one that does not load is listed with its fault."""
    from .load import load_preset

    rows = []
    for name in preset_names():
        try:
            preset = load_preset(name, environment={}).preset
            rows.append({"name": name, "description": preset.description, "model": preset.model.path,
                         "method": preset.credit.method, "fault": ""})
        except GrailError as error:
            rows.append({"name": name, "description": "", "model": "", "method": "", "fault": error.line()})
    return rows
