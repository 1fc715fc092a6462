"""Write the live help of every command into the README: `python tests/readme.py`."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"```text\n\$ (grail[^\n]*--help)\n(.*?)```", re.S)


def live_help(command: str) -> str:
    """What `grail X --help` prints at 100 columns without colour."""
    done = subprocess.run([sys.executable, "-m", "grail_cli", *shlex.split(command)[1:]], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"})
    return done.stdout.replace("python -m grail_cli", "grail").strip()


def refreshed(text: str) -> str:
    """The README with every help block as the program prints it now."""
    return BLOCK.sub(lambda match: f"```text\n$ {match[1]}\n{live_help(match[1])}\n```", text)


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
