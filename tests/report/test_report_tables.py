"""Small golden tables in every format, and the notes below them."""

import csv
import dataclasses
import io
import re

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report import certificate_table
from smoothcert.report.notes import ROUNDED
from smoothcert.report.table import Cell, Table
from smoothcert.report.table_files import latex_together, markdown_together
from tests.report.cells import best


@pytest.fixture
def runs(make):
    gaussian = make([0.1, 0.3, 0.6, 0.0], correct=[1, 1, 1, 0], name="gaussian", sigma=0.25)
    mix = make([0.5, 0.6, 0.7, 0.0], correct=[1, 1, 0, 0], name="smooth_mix 100%", sigma=0.25)
    return [gaussian, mix]


def test_text(runs):
    assert certificate_table(runs).to_text(terminal=False) == (
        "run              sigma  inputs    ACR  abstain %  r=0.00  r=0.25  r=0.50\n"
        "------------------------------------------------------------------------\n"
        "gaussian          0.25       4  0.250       25.0    75.0    50.0    25.0\n"
        "smooth_mix 100%   0.25       4  0.275       50.0    50.0    50.0    50.0\n"
    )


def test_the_columns_of_a_csv_file_do_not_depend_on_a_caption(make):
    unlabelled = make([0.5, 0.2], label=np.array([-1, -1]), correct=np.array([False, False]))
    table = certificate_table([unlabelled], [0.5])
    assert table.columns[-1] == "share r=0.50"
    assert dataclasses.replace(table, group="certified (%)").columns == table.columns


def test_text_is_plain_where_output_is_no_terminal(runs):
    table = certificate_table(runs)
    assert table.to_text() == table.to_text(terminal=False)


