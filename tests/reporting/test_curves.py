"""Learning curves: a line a run, points where the numbers are, an axis that holds them all."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

from grail_cli.reporting import curves
from grail_cli.reporting.model import ModelResults

from . import hand


def test_a_run_with_two_checkpoints_on_a_suite_has_a_curve_there_only():
    report = hand.report()
    (curve,) = curves.curves(report, "amc23")
    assert [(step, acc[:3]) for step, acc in curve.points] == [
        (100, (0.45, 0.36, 0.54)),
        (200, (0.525, 0.445, 0.605)),
    ]
    assert curves.curves(report, "math") == []
    assert [title for title, _ in curves.charts(report)] == ["amc23"]


def test_points_come_in_order_of_their_steps_whatever_the_order_of_the_folders():
    report = hand.report()
    report = dataclasses.replace(report, models=report.models[::-1])
    assert [step for step, _ in curves.curves(report, "amc23")[0].points] == [100, 200]


def test_the_chart_is_well_formed_and_higher_accuracy_is_higher_up():
    report = hand.report()
    svg = curves.chart(curves.curves(report, "amc23"), {"run": 0}, ("base", 0.4))
    ElementTree.fromstring(svg)
    (x1, y1), (x2, y2) = (
        map(float, point.split(",")) for point in re.search(r'polyline points="([^"]*)"', svg)[1].split()
    )
    assert x2 > x1 and y2 < y1
    assert "run, step 200: 52.5 (44.5 to 60.5)" in svg and "base: 40.0" in svg


def test_runs_differ_in_dash_and_marker_and_not_in_colour_alone():
    report = hand.report()
    models = [ModelResults(f"r{r}@step-{s}", "", {}, run=f"r{r}", step=s) for r in range(3) for s in (1, 2)]
    scores = {(m.label, "amc23"): hand.score(0.2 + 0.1 * m.step, 0.05, 0.5, 10) for m in models}
    report = dataclasses.replace(
        report, models=tuple(models), scores=scores, suites=("amc23",), baseline=None, differences={}
    )
    ((_, svg),) = curves.charts(report)
    assert len(set(re.findall(r'stroke-dasharray="([^"]*)"', svg))) == 3
    assert "<circle" in svg and len(re.findall("<polygon", svg)) == 4
    assert [run for run, _ in curves.legend(report)] == ["r0", "r1", "r2"]


def test_all_charts_have_one_accuracy_axis_that_holds_them_all():
    report = hand.report()
    models = [ModelResults(f"r@step-{s}", "", {}, run="r", step=s) for s in (1, 2)]
    means = {"amc23": 0.1, "math": 0.8}
    scores = {(m.label, suite): hand.score(mean, 0.05, 0.9, 10) for m in models for suite, mean in means.items()}
    report = dataclasses.replace(report, models=tuple(models), scores=scores, baseline=None, differences={})

    def axis(svg: str) -> list[tuple[str, str]]:  # (height, label)
        return re.findall(r'y="([\d.]+)" text-anchor="end">([\d.]+)<', svg)

    (_, low), (_, high) = curves.charts(report)
    assert axis(low) == axis(high) and len(axis(low)) > 2
    assert float(axis(low)[0][1]) <= 5 and float(axis(low)[-1][1]) >= 85
    heights = [float(re.search(r'polyline points="[\d.]+,([\d.]+)', svg)[1]) for svg in (low, high)]
    assert heights[0] > heights[1]  # 10 % is drawn lower than 80 %


def test_axes_hold_every_interval_even_when_all_values_are_equal():
    for low, high in (
        (0.0, 0.0),
        (1.0, 1.0),
        (0.5, 0.5),
        (0.0, 1.0),
        (0.123, 0.131),
        (0.073, 0.181),
        (0.29, 0.3),
    ):
        ticks = curves._ticks(low, high)
        assert 0 <= ticks[0] <= low and high <= ticks[-1] <= 1 and 2 <= len(ticks) <= 8
