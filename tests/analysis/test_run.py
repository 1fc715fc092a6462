"""A run's checkpoints analysed from end to end on the small random model: files, resume, skips, comparisons."""

import io
import json
import shutil

import numpy as np
import pytest

from grail_cli.analysis import run as run_module
from grail_cli.analysis.present import draw, neighbour_rows, summary_view, write_data
from grail_cli.analysis.options import options_of
from grail_cli.analysis.run import analyze_rollouts, analyze_runs
from grail_cli.console import Console, rich_console
from grail_cli.errors import GrailError
from grail_cli.presets import load_preset

from .conftest import make_checkpoint

TEXTS = ["We add 4 and 5, so \\boxed{9} it is.", "Thus we get \\boxed{12}", "no answer here", "It is 3. \\boxed{3} or \\boxed{2}"]


def options(*sets, compare=(), faithful=False):
    base = ["analyze.bootstrap=20", "analyze.bins=5", "credit.method=grail", *sets]
    return options_of(load_preset(None, sets=base, environment={}), every_rollout=True, compare=compare, faithful=faithful)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("runs") / "demo"
    for step in (1, 2):
        make_checkpoint(folder / f"checkpoint-{step}", seed=step)
        samples = [{"id": str(i), "question": "q", "prompt_ids": [60, 61, 62], "generated_solutions": [
            {"solution": text, "completion_ids": tokenizer(text, add_special_tokens=False)["input_ids"] + [0],
             "correct": (i + k) % 2 == 0, "sample": k, "finish_reason": "stop"} for k, text in enumerate(TEXTS)]}
            for i in range(3)]
        path = folder.parent / "results" / f"demo@step-{step}" / "arith" / "samples.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(s) + "\n" for s in samples))
    return folder


def analyse(run, out, chosen=None, **more):
    chosen = chosen or options()
    console = Console(quiet=True)
    readings, skipped = analyze_runs([run], out, {run.name: chosen}, console, **more)
    return readings, skipped, console, chosen


