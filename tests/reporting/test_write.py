"""Files of the report: formats by name, whole or not at all."""

from pathlib import Path

import pytest

from grail_cli.errors import GrailError
from grail_cli.reporting import write

from . import hand


def test_formats_lie_beside_each_other_under_one_name():
    assert write.plan(Path("a/r.xlsx"), None) == [Path("a/r.xlsx")]
    assert write.plan(Path("a/r.xlsx"), "html, csv,html") == [Path("a/r.html"), Path("a/r.csv")]


@pytest.mark.parametrize(
    ("out", "formats", "words"),
    [
        ("r.pdf", None, "ends in no format"),
        ("r", None, "ends in no format"),
        ("r.xlsx", "xslx", "did you mean 'xlsx'"),
        ("r.xlsx", "", "is unknown"),
    ],
)
def test_an_unknown_format_is_refused_with_those_that_exist(out, formats, words):
    with pytest.raises(GrailError, match=words):
        write.plan(Path(out), formats)


def test_a_folder_in_the_files_place_is_refused(tmp_path):
    (tmp_path / "r.md").mkdir()
    with pytest.raises(GrailError, match="a folder"):
        write.plan(tmp_path / "r.xlsx", "xlsx,md")


def test_every_format_is_written_and_an_old_file_is_replaced_whole(tmp_path):
    files = write.plan(tmp_path / "new" / "r.xlsx", ",".join(write.FORMATS))
    files[0].parent.mkdir()
    files[0].write_text("old")
    write.write(hand.report(), files)
    assert sorted(p.name for p in files[0].parent.iterdir()) == ["r.csv", "r.html", "r.md", "r.tex", "r.xlsx"]
    assert files[0].read_bytes().startswith(b"PK")


def test_when_writing_fails_the_old_file_stays(tmp_path, monkeypatch):
    file = tmp_path / "r.md"
    file.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(GrailError, match="No space left on device"):
        write.write(hand.report(), [file])
    assert file.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["r.md"]


def test_half_a_surrogate_pair_in_a_name_does_not_stop_the_page(tmp_path):
    import dataclasses

    report = hand.report()
    models = (dataclasses.replace(report.models[0], folder="x\ud800"), *report.models[1:])
    write.write(dataclasses.replace(report, models=models), [tmp_path / "r.html"])
    assert "x?" in (tmp_path / "r.html").read_text(encoding="utf-8")
