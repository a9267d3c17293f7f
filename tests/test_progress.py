import sys

import pytest

from smoothcert.progress import ProgressBar, about, all_of, noun, time_left


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3725, "1:02:05")]
)
def test_time_left(seconds, text):
    assert time_left(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 seconds"), (1, "1 second"), (60, "60 seconds"), (7200, "2 hours")],
)
def test_about(seconds, text):
    assert about(seconds) == text


def test_one_thing_is_no_plural(capsys):
    assert [noun(count, "epoch") for count in (0, 1, 2)] == ["epochs", "epoch", "epochs"]
    assert [noun(count, "copy", "copies") for count in (0, 1, 2)] == ["copies", "copy", "copies"]
    assert [all_of(count, "input") for count in (1, 6)] == ["1 of 1 input", "all 6 inputs"]
    with ProgressBar("certify", total=1, unit="images") as bar:
        bar.advance()
    assert capsys.readouterr().err.startswith("certify: 1/1 image, ")


def test_plain_lines_when_it_is_not_a_terminal(capsys):
    with ProgressBar("certify", total=3, unit="images", done=1) as bar:
        bar.advance()
        bar.advance(note="all good")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("certify: 3/3 images, ")
    assert lines[0].endswith("0:00 left all good")


def test_a_bar_with_rate_and_time_left_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with ProgressBar("certify", total=2, unit="images") as bar:
        bar.advance()
        bar.advance(note="97.3 % certified correct")
    printed = capsys.readouterr().err
    assert "certify" in printed
    assert "2/2" in printed


def test_quiet_is_quiet(capsys):
    with ProgressBar("certify", total=1, unit="images", quiet=True) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""
