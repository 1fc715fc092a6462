"""`grail doctor`: what this machine has, what is missing, and what that costs."""

from ..console import Console
from .common import JsonOpt, PresetOpt, QuietOpt, SetOpt, edge

EXAMPLES = ["grail doctor", "grail doctor --preset qwen3-grail", "grail doctor --json"]


@edge
def doctor(preset: PresetOpt = None, set_: SetOpt = None, json: JsonOpt = False, quiet: QuietOpt = False) -> None:
    """Say what this machine has, what is missing, and what that costs; with --preset, for that experiment."""
    from rich.table import Table

    from ..machine import as_json, examine, needs

    findings = examine()
    if preset or set_:
        from ..presets import load_preset

        findings += needs(load_preset(preset, sets=set_ or []).preset)
    table = Table("", "what", "found", "what it costs", "what to do", box=None, pad_edge=False)
    for finding in findings:
        table.add_row({"ok": "ok", "note": "--", "fault": "!!"}[finding.level], finding.what, finding.found, finding.cost,
                      finding.remedy)
    Console(json=json, quiet=quiet).result(as_json(findings), table)
