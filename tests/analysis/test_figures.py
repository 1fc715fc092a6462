"""Figures are looked at by people; here: that they say what they must, hold the right numbers and are not blank."""

import numpy as np
import pytest
from matplotlib.image import imread

from grail_cli.analysis import figures, figures_tokens
from grail_cli.analysis.figure_style import CYCLE, save_figure
from grail_cli.analysis.positional import positional_summary, reference_summary

from .made import many, scored


def summaries(n=2, rollouts=None):
    made = {f"run@step-{10 * (i + 1)}": rollouts or many(24, seed=i) for i in range(n)}
    return ({k: reference_summary(v, step=1, bins=20) for k, v in made.items()},
            {k: positional_summary(v, bins=20, drop_first=2, drop_last=3, draws=50, seed=0) for k, v in made.items()})


def words(figure):
    return "\n".join(t.get_text() for t in figure.findobj(match=lambda a: hasattr(a, "get_text")))


def test_the_reference_figure_has_three_panels_and_names_what_its_bands_are():
    reference, _ = summaries()
    figure = figures.reference_figure(reference, caption="own texts.")
    assert len(figure.axes) == 4  # three panels and a colour bar
    text = words(figure)
    for needed in ("run@step-10", "run@step-20", "correct (", "wrong (", "one standard error", "own texts", "token weight"):
        assert needed in text
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), reference["run@step-10"]["weight"]["all"]["mean"])


def test_the_map_is_centred_on_one():
    _, positional = summaries()
    image = figures.heat_figure(positional).axes[0].images[0]
    low, high = image.get_clim()
    assert low + high == pytest.approx(2) and image.get_array().shape == (2, 20)


def test_profiles_say_the_interval_the_number_of_rollouts_and_what_was_dropped():
    _, positional = summaries()
    text = words(figures.profile_figure(positional))
    assert "(24 rollouts)" in text and "bootstrap over rollouts" in text.replace("\n", " ")
    assert "first 2 and the last 3" in text.replace("\n", " ")
    text = words(figures.signs_figure("run@step-20", positional["run@step-20"]))
    assert "Correct minus wrong" in text and "difference" in text


def test_figures_without_data_say_why_instead_of_failing():
    none = [scored([1.0, 1.0], answer=())]
    reference, positional = summaries(1, none)
    assert "no rollout" in words(figures.reference_figure(reference))
    assert "needs correct and wrong" in words(figures.signs_figure("x", next(iter(positional.values()))))
    assert "no rollout" in words(figures_tokens.histogram_figure(none, w_min=0.5, w_max=5, mean=1))
    assert "no reweighted" in words(figures_tokens.entropy_figure(none, float("nan"), float("nan"), float("nan")))


def test_histograms_draw_the_bounds_of_clipping():
    text = words(figures_tokens.histogram_figure(many(5), w_min=0.5, w_max=5.0, mean=1.0))
    assert "w_min = 0.5" in text and "w_max = 5" in text and "nats" in text


def test_the_entropy_figure_has_rho_in_its_title():
    assert "Spearman 0.12 [0.05, 0.20]" in words(figures_tokens.entropy_figure(many(5), 0.12, 0.05, 0.20))


def test_runs_are_overlaid_in_the_training_figure():
    rows = [{"run": run, "step": step, "quantity": q, "mean": 0.5, "low": None, "high": None}
            for run in ("a", "b") for step in (1, 2) for q in ("share at w_min", "effective sample size / n")]
    figure = figures_tokens.training_figure(rows)
    assert [len(axes.lines) for axes in figure.axes[:2]] == [2, 2] and "training step" in words(figure)


def test_the_matrix_prints_every_pair_and_blanks():
    pairs = [{"first": "grail", "second": "grpo", "spearman": None, "top20_overlap": None},
             {"first": "grail", "second": "entropy", "spearman": 0.25, "top20_overlap": 0.4}]
    text = words(figures_tokens.matrix_figure(pairs))
    assert text.count("0.25") >= 2 and "0.40" in text and "blank" in text


def test_the_tail_figure_has_a_line_a_rule_and_counts_its_rollouts():
    rows = [{"post_tokens": group, "stats": stats, "mean": 0.3, "low": None, "high": None, "rollouts": 7}
            for group in ("0", "1") for stats in ("completion", "reasoning")]
    text = words(figures_tokens.tail_figure(rows))
    assert "stats: completion" in text and "stats: reasoning" in text and "(7 rollouts)" in text


def test_the_deletion_figure_shows_curves_and_the_position_matched_drop():
    rows = [{"ranking": name, "kind": "top share", "share": share, "mean": 1.0, "low": 0.5, "high": 2.0}
            for name in ("grail", "latest") for share in (0.1, 0.2)]
    rows.append({"ranking": "grail", "kind": "position-matched", "share": None, "mean": 1.0, "low": None, "high": None})
    figure = figures_tokens.deletion_figure(rows)
    assert "nats" in words(figure) and len(figure.axes[0].lines) == 2 and len(figure.axes[1].lines) == 2


def test_png_and_pdf_are_written_whole_equal_twice_and_not_blank(tmp_path):
    _, positional = summaries()
    for folder in ("a", "b"):
        save_figure(figures.profile_figure(positional), tmp_path / folder, "p1")
    assert (tmp_path / "a/p1.pdf").read_bytes() == (tmp_path / "b/p1.pdf").read_bytes()
    assert imread(tmp_path / "a/p1.png").std() > 0.05


def test_line_colours_stay_apart_for_colour_blind_readers():
    """Distances after the linear simulation of deuteranopia of Viénot et al. (1999), in RGB of 0..1."""
    from matplotlib.colors import to_rgb

    lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    deuteranope = np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]])
    simulate = np.linalg.inv(lms) @ deuteranope @ lms
    seen = [simulate @ np.array(to_rgb(c)) ** 2.2 for c in CYCLE[:4]]
    apart = [np.abs(a - b).max() for i, a in enumerate(seen) for b in seen[i + 1:]]
    assert min(apart) > 0.1
