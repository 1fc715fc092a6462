import html
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from grail_cli.analysis.records import Rollout
from grail_cli.analysis.tokenmap import colour_of, page, page_data, shades, terminal_map, visible

from .made import many, scored

CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


@pytest.mark.parametrize(("text", "shown"), [
    ("a\n", "a⏎"), ("\t", "⇥"), ("", "∅"), ("\x07", "\\x07"), ("\u200b", "∅"), (" a", " a"), ("\u00a0", "⍽")])
def test_invisible_characters_are_shown_by_a_sign(text, shown):
    assert visible(text) == shown


def test_shades_are_centred_for_weights_and_bounded_for_the_rest():
    weights = shades(np.array([0.5, 1.0, 1.5]), "weight")
    assert weights[1] == 0 and weights[0] == -weights[2] and abs(weights).max() == 1
    pinned = shades(np.array([0.5, 1.0, 1.5, 5.0]), "weight", ranged=3)
    assert (pinned[:3] == weights).all() and pinned[3] == 1
    scores = shades(np.array([0.0, 1e-5, 1e-3, 1e-1]), "score")
    assert scores[0] == 0 and (np.diff(scores) >= 0).all() and scores.max() == 1
    assert np.isfinite(shades(np.zeros(3), "score")).all() and np.isfinite(shades(np.ones(3), "entropy")).all()


def test_colours_of_weights_are_white_at_the_centre_and_differ_by_side():
    assert colour_of(0.0, "weight") == (255, 255, 255)
    below, above = colour_of(-1.0, "weight"), colour_of(1.0, "weight")
    assert below[2] > below[0] and above[0] > above[2]


def test_the_terminal_map_shows_every_token_and_underlines_the_answer():
    one = scored([1.0, 1.2, 5.0], tokens=["We\n", " add", "\\boxed{7}"])
    console = Console(width=80, force_terminal=True, color_system="truecolor", record=True, file=open("/dev/null", "w"))
    console.print(terminal_map(one, "weight"))
    text = console.export_text(styles=True)
    assert "We⏎" in text and "add" in text
    assert re.search(r"\x1b\[[^m]*\b4\b[^m]*m\\boxed\{7\}", text)


def make_page(tmp_path, tokens=None, rollouts=None, **names):
    rollouts = rollouts or many(6)
    other = [replace(s, weights=s.weights[::-1].copy()) for s in rollouts]
    data = page_data({"grail": rollouts, "other": other}, {s.rollout.id: "What is 4 + 5?" for s in rollouts},
                     title="Token map", centre=1.0, settings="grail")
    path = tmp_path / "tokens.html"
    path.write_text(page(data), encoding="utf-8")
    return path


def test_the_page_holds_no_address_and_no_foreign_markup(tmp_path):
    nasty = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>&amp;"
    one = replace(scored([1.0, 2.0, 1.0], tokens=[nasty, "\u2028", "}"]), rollout=Rollout("<b>id</b>", (1,), (1, 2, 3)))
    text = make_page(tmp_path, rollouts=[one]).read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|src=(?!x)|href=", text.replace("\\u003c", ""))
    assert text.count("<script") == 2 and "<img" not in text and "<b>id" not in text
    payload = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S).group(1)
    assert json.loads(payload)["rollouts"][0]["tokens"][0] == nasty


def test_a_rollout_seen_by_two_methods_is_stored_once(tmp_path):
    rollouts = many(4)
    data = page_data({"a": rollouts, "b": rollouts}, {}, title="t", centre=1.0, settings="")
    assert len(data["rollouts"]) == 4 and set(data["rollouts"][0]["variants"]) == {"a", "b"}
    assert len(data["rollouts"][0]["variants"]["a"]["entropy"]) == len(data["rollouts"][0]["tokens"])


def in_browser(path, tmp_path, script):
    """The document after `script` ran at its end, as headless Chromium prints it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    text = path.read_text(encoding="utf-8").replace("</body>", f"<script>{script}</script></body>")
    edited = tmp_path / "edited.html"
    edited.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom", edited.as_uri()],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def test_the_page_works_in_a_browser(tmp_path):
    """One start of the browser (seconds) for selector, filter, second column, keys, hover and escaping."""
    rollouts = many(6)
    nasty = "<i>&</i>\n"
    rollouts[0] = replace(rollouts[0], tokens=(nasty, *rollouts[0].tokens[1:]))
    wrong = sum(not s.rollout.correct for s in rollouts)
    script = """
    const say = {}, spans = () => document.querySelectorAll('.map span');
    say.tokens = spans().length; say.first = spans()[0].textContent; say.italics = document.querySelectorAll('.map i').length;
    say.before = spans()[1].style.background;
    at('series').value = 'entropy'; at('series').onchange(); say.after = spans()[1].style.background;
    at('right').value = 'other'; at('right').onchange(); say.columns = document.querySelectorAll('.map').length;
    say.answer = document.querySelectorAll('.map:first-of-type .answer').length > 0;
    spans()[2].dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: 5, clientY: 5}));
    say.tip = at('tip').textContent; say.tipShown = at('tip').style.display;
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'j'})); say.second = current;
    at('filter').value = 'wrong'; at('filter').onchange(); say.listed = at('list').children.length;
    at('filter').value = 'nobox'; at('filter').onchange(); say.none = at('view').textContent;
    const out = document.createElement('pre'); out.id = 'said'; out.textContent = JSON.stringify(say); document.body.append(out);
    """
    dom = in_browser(make_page(tmp_path, rollouts=rollouts), tmp_path, script)
    said = json.loads(html.unescape(re.search(r'<pre id="said">(.*?)</pre>', dom, re.S).group(1)))
    assert said["tokens"] == len(rollouts[0].tokens)
    assert said["first"] == "<i>&</i>⏎\n" and said["italics"] == 0
    assert said["before"] != said["after"] and said["columns"] == 2 and said["answer"]
    assert said["tipShown"] == "block" and "entropy" in said["tip"] and "nats" in said["tip"] and "reasoning" in said["tip"]
    assert said["second"] == 1 and said["listed"] == wrong and "No rollout" in said["none"]