def test_a_run_gives_data_tables_and_figures(run, tmp_path):
    readings, skipped, console, chosen = analyse(run, tmp_path)
    assert [r.task.label for r in readings] == ["demo@step-1", "demo@step-2"] and skipped == {}
    document = write_data(readings, skipped, chosen, tmp_path)
    draw(readings, chosen, tmp_path)
    assert document["coverage"]["demo@step-1"]["read"] == 12
    assert document["coverage"]["demo@step-1"]["left_out"] == {"no complete box": 3}
    assert any("3 of 12 rollouts left out: no complete box (e.g. arith/0#2" in w for w in console.warnings)
    lines = (tmp_path / "demo@step-1" / "tokens.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines[:4]] == [f"arith/0#{k}" for k in range(4)]
    summary = json.loads((tmp_path / "checkpoint_2_pos_summary.json").read_text())
    assert summary["n_samples"] == {"all": 9, "correct": sum(r.rollout.correct for r in readings[1].scored if r.answer),
                                    "wrong": sum(not r.rollout.correct for r in readings[1].scored if r.answer)}
    for name in ("reference", "p1_profile", "p2_correct_wrong", "p3_map", "p4_histograms", "p5_entropy", "p6_training", "tail"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 8000 and (tmp_path / "figures" / f"{name}.pdf").is_file()
    assert "arith/0#0" in (tmp_path / "tokens.html").read_text()
    for name in ("coverage", "weights", "signal", "concentration", "agreement", "token_types", "classes", "tail"):
        assert (tmp_path / "tables" / f"{name}.csv").is_file()


def test_the_positional_file_equals_an_independent_computation_from_tokens_jsonl(run, tmp_path):
    readings, skipped, _, chosen = analyse(run, tmp_path)
    write_data(readings, skipped, chosen, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "demo@step-2" / "tokens.jsonl").read_text().splitlines()]
    per_rollout = []
    for row in rows:
        if row["regions"] and row["regions"]["answer"][0] > 0:
            r, bins = row["regions"]["answer"][0], [[] for _ in range(5)]
            for t in range(r):
                bins[min(int(5 * t / (r - 1) + 1e-12), 4)].append(row["weights"][t])
            per_rollout.append([np.mean(b) if b else np.nan for b in bins])
    found = json.loads((tmp_path / "positional.json").read_text())["demo@step-2"]["weight"]["all"]
    np.testing.assert_allclose(found["mean"], np.nanmean(per_rollout, axis=0), rtol=1e-5)


def test_a_finished_checkpoint_is_read_back_and_other_settings_make_it_anew(run, tmp_path, monkeypatch):
    first, *_ = analyse(run, tmp_path)
    loads = []
    real = run_module.load_model
    monkeypatch.setattr(run_module, "load_model", lambda name, **kw: loads.append(name) or real(name, **kw))
    again, *_ = analyse(run, tmp_path)
    assert loads == [] and again[0].summary == first[0].summary
    np.testing.assert_allclose(again[1].scored[0].scores, first[1].scored[0].scores, rtol=1e-6)
    (tmp_path / "demo@step-2" / "summary.json").unlink()  # as after a kill before the end
    analyse(run, tmp_path)
    assert [name.endswith("checkpoint-2") for name in loads] == [True]
    analyse(run, tmp_path, options("credit.std=0.7"))
    assert len(loads) == 3


def test_shared_texts_are_the_same_for_all_and_named_in_the_caption(run, tmp_path):
    readings, _, _, chosen = analyse(run, tmp_path, texts="shared")
    a, b = (r.scored for r in readings)
    assert [s.rollout.completion_ids for s in a] == [s.rollout.completion_ids for s in b]
    assert not np.allclose(a[0].scores, b[0].scores)
    assert "samples of demo@step-2" in chosen.caption(readings[0].task.texts)
    neighbours = neighbour_rows(readings, chosen)
    assert [(r["first"], r["second"], r["rollouts"]) for r in neighbours] == [("demo@step-1", "demo@step-2", 9)]
    own, *_ = analyse(run, tmp_path / "own")
    assert len(neighbour_rows(own, chosen)) == 1  # here both have the same samples


def test_a_checkpoint_with_another_tokenizer_is_left_out_of_shared_texts_by_name(run, tmp_path):
    mixed = tmp_path / "demo"
    shutil.copytree(run, mixed)
    shutil.copytree(run.parent / "results", tmp_path / "results")
    shutil.rmtree(mixed / "checkpoint-2")
    make_checkpoint(mixed / "checkpoint-2", seed=2, extra_tokens=("<|more|>",))
    readings, skipped, console, _ = analyse(mixed, tmp_path / "out", texts="shared")
    assert [r.task.label for r in readings] == ["demo@step-1"]
    assert "tokenizer differs" in skipped["demo@step-2"] and any("demo@step-2" in w for w in console.warnings)


def test_own_samples_of_another_tokenizer_are_counted_rollout_by_rollout(run, tmp_path):
    mixed = tmp_path / "demo"
    shutil.copytree(run, mixed)
    shutil.copytree(run.parent / "results", tmp_path / "results")
    shutil.rmtree(mixed / "checkpoint-2")
    make_checkpoint(mixed / "checkpoint-2", seed=2, extra_tokens=("<|more|>",))
    with pytest.raises(GrailError, match="another tokenizer wrote them"):
        analyse(mixed, tmp_path / "out")


def test_methods_are_compared_on_the_same_rollouts(run, tmp_path):
    chosen = options(compare=("grpo", "grail", "grail:leaf=last", "entropy", "shuffled", "oar_g", "oar_g:seed=1"))
    readings, skipped, _, _ = analyse(run, tmp_path, chosen, rollouts=None)
    tables = readings[-1].summary["tables"]
    pairs = {(r["first"], r["second"]): r for r in tables["compare"]}
    assert pairs["grpo", "grail"]["spearman"] is None and abs(pairs["grail", "shuffled"]["spearman"]) < 0.6
    assert 0 < pairs["oar_g", "oar_g:seed=1"]["spearman"] < 1 > pairs["grail", "grail:leaf=last"]["spearman"]
    share = {r["method"]: r["mean"] for r in tables["methods"] if r["quantity"].startswith("effective")}
    assert share["grpo"] == pytest.approx(1) and share["grail"] == pytest.approx(share["shuffled"], rel=1e-5)
    again, *_ = analyse(run, tmp_path, chosen)
    assert tuple(again[0].variants) == chosen.compare


def test_faithfulness_gives_one_table_of_all_rankings(run, tmp_path):
    chosen = options("analyze.max_rollouts=3", faithful=True)
    readings, skipped, _, _ = analyse(run, tmp_path, chosen)
    tables = readings[0].summary["tables"]
    names = {r["ranking"] for r in tables["deletion"] if r["kind"] == "top share"}
    assert names >= {"grail", "grail, own position", "oar_g", "entropy", "shuffled", "random", "latest", "-log p"}
    assert {r["reference"] for r in tables["against_oar_p"] + tables["against_random_model"]} == {"oar_p", "random weights"}
    text = io.StringIO()
    rich_console(text).print(summary_view(readings, chosen, tmp_path))
    assert "Faithfulness" in text.getvalue() and "position-matched" in text.getvalue()


def test_bad_rollouts_of_a_file_are_counted_and_keep_their_place(checkpoint, tmp_path, encode):
    path = tmp_path / "r.jsonl"
    good = {"prompt_ids": [60, 61], "completion_ids": encode("So \\boxed{7}"), "correct": False}
    rows = [{**good, "id": "a"}, {**good, "id": "b", "completion_ids": [5, 99999]}, {"id": "c", "prompt_ids": [60]},
            {**good, "id": "d", "completion_ids": encode("open \\boxed{7")}, {**good, "id": "e"}]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    console = Console(quiet=True)
    reading = analyze_rollouts(str(checkpoint), path, tmp_path / "out", options(), console)
    lines = [json.loads(line) for line in (tmp_path / "out" / "tokens.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c", "d", "e"]
    assert "99999" in lines[1]["error"] and lines[2]["scores"] is None and lines[3]["regions"] is None
    assert lines[0]["scores"] == lines[4]["scores"]
    seen = reading.coverage
    assert (seen.read, seen.usable, sum(seen.left_out.values())) == (5, 2, 3) and len(console.warnings) == 3


def test_rollouts_without_any_box_give_a_count_and_empty_tables(checkpoint, tmp_path, encode):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"prompt_ids": [60], "completion_ids": encode("no answer here"), "id": "a"}) + "\n")
    chosen = options()
    reading = analyze_rollouts(str(checkpoint), path, tmp_path / "out", chosen, Console(quiet=True))
    write_data([reading], [], chosen, tmp_path / "out")
    draw([reading], chosen, tmp_path / "out")
    text = io.StringIO()
    rich_console(text).print(summary_view([reading], chosen, tmp_path))
    assert reading.coverage.usable == 0 and "no complete box" in text.getvalue()


def test_grpo_is_shown_through_grail_unless_it_was_asked_for():
    chosen, notes = options_of(load_preset(None, environment={}), every_rollout=True)
    assert chosen.settings.method == "grail" and chosen.settings.rollouts == "all" and len(notes) == 2
    by_hand = load_preset(None, sets=["credit.method=grpo", "credit.rollouts=correct"], environment={})
    chosen, notes = options_of(by_hand, every_rollout=True)
    assert (chosen.settings.method, chosen.settings.rollouts, notes) == ("grpo", "correct", [])


def test_temperature_is_the_runs_own_unless_set():
    chosen, _ = options_of(load_preset(None, sets=["train.temperature=0.7"], environment={}), every_rollout=False)
    assert chosen.temperature == 0.7
    chosen, _ = options_of(load_preset(None, sets=["train.temperature=0.7", "credit.temperature=0.6"], environment={}),
                           every_rollout=False)
    assert chosen.temperature == 0.6