def test_text_for_a_terminal(runs, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    text = certificate_table(runs, [0.25, 0.5], rounded=True).to_text(terminal=True)
    assert "\x1b[1m0.275\x1b[0m" in text
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert [line.split() for line in plain.splitlines() if "gaussian" in line] == [
        ["gaussian", "0.25", "4", "0.250", "25.0", "50.0", "25.0"]
    ]


def test_wide_table_loses_no_digit_in_a_narrow_terminal(make, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    c = make([0.5], name="[bold]" + "n" * 60, expected=10)
    text = certificate_table([c], [i / 8 for i in range(9)]).to_text(terminal=True)
    assert text.count("100.0") == 5
    assert "[bold]nnn" in text
    assert "1 of 10" in text


def test_markdown(runs):
    assert certificate_table(runs, [0, 0.5]).to_markdown() == (
        "| run             | sigma | inputs |       ACR | abstain % |   r=0.00 |   r=0.50 |\n"
        "| --------------- | ----: | -----: | --------: | --------: | -------: | -------: |\n"
        "| gaussian        |  0.25 |      4 |     0.250 |      25.0 | **75.0** |     25.0 |\n"
        "| smooth_mix 100% |  0.25 |      4 | **0.275** |      50.0 |     50.0 | **50.0** |\n"
    )


def test_markdown_escapes_names_and_lists_notes(make):
    text = certificate_table([make([1.0], name="a|b<i>*", expected=2)], [0]).to_markdown()
    assert r"| a\|b\<i>\* |" in text
    assert text.endswith("\n\n- a\\|b\\<i>\\*: partial, 1 of 2 inputs\n")


def test_latex(runs):
    assert certificate_table(runs, [0, 0.5]).to_latex() == (
        "% needs \\usepackage{booktabs}\n"
        "\\begin{tabular}{lrrrrrr}\n"
        "\\toprule\n"
        "& & & & & \\multicolumn{2}{c}{Certified accuracy (\\%) at $r$} \\\\\n"
        "\\cmidrule(lr){6-7}\n"
        "run & $\\sigma$ & inputs & ACR & abstain \\% & 0.00 & 0.50 \\\\\n"
        "\\midrule\n"
        "gaussian & 0.25 & 4 & 0.250 & 25.0 & \\textbf{75.0} & 25.0 \\\\\n"
        "smooth\\_mix 100\\% & 0.25 & 4 & \\textbf{0.275} & 50.0 & 50.0 & \\textbf{50.0} \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_latex_escapes_every_special_character_and_prints_notes(make):
    text = certificate_table(
        [make([1.0], name=r"\~^{}#&$|`\input{x}" + "\n%", expected=2)], []
    ).to_latex()
    name = (
        r"\textbackslash{}\textasciitilde{}\textasciicircum{}\{\}\#\&\$\textbar{}\textasciigrave{}"
        r"\textbackslash{}input\{x\} \%"
    )
    lines = text.splitlines()
    assert lines[5].startswith(f"{name} & -")
    assert "multicolumn" not in text
    assert [line for line in lines if line.startswith("%")] == [r"% needs \usepackage{booktabs}"]
    below = lines[lines.index(r"\end{tabular}") + 1 :]
    assert below == [
        r"\par\smallskip",
        r"{\footnotesize\raggedright",
        rf"{name}: partial, 1 of 2 inputs\par",
        "}",
    ]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("-5.0", "$-$5.0"),
        ("+5.0", "+5.0"),
        ("-", "-"),
        ("a-5", "a-5"),
        ("1e-05", "1e-05"),
        ("report --alpha '' x", "report -{}-alpha '{}' x"),
        ("---", "-{}-{}-"),
        ("a|b", r"a\textbar{}b"),
    ],
)
def test_latex_sets_a_minus_before_numbers_and_joins_no_dashes(cell, shown):
    assert f"& {shown} \\\\" in Table(("run", "x"), (("a", cell),)).to_latex()


def test_latex_sets_a_minus_in_intervals_too():
    table = Table(("run", "x"), (("a", Cell("-0.5", around=("-1.0", "+0.1"))),))
    assert r"a & $-$0.5 {\scriptsize [$-$1.0, +0.1]} \\" in table.to_latex()


def test_csv_quotes_names(make):
    text = certificate_table(
        [make([1.0], name='a,"b"', sigma=1.0, expected=3)], [0, 0.125]
    ).to_csv()
    assert list(csv.reader(io.StringIO(text))) == [
        ["run", "sigma", "inputs", "ACR", "abstain %", "r=0.00", "r=0.125"],
        ['a,"b"', "1", "1 of 3", "1.000", "0.0", "100.0", "100.0"],
    ]


def test_percentages_print_as_the_field_prints_them(make):
    radius = np.zeros(10_000)
    radius[:7665] = 1
    row = certificate_table([make(radius)], [0.5]).rows[0]
    assert row[-1] == "76.6"  # 100 * 0.7665 lies below 76.65 in binary


def test_rounding_moves_a_tie(make):
    c = make([1.9057])
    assert certificate_table([c], [1.91]).rows[0][3:] == ("1.906", "0.0", "0.0")
    assert certificate_table([c], [1.91], rounded=True).rows[0][3:] == ("1.910", "0.0", "100.0")


def test_best_is_shared_by_ties_and_never_partial_or_zero(make):
    a, b = make([0.5], name="a"), make([0.5], name="b")
    partial = make([0.9], name="c", expected=2)
    marked = best(certificate_table([a, b, partial], [0.5, 0.8]))
    assert marked == {(0, 3), (1, 3), (0, 5), (1, 5)}
    assert best(certificate_table([a, partial])) == set()


@pytest.mark.parametrize("radii", [[-0.1], [float("nan")], [0.5, float("inf")]])
def test_bad_radii(make, radii):
    with pytest.raises(ConfigError, match="at least 0"):
        certificate_table([make([0.5])], radii)


def test_no_runs():
    with pytest.raises(ConfigError, match="at least one run"):
        certificate_table([])


def notes(*runs, **options):
    return certificate_table(runs, **options).notes


def test_equal_runs_need_no_note(make):
    assert notes(make([0.5], n=100, alpha=0.001), make([0.6], n=None, alpha=0.001)) == ()


def test_notes_of_a_run(make):
    c = make(
        [0.5], name="a", expected=500, warnings=("part-0-of-1.tsv: unfinished last line left out",)
    )
    assert notes(c) == (
        "a: partial, 1 of 500 inputs",
        "a: part-0-of-1.tsv: unfinished last line left out",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"idx": np.array([0, 7])}, "different inputs"),
        ({"label": np.array([0, 1])}, "'run' and 'run' disagree on the labels"),
        ({"n": 100}, r"samples per input \(n\): 100, 1000"),
        ({"alpha": 0.01}, r"alpha\): 0.001, 0.01"),
        ({"noise": "laplace"}, "noise: exact, laplace"),
    ],
)
def test_notes_of_a_comparison(make, changes, words):
    base = {"n": 1000, "alpha": 0.001, "noise": "exact"}
    (note,) = notes(make([0.5, 0.6], **base), make([0.5, 0.6], **(base | changes)))
    assert re.search(words, note)


