"""Damaged logs and stores: each is refused with file, line and column, or told beside what is whole."""

import pytest

from smoothcert.errors import StoreError
from smoothcert.report import read_log, read_store
from smoothcert.runs.rows import NoCertificates
from tests.refusals import cases
from tests.report.rows import ROWS, check_rows


@pytest.mark.parametrize(
    ("column", "value", "words"),
    cases("""
        idx     | 4.5                  | whole number
        idx     | -1                   | index from 0
        label   |                      | whole number
        label   | 99999999999999999999 | whole number
        label   | 1_0                  | whole number
        label   | 1.0                  | whole number
        radius  | 1_0.5                | number
        radius  | 0,5                  | number
        predict | -2                   | abstention
        radius  | abc                  | number
        radius  | nan                  | finite radius
        radius  | inf                  | finite radius
        radius  | -0.1                 | at least 0
        correct | 2                    | 0 or 1
        correct | 0                    | predict equals label
    """),
)
def test_bad_value_names_file_line_column_and_value(write_log, column, value, words):
    path = write_log(ROWS)
    lines = path.read_text().split("\n")
    fields = lines[4].split("\t")
    fields[lines[0].split("\t").index(column)] = value
    lines[4] = "\t".join(fields)
    path.write_text("\n".join(lines))
    with pytest.raises(
        StoreError, match=f"noise_0.5.tsv, line 5: column {column}: .*{words}.* found '{value}'"
    ):
        read_log(path)


def test_row_with_missing_fields_in_the_middle(write_log):
    path = write_log(ROWS[:1], tail="20\t2\n40\t1\t3\t0.953\t0\t0:00:01\n")
    with pytest.raises(StoreError, match="line 3: expected 6 columns, found 2"):
        read_log(path)


def test_rows_whose_cells_are_too_few_and_too_many_do_not_make_up_for_each_other(write_log):
    path = write_log(ROWS[:1], tail="\n20\t2\t2\t0.5\t1\n40\t1\t3\t0.953\t0\t0:00:01\t9\n")
    with pytest.raises(StoreError, match="line 4: expected 6 columns, found 5"):  # line 3 is empty
        read_log(path)


def test_torn_last_line_is_left_out_and_told(write_log):
    c = read_log(write_log(ROWS, tail="80\t3\t3\t1.9"))
    check_rows(c)
    assert c.warnings == ("noise_0.5.tsv: unfinished last line left out",)


@pytest.mark.parametrize(
    ("indices", "notes"),
    [
        ([0, 20, 40, 60, 80], ()),
        (
            [0, 20, 60, 80, 100, 200, 220],
            ("inputs missing between others, which are 20 apart: 5; the log may not be",),
        ),
        ([0, 1, 2, 4], ("inputs missing between others, which are 1 apart: 1; the log",)),
        ([2, 1, 4, 0], ("inputs missing between others, which are 1 apart: 1; the log",)),
        ([0, 7, 9, 30, 31, 60], ()),  # chosen by chance: nothing is known
        ([0, 20, 60], ()),
        ([0, 20, 30, 50, 70], ()),
        ([5], ()),
        ([0, 1, 2, 1, 0], ("repeated rows: 2, which count once",)),
        (
            [0, 1, 1, 2, 4],
            ("repeated rows: 1, which", "inputs missing between others, which are 1 apart: 1;"),
        ),
    ],
)
def test_gaps_and_repeated_rows_are_told(write_log, indices, notes):
    c = read_log(write_log([(i, 1, 1, 0.5) for i in indices]))
    assert c.idx.tolist() == sorted({*indices})
    assert len(c.warnings) == len(notes)
    assert all(told.startswith(note) for told, note in zip(c.warnings, notes, strict=True))


@pytest.mark.parametrize(
    "text", ["", "id", "idx\tlabel\tpredict\tradius\tcor", "idx\tlabel\tpredict\tradius\tcorrect\n"]
)
def test_nothing_yet(tmp_path, text):
    path = tmp_path / "log.tsv"
    path.write_text(text)
    with pytest.raises(NoCertificates, match=r"log\.tsv: no certificates yet"):
        read_log(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"idx\tlabel\tpredict\tcorrect\n0\t1\t1\t1\n", "missing: radius"),
        (b"idx,label,predict,radius,correct\n0,1,1,0.5,1\n", "tab-separated header"),
        (b"0.00000\t0.99450\n", "is it a certification log"),
        (b"just a sentence", "tab-separated header"),
        (
            b"idx\tlabel\tpredict\tradius\tcorrect\tradius\n0\t1\t1\t0.5\t1\t0.7\n",
            "column radius twice",
        ),
        ("idx\tlabel\n".encode("utf-16"), "binary"),
        (b"\x89PNG\r\n\x1a\n\x00", "binary"),
    ],
)
def test_not_a_log(tmp_path, content, words):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=words):
        read_log(path)


def test_missing_log(tmp_path):
    with pytest.raises(StoreError, match="cannot be read"):
        read_log(tmp_path / "absent.tsv")


def test_repeated_index(write_log):
    check_rows(read_log(write_log([*ROWS, ROWS[1]])))
    with pytest.raises(StoreError, match=r"index 20 is certified twice .*\(label 2 and 5\)"):
        read_log(write_log([*ROWS, (20, 5, -1, "0.0")]))


def test_two_rows_run_together_where_a_crash_cut_the_first(write_log):
    path = write_log(ROWS[:2], tail="40\t1\t3\t0.960\t0\t0\t0.5\t1\t0:00:01\n")
    with pytest.raises(StoreError, match="line 4: expected 6 columns, found 9"):
        read_log(path)


def test_a_folder_is_no_log(tmp_path):
    with pytest.raises(StoreError, match="cannot be read"):
        read_log(tmp_path)


def test_only_part_of_a_number_was_written(write_log):
    """The line has all its columns, so only its missing newline tells that 0.95 may have been 0.953."""
    c = read_log(write_log(ROWS[:1], tail="20\t2\t2\t0.95\t1\t0:00:01"))
    assert c.rows == 1
    assert "unfinished last line" in c.warnings[0]


def test_configuration_of_a_run(write_store):
    folder = write_store(ROWS)
    run = folder.parent.parent
    assert read_store(folder).config is None
    (run / "config.yaml").write_text("dataset: mnist\nmethod: {name: gaussian}\n")
    assert read_store(folder).config == {"dataset": "mnist", "method": {"name": "gaussian"}}
    assert read_store(folder).warnings == ()


@pytest.mark.parametrize(
    "text", ["a: [", "just text", "- 1\n- 2\n", "", "!!python/object/apply:os.system ['true']"]
)
def test_damaged_configuration_is_told_and_costs_no_certificate(write_store, text):
    folder = write_store(ROWS)
    (folder.parent.parent / "config.yaml").write_text(text)
    c = read_store(folder)
    check_rows(c)
    assert c.config is None
    assert c.warnings == ("config.yaml cannot be read: training settings are not shown",)


def test_some_of_the_inputs(write_store):
    c = read_store(write_store(ROWS[:3], inputs=9))
    some = c.where(c.label > 1)
    assert some.idx.tolist() == [0, 20]
    assert some.counts.tolist() == ["7:1000", "2:500,3:500"]
    assert (some.p_lower.tolist(), some.partial, some.name) == (
        c.p_lower[:2].tolist(),
        False,
        c.name,
    )
    with pytest.raises(NoCertificates):
        c.where(c.label > 7)
