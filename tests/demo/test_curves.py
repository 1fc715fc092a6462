"""The learning curves show what the report says."""

from grail_cli.demo.curves import draw_curves, moving_mean, points
from grail_cli.reporting.model import Estimate, ModelResults, Report, Score


def score(value: float, low: float | None = None, high: float | None = None) -> Score:
    return Score(problems=10, fewest=4, most=4, k=4, acc=Estimate(value, low, high), passed=None, majority=None,
                 tokens=None, samples=40, truncated=0, no_box=0, unscored=0)


def made_report() -> Report:
    models = (ModelResults("tiny", "r/tiny", {"arith": ()}),
              ModelResults("grail@step-40", "r/b", {"arith": ()}, run="grail", step=40),
              ModelResults("grail@step-20", "r/a", {"arith": ()}, run="grail", step=20),
              ModelResults("grpo@step-20", "r/c", {"arith": ()}, run="grpo", step=20))
    scores = {("tiny", "arith"): score(0.25, 0.2, 0.3), ("grail@step-20", "arith"): score(0.5, 0.4, 0.6),
              ("grail@step-40", "arith"): score(0.75), ("grpo@step-20", "arith"): score(0.5, 0.45, 0.55)}
    return Report(models, ("arith",), scores, {}, "tiny", ())


def test_the_moving_mean_starts_with_what_there_is():
    assert moving_mean([1.0, 3.0, 5.0, 7.0], window=3) == [1.0, 2.0, 3.0, 5.0]
    assert moving_mean([]) == []


def test_a_curve_starts_at_the_start_and_is_in_order():
    assert points(made_report(), "grail", "arith", "tiny") == [
        (0, 25.0, 20.0, 30.0), (20, 50.0, 40.0, 60.0), (40, 75.0, 75.0, 75.0)]


def test_the_figure_is_written_as_png_and_pdf(tmp_path):
    rewards = {"grpo": [(1, 0.2), (2, 0.3), (3, 0.4)], "grail": [(1, 0.2), (3, 0.35), (5, 0.5)]}
    files = draw_curves(rewards, made_report(), "arith", "tiny", tmp_path)
    assert [file.name for file in files] == ["curves.png", "curves.pdf"]
    assert files[0].read_bytes().startswith(b"\x89PNG") and files[1].read_bytes().startswith(b"%PDF")
