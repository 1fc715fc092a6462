"""A prompt is rendered in one way, and a checkpoint remembers which."""

import json

import pytest

from grail_cli.errors import GrailError
from grail_cli.models import load_tokenizer, resolve_model
from grail_cli.presets import load_preset
from grail_cli.prompts import PromptSettings, check_stamp, messages, read_stamp, read_template, render, save_stamp, stamp_of


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(resolve_model("tiny"))


def test_a_prompt_has_the_ids_of_the_chat_template(tokenizer):
    rendered = render(tokenizer, "2+3", PromptSettings(suffix=" Go."))
    expected = tokenizer.apply_chat_template([{"role": "user", "content": "2+3 Go."}], add_generation_prompt=True, return_dict=False)
    assert rendered.ids == expected
    assert "2+3 Go." in rendered.text


def test_the_suffix_goes_to_the_last_user_turn_and_the_data_stay_as_they_are():
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    made = messages(turns, PromptSettings(suffix="!", system="Be exact."))
    assert [turn["content"] for turn in made] == ["Be exact.", "a", "b", "c!"]
    assert turns[2]["content"] == "c"


def test_a_system_turn_of_the_data_is_kept():
    turns = [{"role": "system", "content": "own"}, {"role": "user", "content": "a"}]
    assert [turn["content"] for turn in messages(turns, PromptSettings(system="other"))] == ["own", "a"]


def test_a_model_without_a_template_says_so(tokenizer):
    bare = load_tokenizer(resolve_model("tiny"))
    bare.chat_template = None
    with pytest.raises(GrailError, match="no chat template") as caught:
        render(bare, "2+3", PromptSettings())
    assert "model.chat_template=boxed" in caught.value.hint
    with_shipped = render(bare, "2+3", PromptSettings(chat_template=read_template("boxed")))
    assert with_shipped.text == "Problem: 2+3\nSolution:"


def test_the_thinking_switch_and_more_arguments_reach_the_template(tokenizer):
    template = "{{ messages[0].content }}|{{ enable_thinking }}|{{ effort }}"
    rendered = render(tokenizer, "x", PromptSettings(thinking=True, chat_template=template, chat_template_kwargs={"effort": "low"}))
    assert rendered.text == "x|True|low"


def test_a_stamp_survives_its_checkpoint(tokenizer, tmp_path):
    settings = PromptSettings(suffix=" é", chat_template_kwargs={"a": 1})
    save_stamp(tmp_path, stamp_of(tokenizer, "2+3", settings, sampling={"temperature": 1.0}))
    stamp = read_stamp(tmp_path)
    assert stamp.settings == settings and stamp.extra == {"sampling": {"temperature": 1.0}}
    check_stamp(stamp, tokenizer, "here")


def test_another_template_is_noticed(tokenizer, tmp_path):
    stamp = stamp_of(tokenizer, "2+3", PromptSettings())
    other = load_tokenizer(resolve_model("tiny"))
    other.chat_template = "{{ messages[0].content }}?"
    with pytest.raises(GrailError, match="prompts would differ"):
        check_stamp(stamp, other, "here")


def test_a_folder_without_a_stamp_has_none_and_a_torn_one_is_named(tmp_path):
    assert read_stamp(tmp_path) is None
    (tmp_path / "grail.json").write_text('{"version": 1, "sett')
    with pytest.raises(GrailError, match="not a JSON document"):
        read_stamp(tmp_path)
    (tmp_path / "grail.json").write_text(json.dumps({"version": 1, "settings": {}}))
    with pytest.raises(GrailError, match="not a whole stamp"):
        read_stamp(tmp_path)
    (tmp_path / "grail.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(GrailError, match="not a stamp of version 1"):
        read_stamp(tmp_path)


def test_an_unknown_template_names_the_shipped_ones():
    with pytest.raises(GrailError, match="one of: boxed"):
        read_template("nope")


def test_settings_come_from_the_preset():
    settings = PromptSettings.of(load_preset("octothinker-3b-grail", environment={}).preset)
    assert settings.chat_template.startswith("{%- for message") and settings.suffix.endswith("\\boxed{}.")
