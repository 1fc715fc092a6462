"""`grail report` as a person types it: files, tables, JSON, and one line for every mistake."""

import json
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from grail_cli.cli import app
from grail_cli.evaluation.score import averages, suite_scores
from grail_cli.files import write_json

from . import folders


def grail(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


@pytest.fixture
def results(tmp_path):
    folders.ours(tmp_path / "results" / "base", {"amc23": ["ccc", "cww", "wwn"], "math": ["cww", "www"]})
    folders.ours(
        tmp_path / "results" / "run@step-50", {"amc23": ["ccc", "ccw", "cwn"], "math": ["ccc", "cww"]}
    )
    folders.ours(tmp_path / "results" / "run@step-100", {"amc23": ["ccc", "ccc", "ccc"]})
    return tmp_path / "results"


def test_one_command_writes_every_format_and_prints_the_table(results, tmp_path):
    done = grail(
        results,
        "--baseline",
        "base",
        "--out",
        tmp_path / "out" / "r.xlsx",
        "--format",
        "xlsx,csv,md,html,tex",
    )
    assert done.exit_code == 0 and "44.4" in done.stdout and "no math: run@step-100" in done.stdout
    assert "wrote" in done.stderr and "wrote" not in done.stdout
    table = pd.read_excel(tmp_path / "out" / "r.xlsx", header=[0, 1], index_col=0)
    tidy = pd.read_csv(tmp_path / "out" / "r.csv").set_index(["model", "suite"])
    assert list(table.index) == ["base", "run@step-50", "run@step-100"]
    for label in table.index:
        for suite in ("amc23", "math"):
            for column, key in ((f"{suite}", "acc"), (f"{suite}", "pass")):
                shown = table.loc[label, (column, f"{key}@3")]
                assert shown == pytest.approx(100 * tidy.loc[(label, suite), key], nan_ok=True)
    assert table.loc["base", ("amc23", "acc@3")] == pytest.approx(400 / 9)
    assert "Learning curves" in (tmp_path / "out" / "r.html").read_text()


def test_json_is_one_document_whose_numbers_are_the_tables(results, tmp_path):
    done = grail(results, "--baseline", "base", "--json", "--out", tmp_path / "r.csv")
    document = json.loads(done.stdout)
    assert document["files"] == [str(tmp_path / "r.csv")] and document["suites"] == ["amc23", "math"]
    rows = {(row["model"], row["suite"]): row for row in document["scores"]}
    assert (
        rows["base", "amc23"]["acc"] == pytest.approx(4 / 9) and rows["run@step-100", "math"]["acc"] is None
    )
    assert rows["run@step-50", "math"]["difference"] == pytest.approx(1 / 2)
    assert [model["step"] for model in document["models"]] == [None, 50, 100]
    tidy = pd.read_csv(tmp_path / "r.csv")
    assert tidy["acc"].dropna().tolist() == [
        row["acc"] for row in document["scores"] if row["acc"] is not None
    ]


def test_check_agrees_with_a_summary_from_the_samples_and_fails_on_a_changed_one(results, tmp_path):
    lines = {
        suite: [folders.line(i, word, suite) for i, word in enumerate(words)]
        for suite, words in {"amc23": ["ccc", "cww", "wwn"], "math": ["cww", "www"]}.items()
    }
    summary = {suite: suite_scores(rows, 3) for suite, rows in lines.items()}
    summary |= averages(summary, 3)
    write_json(results / "base" / "eval_summary.json", summary)
    done = grail(results / "base", "--check", "--json", "--out", tmp_path / "r.md")
    assert done.exit_code == 0 and json.loads(done.stdout)["check"]["compared"] > 30
    summary["math"]["acc@3"] = 0.5
    write_json(results / "base" / "eval_summary.json", summary)
    done = grail(results / "base", "--check", "--json", "--out", tmp_path / "new.md")
    assert done.exit_code == 1 and "math acc@3 is 0.5" in json.loads(done.stdout)["error"]["message"]
    assert not (tmp_path / "new.md").exists()


def test_the_references_folder_compiles_with_our_own_verdicts(tmp_path):
    folder = tmp_path / "out" / "qwen" / "checkpoint-100"
    folders.reference(
        folder, "aime24", [("q1", "5", ["5", "5.0", "6"]), ("q2", r"\frac{1}{2}", ["0.5", "1/2", "2"])]
    )
    folders.reference(
        folder, "olympiadbench", [("q3", r"['$\\frac{10}{3}$']", [r"\frac{10}{3}", "10/3", "-10/3"])]
    )
    done = grail(tmp_path / "out", "--json", "--quiet", "--out", tmp_path / "r.xlsx")
    document = json.loads(done.stdout)
    assert document["models"][0] | {"folder": ""} == {
        "label": "qwen@step-100",
        "folder": "",
        "run": "qwen",
        "step": 100,
        "suites": ["aime24", "olympiadbench"],
        "marked": ["olympiadbench"],
    }
    rows = {row["suite"]: row for row in document["scores"]}
    assert rows["aime24"]["acc"] == pytest.approx(2 / 3) and rows["olympiadbench"]["acc"] == pytest.approx(
        2 / 3
    )
    assert any("graded now" in warning for warning in document["warnings"])


def test_the_preset_picks_and_orders_the_suites_in_every_format(results, tmp_path):
    words = ["--set", "eval.bench=[math,aime24,mine=x.jsonl]", "--format", "xlsx,csv,md,html,tex", "--json"]
    done = grail(results, *words, "--baseline", "base", "--out", tmp_path / "r.xlsx")
    assert done.exit_code == 0 and json.loads(done.stdout)["suites"] == ["math", "aime24", "mine"]
    table = pd.read_excel(tmp_path / "r.xlsx", header=[0, 1], index_col=0)
    assert list(dict.fromkeys(table.columns.get_level_values(0))) == ["math", "aime24", "mine"]
    assert table["aime24"].isna().all().all() and table["math"].notna().any().any()
    everything = json.loads(grail(results, "--json", "--out", tmp_path / "all.csv").stdout)
    assert everything["suites"] == ["amc23", "math"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["results", "--set", "eval.benchh=[math]"], "no such key"),
        (["results/absent"], "no such folder"),
        (["results", "--baseline", "bas"], "did you mean 'base'"),
        (["results", "--format", "pdf"], "format 'pdf' is unknown"),
        (["results", "--out", "r.pdf"], "ends in no format"),
        (["results", "--check"], "no folder has an eval_summary.json"),
        (["empty"], "an empty folder"),
        (["results/base/amc23/samples.jsonl"], "a file, where a folder"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_and_leaves_no_file(
    results, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = grail(*words)
    assert done.exit_code == 2 and done.stdout == ""
    assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "results"]
    asked = json.loads(grail(*words, "--json").stdout)
    assert message in asked["error"]["message"] + asked["error"]["hint"]


def test_help_loads_no_heavy_module():
    code = (
        "import sys; sys.argv = ['grail', 'report', '--help']\ntry:\n    from grail_cli.cli import main; "
        "main()\nexcept SystemExit:\n"
        "    pass\nprint(sorted(set(sys.modules) & "
        "{'pandas', 'numpy', 'openpyxl', 'scipy', 'torch', 'matplotlib', 'yaml'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.rstrip().endswith("[]"), done.stdout[-500:]