def test_a_note_has_the_settings_of_the_stores_as_far_as_they_agree(make):
    base = {"n0": 100, "n": 100_000, "alpha": 0.001, "noise": "exact", "manifest": {"identity": {}}}
    store = make([0.5], **base)
    assert notes(store, store) == ("n0 = 100, n = 100,000, alpha = 0.001, exact noise",)
    assert (
        notes(store, make([0.5]))[0]
        == "all stores: n0 = 100, n = 100,000, alpha = 0.001, exact noise"
    )
    assert (
        notes(store, make([0.5], **(base | {"n": 1000})))[-1]
        == "n0 = 100, alpha = 0.001, exact noise"
    )
    early = {"manifest": {"identity": {"procedure": "tolerance"}}}
    assert notes(make([0.5], **(base | early))) == (
        "n0 = 100, n up to 100,000, alpha = 0.001, exact noise",
    )


def test_rounding_all_settles_the_note_on_digits(make):
    assert "rounded to 3 digits" in notes(make([0.5]), make([0.123456]))[0]
    assert notes(make([0.5]), make([0.123456]), rounded=True) == (ROUNDED,)


def test_note_on_other_inputs_says_how_many_are_shared(make):
    (note,) = notes(make([0.5, 0.6]), make([0.5, 0.6, 0.7], idx=np.array([1, 2, 3])))
    assert "different inputs (2 to 3 each, 1 in common)" in note


@pytest.mark.parametrize(
    ("key", "words"), [("dataset", "different data sets: a, b"), ("split", "splits: a, b")]
)
def test_note_on_other_data(make, key, words):
    (note,) = notes(*(make([0.5], manifest={"identity": {key: value}}) for value in ("a", "b")))
    assert words in note


def test_a_log_without_n_is_betrayed_by_its_radii(make):
    ours = make([0.5, 1.2], name="ours", sigma=0.5, n=1000, alpha=0.001)
    log = make([0.5, 1.9], name="log", sigma=0.5)
    (note,) = notes(ours, log)
    assert "'log' records no n, but has radii that the n = 1000 of 'ours' cannot give" in note
    assert notes(ours, make([0.5, 1.23], sigma=0.5)) == ()


HOSTILE = ("a|b", "<b>x</b>", "[c]", "*d*", "$e_1$", "_f_", "&lt;", "g\n| h", "i\x1b[31m", "\\")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_nothing_but_text_in_every_place_of_a_table(name):
    """In cells, columns, notes and captions alike: no further cell, line, tag, formula or argument."""
    tables = [Table((name, name), ((name, name),), notes=(name,), caption=name)] * 2
    text = markdown_together(tables)
    caption, _, head, _, row, _, note, *_ = text.splitlines()
    shown = " ".join(name.split()).replace("\x1b", "")
    unescaped = re.sub(r"\\(\W|_)", r"\1", note.removeprefix("- "))
    assert unescaped == shown
    assert caption == f"**{note.removeprefix('- ')}**"
    for line in (head, row):
        assert re.sub(r"\\.", "", line).count("|") == 3
    for line in (caption, head, row, note):
        assert not re.search(r"(?<!\\)(\\\\)*[<\[$`]", line)
    lines = latex_together(tables).splitlines()
    assert len(lines) == 2 * 15 + 2
    assert not any(line.startswith(("*", "[", "|")) for line in lines)
    assert len(list(csv.reader(io.StringIO(tables[0].to_csv())))) == 2
