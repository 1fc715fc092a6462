import json

import pytest

from grail_cli.analysis.plan import plan_runs, sample_files
from grail_cli.errors import GrailError
from grail_cli.prompts import PromptSettings


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "demo"
    for step in (10, 5):
        (folder / f"checkpoint-{step}").mkdir(parents=True)
        (folder / f"checkpoint-{step}" / "config.json").write_text("{}")
    (folder / "checkpoint-99").mkdir()  # torn: no config
    return folder


def samples(root, label, tokenizer, text="so \\boxed{4}"):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    path = root / label / "arith" / "samples.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"id": "1", "question": "q", "prompt_ids": [9], "generated_solutions": [
        {"solution": text, "completion_ids": ids, "correct": True, "sample": 0}]}) + "\n")
    return path


def test_checkpoints_come_in_order_of_their_step_each_with_its_own_samples(run, tmp_path, tokenizer):
    for step in (5, 10):
        samples(tmp_path / "r", f"demo@step-{step}", tokenizer, f"so \\boxed{{{step}}}")
    plan = plan_runs([run], results=tmp_path / "r", rollouts=None, texts="own")
    assert [(t.label, t.step) for t in plan.tasks] == [("demo@step-5", 5), ("demo@step-10", 10)]
    first, second = (t.read(tokenizer, PromptSettings()) for t in plan.tasks)
    assert first[0].completion_ids != second[0].completion_ids and plan.skipped == {}


def test_a_checkpoint_without_samples_is_named_and_never_given_those_of_another(run, tmp_path, tokenizer):
    samples(tmp_path / "r", "demo@step-10", tokenizer)
    plan = plan_runs([run], results=tmp_path / "r", rollouts=None, texts="own")
    assert [t.label for t in plan.tasks] == ["demo@step-10"]
    assert list(plan.skipped) == ["demo@step-5"] and "no samples" in plan.skipped["demo@step-5"]


def test_shared_texts_are_those_of_the_last_checkpoint_that_has_any_and_say_so(run, tmp_path, tokenizer):
    samples(tmp_path / "r", "demo@step-5", tokenizer)
    plan = plan_runs([run], results=tmp_path / "r", rollouts=None, texts="shared")
    assert [t.label for t in plan.tasks] == ["demo@step-5", "demo@step-10"]
    assert all(t.texts == "shared texts: samples of demo@step-5" for t in plan.tasks)


def test_results_are_found_beside_the_run_and_a_folder_without_its_labels_is_passed_over(run, tokenizer):
    (run / "results" / "other@step-5").mkdir(parents=True)
    samples(run.parent / "results", "demo@step-5", tokenizer)
    assert len(plan_runs([run], results=None, rollouts=None, texts="own").tasks) == 1


def test_without_any_samples_the_error_names_the_checkpoints_and_the_next_step(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GrailError) as error:
        plan_runs([run], results=None, rollouts=None, texts="own")
    assert "demo@step-5, demo@step-10" in error.value.message and "grail eval" in error.value.hint
    assert "completions" in error.value.hint


def test_missing_folders_and_twin_runs_are_refused(run, tmp_path):
    for runs, word in (([tmp_path / "absent"], "no such run"), ([tmp_path], "no checkpoint-N"), ([run, run], "same name")):
        with pytest.raises(GrailError, match=word):
            plan_runs(runs, results=None, rollouts=None, texts="own")
    with pytest.raises(GrailError, match="no such folder"):
        plan_runs([run], results=tmp_path / "absent", rollouts=None, texts="own")


def test_result_files_of_the_reference_are_found(tmp_path):
    (tmp_path / "result-aime24-x.jsonl").write_text("")
    assert sample_files(tmp_path) == [("aime24", tmp_path / "result-aime24-x.jsonl")]
