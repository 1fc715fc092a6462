"""The result is on standard output alone, and readable by a program under every terminal setting."""

import json
import subprocess
import sys

import pytest

from grail_cli.console import Console, counted, duration

SCRIPT = """
import sys
from rich.table import Table
from grail_cli.console import Console
out = Console(json='--json' in sys.argv)
with out.progress('sampling', total=20, unit='samples') as bar:
    for _ in range(20): bar.advance(note='accuracy 41 %')
out.warn('truncated 7 %')
table = Table('model', 'pass@3 [%]'); table.add_row('a-very-long-model-name-that-is-not-to-be-cut/checkpoint-200', '41.0 \\u00b1 2')
out.result({'pass@3': 41.0}, table)
"""


def run(*arguments, **environment):
    import os

    return subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True,
                          env={**os.environ, **environment})


@pytest.mark.parametrize("environment", [
    {}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, {"GITHUB_ACTIONS": "true"},
    {"TTY_COMPATIBLE": "1"}])
def test_json_is_one_document_without_an_escape_byte(environment):
    done = run("--json", **environment)
    assert json.loads(done.stdout) == {"pass@3": 41.0, "warnings": ["truncated 7 %"]}
    assert b"\x1b" not in done.stdout + done.stderr


def test_a_pipe_gets_plain_progress_lines_and_an_uncut_table():
    done = run()
    assert b"a-very-long-model-name-that-is-not-to-be-cut/checkpoint-200" in done.stdout
    assert b"pass@3 [%]" in done.stdout  # brackets are text, not markup
    lines = done.stderr.decode().splitlines()
    assert any("sampling 2/20 samples" in line and "accuracy 41 %" in line for line in lines)
    assert "sampling 20/20 samples" in lines[-2]


def test_an_ascii_pipe_gets_a_table_and_no_crash():
    done = run(PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b"41.0" in done.stdout


def test_quiet_keeps_silent_but_still_warns(capsys):
    out = Console(quiet=True)
    out.say("nobody reads this")
    with out.progress("x", total=2) as bar:
        bar.advance()
    out.warn("a number changed")
    captured = capsys.readouterr()
    assert captured.err == "warning: a number changed\n"
    assert captured.out == ""


@pytest.mark.parametrize("seconds, text", [(0.4, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (3599, "59m 59s"), (7800, "2h 10m")])
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("number, text", [(1, "1 prompt"), (16, "16 prompts"), (2.5, "2.5 prompts"), (0, "0 prompts")])
def test_a_number_agrees_with_its_noun(number, text):
    assert counted(number, "prompt") == text
