"""Certificate stores: rows survive, and damage is cut or named."""

import resource

import pytest

from smoothcert.errors import StoreError
from smoothcert.report import read_store
from smoothcert.runs.identity import digest_of
from smoothcert.runs.rows import COLUMNS
from smoothcert.runs.store import ResultStore, clock, row_check
from tests.counted import certified
from tests.processes import Child
from tests.runs.rows import MANIFEST, TAU, row, text


def test_a_row_holds_the_fields_columns_first_and_everything_to_judge_it_again(store):
    with store.writer(0, 1) as part:
        part.add(row(7))
    (cells,) = store.rows()
    (certificate,) = certified([90, 10, 0], [990, 0, 10], tau=TAU)
    assert list(cells)[:6] == ["idx", "label", "predict", "radius", "correct", "time"]
    assert cells["idx"] == "7"
    assert cells["time"] == "1:02:05.250000"
    assert float(cells["radius"]) == certificate.radius
    assert (cells["counts0"], cells["counts"]) == ("0:90,1:10", "0:990,2:10")
    assert cells["path"] == "990"


def test_the_report_reads_what_the_store_writes(store):
    with store.writer(0, 1) as part:
        for index in (0, 1, 2):
            part.add(row(index, top=990 if index else 400))
    found = read_store(store.folder)
    assert found.idx.tolist() == [0, 1, 2]
    assert found.predict.tolist() == [-1, 0, 0]
    assert found.radius[1] == certified([90, 10, 0], [990, 0, 10], tau=TAU)[0].radius
    assert not found.partial


@pytest.mark.parametrize(
    "torn", ["3", "3\t0\t0\t0.3", "3\t0\t0\t0.39\t1\t0:00:00.1\t100\t1000\t0:9"]
)
def test_a_torn_last_line_is_cut_and_the_rest_kept(store, torn):
    with store.writer(0, 1) as part:
        part.add(row(0))
    path = store.folder / "part-0-of-1.tsv"
    whole = path.read_text()
    path.write_text(whole + torn)
    assert store.done() == {0}
    with store.writer(0, 1) as part:
        part.add(row(1))
    assert (
        path.read_text()
        == whole + f"{text(1)}\t{row_check(digest_of(MANIFEST.identity, 3), text(1))}\n"
    )


def test_a_torn_header_is_written_again(store):
    path = store.folder / "part-0-of-1.tsv"
    path.write_text("idx\tlab")
    with store.writer(0, 1) as part:
        part.add(row(4))
    assert path.read_text().splitlines()[0].split("\t") == list(COLUMNS)
    assert store.done() == {4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not a header\n", "expected a tab-separated header with the columns idx label"),
        ("\t".join(reversed(COLUMNS)) + "\n", "does not start with the header of such a store"),
        ("\t".join(COLUMNS) + "\n1\t2\n", "line 2: expected 10 columns"),
    ],
)
def test_damaged_parts_are_named(store, text, message):
    (store.folder / "part-0-of-1.tsv").write_text(text)
    with pytest.raises(StoreError, match=message):
        store.done()


def test_a_part_that_is_no_text_is_damaged(store):
    (store.folder / "part-0-of-1.tsv").write_bytes(b"\xff\xfe\n")
    with pytest.raises(StoreError, match="found binary data"):
        store.done()


def test_times_beyond_a_day_stay_in_the_fields_format():
    assert clock(90_061.5) == "25:01:01.500000"
    assert clock(59.9999996) in ("0:00:60.000000", "0:01:00.000000")


def test_two_writers_of_one_part_are_refused_and_two_parts_are_not(store):
    busy = pytest.raises(StoreError, match="another process is writing")
    with store.writer(0, 2), store.writer(1, 2), busy, store.writer(0, 2):
        pass


def test_mean_seconds(store):
    assert store.mean_seconds() is None
    with store.writer(0, 1) as part:
        part.add(row(0))
    assert store.mean_seconds() == 3725.25


@pytest.mark.parametrize("time", ["soon", "1:2", "0:00:x"])
def test_a_time_that_is_none_is_named(store, time):
    with store.writer(0, 1) as part:
        part.add({**row(0), "time": time})
    with pytest.raises(
        StoreError, match=rf"part-0-of-1.tsv, line 2: column time: .*, found '{time}'"
    ):
        store.mean_seconds()


def write_rows_within(report, folder, limit):
    """What a process is told that may not let a file grow beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with ResultStore(folder).writer(0, 1) as part:
        part.add(row(0))
        part.add(row(1))
        try:
            part.add(row(2))
        except StoreError as error:
            return str(error)


def test_a_full_disk_loses_no_row(store):
    """A real write failure: the process may not let files grow beyond a limit in the middle of the third row."""
    limit = len("\t".join(COLUMNS)) + 1 + 2 * (len(text(0)) + 18) + 20
    refused = Child(write_rows_within, store.folder, limit).result()
    assert "could not write" in refused
    assert "untouched" in refused
    assert (store.folder / "part-0-of-1.tsv").stat().st_size < limit
    assert store.done() == {0, 1}
    with store.writer(0, 1) as part:
        part.add(row(2))
    assert store.done() == {0, 1, 2}
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != limit  # only the child was limited
