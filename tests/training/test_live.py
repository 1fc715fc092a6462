"""What a run shows: lines that a batch system's log can hold, and a panel."""

from grail_cli.training.live import LiveView

ROW = {
    "step": 1,
    "reward": 0.25,
    "groups_with_signal": 0.75,
    "answer_found": 1.0,
    "completions/mean_length": 21.4,
    "weights/mean": 1.2,
    "weights/std": 0.4,
    "time/step": 2.0,
    "time/rollout": 1.5,
    "time/update": 0.5,
}


def test_a_line_a_step_without_a_terminal(capsys):
    with LiveView(10) as view:
        view.show(ROW)
    line = capsys.readouterr().err.strip()
    assert line == (
        "step 1/10, reward 0.250, groups with a signal 75%, answer found 100%, completion length 21 tokens, "
        "weight mean 1.200, weight spread 0.400, 2.0s (rollout 1.5 update 0.5), 18s left"
    )


def test_values_that_a_step_did_not_measure_keep_their_last_and_lines_can_be_rarer(capsys):
    with LiveView(10, every=3) as view:
        for step in range(1, 11):
            view.show(
                {"step": step, "time/step": 1.0}
                | (ROW | {"step": step, "time/step": 1.0} if step == 1 else {})
            )
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["step 3/10", "step 6/10", "step 9/10", "step 10/10"]
    assert all("reward 0.250" in line for line in lines)


def test_quiet_is_silent(capsys):
    with LiveView(10, quiet=True) as view:
        view.show(ROW)
    assert capsys.readouterr() == ("", "")


def test_the_panel_shows_the_same_numbers():
    from io import StringIO

    from rich.console import Console

    view = LiveView(10, title="tiny-grail (grail)", quiet=True)
    view.show(ROW)
    out = StringIO()
    Console(file=out, width=100).print(view.panel())
    for text in (
        "tiny-grail (grail)",
        "0.250",
        "75%",
        "21 tokens",
        "step 1 of 10",
        "18s left",
        "rollout 1.5s",
    ):
        assert text in out.getvalue()
