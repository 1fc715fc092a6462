"""The workbook, opened again: the reference's layout, bare numbers, marks as formats, every problem."""

import dataclasses
import io

import pandas as pd
import pytest
from openpyxl import load_workbook

from grail_cli.reporting import xlsx
from grail_cli.reporting.model import Estimate

from . import hand


@pytest.fixture(scope="module")
def data() -> bytes:
    return xlsx.workbook_bytes(hand.report())


@pytest.fixture(scope="module")
def book(data):
    return load_workbook(io.BytesIO(data))


def test_pandas_reads_models_by_suites_with_a_two_row_header_in_per_cent(data):
    table = pd.read_excel(io.BytesIO(data), sheet_name="Results", header=[0, 1], index_col=0)
    assert list(table.columns) == [
        (suite, metric)
        for suite in ("amc23", "math", "Average", "Weighted average")
        for metric in ("pass@3", "acc@3")
    ]
    assert list(table.index) == ["base", "run@step-100", "run@step-200"]
    assert table.loc["base", ("math", "acc@3")] == pytest.approx(70.0, abs=1e-12)
    assert table.loc["run@step-200", ("amc23", "acc@3")] == pytest.approx(52.5, abs=1e-12)
    assert table.loc["run@step-200", ("Average", "acc@3")] == pytest.approx(62.75, abs=1e-12)  # not rounded
    assert table.loc["run@step-100"].isna().sum() == 6  # math and both averages


def test_tokens_lie_on_the_second_sheet(data):
    table = pd.read_excel(io.BytesIO(data), sheet_name=1, index_col=0)
    assert table.loc["base", "math"] == 640.25 and pd.isna(table.loc["run@step-100", "math"])


def test_the_best_is_bold_and_significance_is_a_number_format(book):
    sheet = book["Results"]
    columns = {(sheet.cell(1, c - (c % 2)).value, sheet.cell(2, c).value): c for c in range(2, 10)}
    acc, passed = columns["amc23", "acc@3"], columns["math", "pass@3"]
    assert [sheet.cell(row, acc).font.bold for row in (3, 4, 5)] == [False, False, True]
    assert [sheet.cell(row, passed).font.bold for row in (3, 4, 5)] == [True, False, False]
    assert [sheet.cell(row, acc).number_format for row in (3, 4, 5)] == ["0.0", "0.0", '0.0"***"']
    assert all(isinstance(sheet.cell(5, c).value, (int, float)) for c in range(2, 10))


def test_panes_are_frozen_on_every_table(book):
    panes = {sheet.title: sheet.freeze_panes for sheet in book}
    assert panes == {
        "Results": "B3",
        "Tokens": "B2",
        "Intervals": "C2",
        "Differences": "C2",
        "Notes": None,
        "Settings": "B2",
        "amc23": "B3",
        "math": "B3",
    }


def test_intervals_differences_and_settings_have_their_sheets(data):
    intervals = pd.read_excel(io.BytesIO(data), sheet_name="Intervals")
    row = intervals[(intervals.Model == "base") & (intervals.Suite == "amc23")].iloc[0]
    assert (row["acc"], row["low"], row["high"], row["k"]) == pytest.approx((40, 30, 50, 3))
    differences = pd.read_excel(io.BytesIO(data), sheet_name="Differences")
    assert list(differences["verdict"]) == ["tied", "better ***", "tied"]
    assert differences["acc minus base"].tolist() == pytest.approx([5, 12.5, 3])
    settings = pd.read_excel(io.BytesIO(data), sheet_name="Settings", index_col=0)
    assert (
        settings.loc["sampling.temperature"].tolist() == [0.6, 0.6, 1.0] and "nothing" not in settings.index
    )


def test_settings_that_differ_are_coloured(book):
    sheet = book["Settings"]
    rows = {sheet.cell(row, 1).value: row for row in range(2, sheet.max_row + 1)}
    assert sheet.cell(rows["sampling.temperature"], 2).fill.fgColor.rgb == "00FFF0B3"
    assert sheet.cell(rows["folder"], 2).fill.fill_type is None


def test_a_suites_sheet_has_every_problem_with_each_models_answers(data):
    table = pd.read_excel(io.BytesIO(data), sheet_name="amc23", header=[0, 1])
    assert table[("Problem", "id")].tolist() == ["amc23-0", "amc23-1", "amc23-2"]
    assert table[("base", "right")].tolist() == pytest.approx([1, 1 / 3, 0])
    assert table[("base", "answers")].tolist()[1:] == [
        "\u2713 7  |  \u2717 8  |  \u2717 8",
        "\u2717 8  |  \u2717 8  |  \u2205",
    ]
    assert table[("base", "tokens")].tolist() == pytest.approx([100, 100, (100 + 100 + 900) / 3])


def test_text_that_looks_like_a_formula_or_breaks_a_workbook_stays_text():
    report = hand.report()
    first = dataclasses.replace(
        report.models[0].suites["amc23"][0], id="=1+1", question="\x00\x0b\ud800" + "x" * 40_000, gold="#N/A"
    )
    models = (dataclasses.replace(report.models[0], suites={"amc23": (first,)}), *report.models[1:])
    book = load_workbook(io.BytesIO(xlsx.workbook_bytes(dataclasses.replace(report, models=models))))
    sheet = book["amc23"]
    assert (sheet["A3"].value, sheet["A3"].data_type) == ("=1+1", "s")
    assert (sheet["C3"].value, sheet["C3"].data_type) == ("#N/A", "s")
    assert len(sheet["B3"].value) <= 32_767 and sheet["B3"].value.endswith("(cut)")


def test_suites_whose_names_excel_refuses_get_sheets_of_their_own():
    long = "a/very:long[suite]*name?that goes on and on"
    report = hand.report()
    suites = {
        long: report.models[0].suites["amc23"],
        long + "!": report.models[0].suites["math"],
        "RESULTS": report.models[0].suites["math"],
    }
    models = (dataclasses.replace(report.models[0], suites=suites),)
    scores = {("base", suite): hand.score(0.5, 0.1, 0.6, 10) for suite in suites}
    book = load_workbook(
        io.BytesIO(
            xlsx.workbook_bytes(
                dataclasses.replace(
                    report, models=models, suites=tuple(suites), scores=scores, differences={}
                )
            )
        )
    )
    assert book.sheetnames[-3:] == [
        "a-very-long-suite--name-that go",
        "a-very-long-suite--name-that-2",
        "RESULTS-2",
    ]


def test_one_model_has_no_best_and_no_interval_where_none_can_be_told():
    report = hand.report()
    single = dataclasses.replace(hand.score(0.5, 0.1, 0.6, 10, n=1), acc=Estimate(0.5), passed=Estimate(1.0))
    report = dataclasses.replace(
        report,
        models=report.models[:1],
        suites=("amc23",),
        scores={("base", "amc23"): single},
        differences={},
        baseline=None,
    )
    book = load_workbook(io.BytesIO(xlsx.workbook_bytes(report)))
    assert book["Results"]["C3"].value == 50 and not book["Results"]["C3"].font.bold
    assert book["Intervals"]["F2"].value is None and "Differences" not in book.sheetnames
