"""The html page: nothing from outside, hostile text inert, sorted, filtered and read in a browser."""

import base64
import dataclasses
import gzip
import json
import re
from html.parser import HTMLParser

import pytest

from grail_cli.reporting import blocks, html

from . import hand
from .browser import CHROMIUM, Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


class Elements(HTMLParser):
    """All elements with their attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def block(page: str, key: str):
    packed = re.search(rf'<script type="text/plain" id="{key}">([^<]*)</script>', page)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_the_page_refers_to_nothing_outside_itself():
    elements = Elements(html.page(hand.report())).found
    references = [
        value
        for _, attrs in elements
        for name, value in attrs.items()
        if name in ("src", "href", "srcset", "data")
    ]
    assert references and all(value.startswith("#") for value in references)
    assert not [tag for tag, _ in elements if tag in ("link", "img", "iframe", "object", "embed")]
    assert "@import" not in html._asset("page.css") and "url(" not in html._asset("page.css")


def test_hostile_labels_and_completions_make_no_elements():
    plain, hostile = (Elements(html.page(hand.report(hostile=bad))).found for bad in (False, True))
    assert [tag for tag, _ in hostile] == [tag for tag, _ in plain]


def test_the_table_holds_the_reports_numbers_and_blank_cells_for_a_missing_suite():
    page = html.page(hand.report())
    row = re.search(r'<tr><th scope="row" data-value="run@step-100">.*?</tr>', page)[0]
    assert re.findall(r'data-value="([\d.]+)"', row) == ["61.0", "45.0"]
    assert row.count("<td></td>") == 6  # math, and two averages, two columns each
    best = re.search(r'<tr><th scope="row" data-value="run@step-200">.*?</tr>', page)[0]
    assert "<b>52.5</b>***" in best and "<b>81.0</b>" not in best


def test_samples_are_kept_whole_in_blocks_that_the_index_points_to():
    page = html.page(hand.report())
    index = block(page, "index-0")
    assert index["ids"] == ["amc23-0", "amc23-1", "amc23-2"]
    assert index["verdicts"] == [["ccc", "cww", "wwl"], ["ccc", "ccw", "wwl"], ["www", "ccc", "ccc"]]
    assert block(page, "samples-0-0-0")[2][2] == {
        "s": "I cannot say.",
        "p": None,
        "v": "no_box",
        "r": "number",
        "f": "length",
        "t": 900,
    }
    assert block(page, "index-1")["verdicts"][1] == [None, None]  # step-100 has no math
    assert 'id="samples-1-1-0"' not in page


def test_a_completion_of_enormous_length_is_cut_in_the_middle_and_says_so():
    shown = blocks.packed_sample(hand.sample("wrong", "1", "a" * 50_000 + "b" * 50_000))["s"]
    assert shown.startswith("aaa") and shown.endswith("bbb") and "60000 characters left out" in shown


def test_a_single_model_is_shown_alone(browser, tmp_path):
    report = hand.report()
    report = dataclasses.replace(report, models=report.models[:1], baseline=None, differences={})
    (tmp_path / "report.html").write_text(html.page(report), encoding="utf-8")
    browser.open(tmp_path / "report.html")
    assert browser.js("document.querySelectorAll('#detail details').length") == 3
    assert browser.js("document.getElementById('model-b').offsetParent === null")
    assert browser.js("document.querySelector('#problems .id').textContent") == "amc23-0   3/3"
    browser.choose("filter", "neither")
    browser.wait("document.getElementById('count').textContent === '2 of 3 problems'")
    assert browser.errors == []


def test_a_person_sorts_filters_and_reads_samples_in_a_browser(browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(html.page(hand.report(hostile=True)), encoding="utf-8")
    rows = "[...document.querySelectorAll('#results-table tbody tr')]"
    names = f"{rows}.map(row => row.cells[0].textContent.slice(0, 12).trim())"
    browser.open(file)
    assert browser.js("window.scrollY") == 0  # opening leaves the reader at the top
    header = "document.querySelector('#results-table th[data-column=\"{}\"] button')"
    browser.click(header.format(2))  # acc@3 on amc23
    assert browser.js(names) == ["run@step-200", "run@step-100", "base </scrip"]
    browser.click(header.format(2))
    assert browser.js(names) == ["base </scrip", "run@step-100", "run@step-200"]
    assert (
        browser.js("document.querySelector('#results-table th[data-column=\"2\"]').ariaSort") == "ascending"
    )
    browser.click(header.format(4))  # acc@3 on math, which step-100 lacks: last, whichever way
    assert browser.js(names) == ["run@step-200", "base </scrip", "run@step-100"]
    browser.click(header.format(4))
    assert browser.js(names)[-1] == "run@step-100"

    assert browser.js("document.getElementById('count').textContent") == "4 of 4 problems"
    browser.choose("filter", "a-only")  # A is step-200, B the baseline
    browser.wait("document.getElementById('count').textContent === '2 of 4 problems'")
    browser.click("document.querySelector('#problems li:nth-child(2)')")
    browser.wait("document.querySelector('#detail h3').textContent === 'Problem amc23-2'")
    chips = browser.js("[...document.querySelectorAll('#detail .chip')].map(c => c.textContent.slice(2))")
    assert chips == ["correct", "wrong", "correct", "wrong", "correct", "no box"]
    assert browser.js("document.querySelector('#detail mark').textContent") == r"\boxed{7}"

    browser.choose("filter", "all")
    browser.wait("document.getElementById('count').textContent === '4 of 4 problems'")
    browser.click(
        "document.querySelector('#problems li')"
    )  # the baseline's hostile problem, which A does not have
    browser.wait("document.querySelector('#detail .question').textContent.startsWith('</script>')")
    assert browser.js("document.querySelector('#detail .question').textContent") == hand.HOSTILE
    assert browser.js("document.querySelector('#detail pre.completion').textContent") == hand.HOSTILE
    assert browser.js("document.querySelector('#detail .pair:nth-of-type(2) p').textContent") == "no sample"
    browser.choose("model-a", "1")  # step-100: ccc, ccw, wwn
    browser.choose("model-b", "2")  # step-200: www, ccc, ccc
    for wanted, problem in (("a-only", "amc23-0"), ("both", "amc23-1"), ("b-only", "amc23-2")):
        browser.choose("filter", wanted)
        browser.wait(f"document.querySelector('#detail h3').textContent === 'Problem {problem}'")
        assert browser.js("document.getElementById('count').textContent") == "1 of 4 problems"
    browser.choose("filter", "all")
    browser.choose("suite", "1")
    browser.wait("document.getElementById('count').textContent === '2 of 2 problems'")
    browser.screenshot(tmp_path / "page.png")
    assert browser.js("document.title") == "Evaluation report"
    assert browser.errors == [] and {url.split(":")[0] for url in browser.requests} == {"file"}
