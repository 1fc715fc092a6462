"""The command line is light, its help is true, and a user's mistake is one line with exit code 2."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from grail_cli import __version__
from grail_cli.cli import GROUPS, SINGLE, app

from .readme import BLOCK, README, TABLE, refreshed

HEAVY = ("torch transformers trl datasets accelerate deepspeed vllm pandas numpy matplotlib openpyxl pyarrow scipy sympy openai "
         "math_verify").split()
ROOT = Path(__file__).resolve().parent.parent
runner = CliRunner()


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "grail_cli", *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment})


def all_commands():
    commands = []
    for name, command in get_command(app).commands.items():
        commands.append((name,))
        commands += [(name, sub) for sub in getattr(command, "commands", {})]
    return commands


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["presets", "list"], ["presets", "show", "qwen3-grail"],
                                       ["bench", "list"], *[[*command, "--help"] for command in all_commands()]],
                         ids=" ".join)
def test_light_commands_import_nothing_heavy(arguments):
    code = (f"import sys; sys.argv = ['grail', *{arguments!r}]\n"
            "from grail_cli.cli import main\n"
            "try: main()\n"
            "except SystemExit as stop: assert not stop.code, stop.code\n"
            f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "LOADED []" in done.stderr


def test_completion_of_names_is_light():
    code = ("import sys; from grail_cli.commands.common import complete_preset, complete_set\n"
            "assert 'qwen3-grail' in complete_preset('qwen3-g') and 'credit.std=' in complete_set('credit.s')\n"
            f"assert not [name for name in {HEAVY!r} if name in sys.modules]")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_shell_completes_a_preset_name():
    done = run(_GRAIL_COMPLETE="complete_bash", COMP_WORDS="grail presets show qwen3-gra", COMP_CWORD="3",
               _TYPER_COMPLETE_ARGS="grail presets show qwen3-gra")
    assert done.stderr == ""


def test_grail_alone_prints_help_and_exits_zero():
    done = run()
    assert done.returncode == 0 and done.stderr == ""
    for command in ("train", "eval", "report", "analyze", "serve", "presets", "bench", "grade", "doctor", "demo"):
        assert f"\n  {command}" in done.stdout


def test_the_version_is_that_of_the_package():
    assert run("--version").stdout == f"grail {__version__}\n"


def test_every_option_says_what_it_is_for_and_keeps_its_brackets():
    for command in all_commands():
        node = get_command(app)
        for name in command:
            node = node.commands[name]
        text = " ".join(runner.invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).output.split())
        for parameter in node.params:
            help_text = getattr(parameter, "help", None)
            if parameter.name != "help" and not getattr(parameter, "hidden", False):
                assert help_text, f"{' '.join(command)} {parameter.name} has no help"
                assert " ".join(help_text.split()) in text, f"{' '.join(command)} --{parameter.name}"


def test_every_command_has_examples_that_name_real_options():
    for name, module in {**SINGLE, **GROUPS}.items():
        assert len(module.EXAMPLES) >= 2, name
        for line in module.EXAMPLES:
            words = shlex.split(line)
            assert words[:2] == ["grail", name], line
            node = get_command(app).commands[name]
            if words[2:] and words[2] in getattr(node, "commands", {}):
                node = node.commands[words[2]]
            known = {option for parameter in node.params for option in (*parameter.opts, *parameter.secondary_opts)}
            if "--" in words:
                words = words[:words.index("--")]
            for word in words:
                if word.startswith("-"):
                    assert word.split("=")[0] in known, f"{line}: {word}"


@pytest.mark.parametrize("arguments, says", [
    (["presets", "show", "qwen3-grial"], "did you mean 'qwen3-grail'"),
    (["presets", "show", "qwen3-grail", "--set", "credit.stdd=1"], "did you mean 'std'"),
    (["train", "--preset", "nope"], "no preset 'nope'"),
    (["train", "--preset", "qwen3-grail", "--set", "credit.std=wide", "--dry-run"], "'wide' is no number"),
    (["eval", "--model", "./no/such/folder", "--bench", "arith"], "no such folder"),
    (["report", "no-such-folder"], "no-such-folder"),
    (["presets", "check", "no-such-file.yaml"], "no-such-file.yaml"),
    (["presets", "diff", "nope", "qwen3-grail"], "error: preset: no preset 'nope'"),
    (["analyze", "--checkpoints", "runs/none"], "no such run folder"),
])
def test_a_mistake_is_one_line_and_exit_code_2(arguments, says, tmp_path):
    done = subprocess.run([sys.executable, "-m", "grail_cli", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr and done.stdout == ""
    assert list(tmp_path.iterdir()) == []
    as_json = subprocess.run([sys.executable, "-m", "grail_cli", *arguments, "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert as_json.returncode == 2
    assert set(json.loads(as_json.stdout)["error"]) >= {"kind", "message", "hint", "where"}


def test_an_unknown_command_is_exit_code_2():
    assert run("trian").returncode == 2


@pytest.mark.parametrize("arguments", [["grade", "x.jsonl", "--workers", "0"], ["trian"], ["eval", "--nn", "3"]])
def test_a_mistyped_command_line_is_one_json_document_too(arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr
    assert json.loads(done.stdout)["error"]["message"]
    assert run(*arguments).stdout == ""


def test_click_is_never_imported():
    for path in (ROOT / "grail_cli").rglob("*.py"):
        assert not re.search(r"^\s*(import|from) click\b", path.read_text(encoding="utf-8"), re.M), path


def test_a_closed_pipe_is_no_traceback():
    done = subprocess.run(f"{sys.executable} -m grail_cli presets show qwen3-grail | head -1", shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_the_readmes_help_is_the_programs_and_its_study_is_computed_from_the_files():
    text = README.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) >= len(SINGLE)
    assert len(TABLE.findall(text)) == 5
    assert refreshed(text) == text, "run: python tests/readme.py"


@pytest.mark.parametrize("path", sorted((ROOT / "grail_cli").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_between_rooms_point_down(path):
    """commands -> rooms -> credit, presets, prompts, models -> base; credit and presets know no room above them."""
    rooms = ("training", "serving", "evaluation", "reporting", "analysis", "tiny", "commands", "demo")
    low = ("credit", "presets", "errors", "files", "console", "models", "prompts", "machine", "records")
    relative = path.relative_to(ROOT / "grail_cli")
    room = relative.parts[0].removesuffix(".py")
    text = path.read_text(encoding="utf-8")
    if room in low:
        for above in rooms:
            assert not re.search(rf"^\s*from \.+{above}\b|grail_cli\.{above}\b", text, re.M), f"{relative} imports {above}"
    elif room in rooms and room not in ("commands", "demo"):
        assert not re.search(r"^\s*from \.+commands\b", text, re.M), f"{relative} imports commands"
