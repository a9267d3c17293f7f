"""Certificate stores: rows survive, damage is cut or named, other procedures are kept out."""

import json
import resource
from pathlib import Path

import numpy as np
import pytest

from smoothcert.certification.certifier import certificate_row
from smoothcert.errors import StoreError
from smoothcert.report import read_store
from smoothcert.runs.rows import COLUMNS
from smoothcert.runs.store import Manifest, ResultStore, clock, next_link
from smoothcert.statistics.certificate import from_counts
from smoothcert.verification.chain import broken_rows
from tests.processes import Child

MANIFEST = Manifest({"sigma": 0.5, "n0": 100, "n": 1000, "alpha": 0.001, "noise": "exact"}, 3, {"torch": "2.13"})


def row(index, top=990):
    counts0, counts = np.array([90, 10, 0]), np.array([top, 0, 1000 - top])
    (certificate,) = from_counts(counts0[None], counts[None], sigma=0.5, alpha=0.001)
    row = certificate_row(certificate, index=index, label=0, noise="exact", seed=0)
    return {**row, "time": clock(3725.25)}


def text(index):
    """A row as it is written, but for its check."""
    return "\t".join(str(row(index)[name]) for name in COLUMNS[:-1])


@pytest.fixture
def store(tmp_path):
    made = ResultStore(tmp_path / "certify" / "test")
    made.claim(MANIFEST)
    return made


def test_a_row_holds_the_fields_columns_first_and_everything_to_judge_it_again(store):
    with store.writer(0, 1) as part:
        part.add(row(7))
    (cells,) = store.rows()
    (certificate,) = from_counts(np.array([[90, 10, 0]]), np.array([[990, 0, 10]]), sigma=0.5, alpha=0.001)
    assert list(cells)[:6] == ["idx", "label", "predict", "radius", "correct", "time"]
    assert cells["idx"] == "7"
    assert cells["time"] == "1:02:05.250000"
    assert float(cells["radius"]) == certificate.radius
    assert (cells["counts0"], cells["counts"]) == ("0:90,1:10", "0:990,2:10")
    assert (cells["n0"], cells["n"], cells["noise"], cells["seed"]) == ("100", "1000", "exact", "0")
    assert float(cells["p_lower"]) == certificate.p_lower
    assert float(cells["multiclass_radius"]) == certificate.multiclass_radius


def test_the_report_reads_what_the_store_writes(store):
    with store.writer(0, 1) as part:
        for index in (0, 1, 2):
            part.add(row(index, top=990 if index else 400))
    found = read_store(store.folder)
    assert found.idx.tolist() == [0, 1, 2]
    assert found.predict.tolist() == [-1, 0, 0]
    assert found.radius[1] == from_counts(np.array([[90, 10, 0]]), np.array([[990, 0, 10]]), 0.5, 0.001)[0].radius
    assert not found.partial


@pytest.mark.parametrize("torn", ["3", "3\t0\t0\t0.3", "3\t0\t0\t0.39\t1\t0:00:00.1\t100\t1000\t0:9"])
def test_a_torn_last_line_is_cut_and_the_rest_kept(store, torn):
    with store.writer(0, 1) as part:
        part.add(row(0))
    path = store.folder / "part-0-of-1.tsv"
    whole = path.read_text()
    path.write_text(whole + torn)
    assert store.done() == {0}
    with store.writer(0, 1) as part:
        part.add(row(1))
    assert path.read_text() == whole + f"{text(1)}\t{next_link(whole.split()[-1], text(1))}\n"


def test_a_torn_header_is_written_again(store):
    path = store.folder / "part-0-of-1.tsv"
    path.write_text("idx\tlab")
    with store.writer(0, 1) as part:
        part.add(row(4))
    assert path.read_text().splitlines()[0].split("\t") == list(COLUMNS)
    assert store.done() == {4}


def test_another_procedure_is_refused_with_the_differing_keys_and_nothing_changes(store):
    before = (store.folder / "manifest.json").read_text()
    other = Manifest({**MANIFEST.identity, "n": 100, "alpha": 0.01}, 3, {})
    with pytest.raises(StoreError, match=r"alpha: 0.001 there, 0.01 asked; n: 1000 there, 100 asked.*--name"):
        store.claim(other)
    assert (store.folder / "manifest.json").read_text() == before
    store.claim(Manifest(MANIFEST.identity, 3, {"torch": "another version"}))  # the environment may change


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not a header\n", "expected a tab-separated header with the columns idx label"),
        ("\t".join(reversed(COLUMNS)) + "\n", "does not start with the header of such a store"),
        ("\t".join(COLUMNS) + "\n1\t2\n", "line 2: expected 15 columns"),
    ],
)
def test_damaged_parts_are_named(store, text, message):
    (store.folder / "part-0-of-1.tsv").write_text(text)
    with pytest.raises(StoreError, match=message):
        store.done()


def test_damaged_or_missing_manifests_are_named(store, tmp_path):
    with pytest.raises(StoreError, match="not a result store"):
        ResultStore(tmp_path).manifest()
    (store.folder / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        store.manifest()
    (store.folder / "manifest.json").unlink()
    (store.folder / "part-0-of-1.tsv").write_text("")
    with pytest.raises(StoreError, match=r"no manifest.json"):
        store.claim(MANIFEST)


def test_of_two_processes_that_start_together_the_first_manifest_stays(store, monkeypatch):
    """The second has looked for a manifest before the first wrote its own."""
    before = (store.folder / "manifest.json").read_bytes()
    monkeypatch.setattr("pathlib.Path.exists", lambda self, **_: False)
    with pytest.raises(StoreError, match="n: 1000 there, 100 asked"):
        store.claim(Manifest({**MANIFEST.identity, "n": 100}, 3, {}))
    assert (store.folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        '{"identity": 3, "inputs": 1, "environment": {}}',
        '{"identity": {}}',
        "[]",
        '{"identity": {"sigma": "a half"}, "inputs": 1, "environment": {}}',
        '{"identity": {"alpha": null}, "inputs": 1, "environment": {}}',
        '{"identity": {"n": [100]}, "inputs": 1, "environment": {}}',
    ],
)
def test_a_manifest_of_another_shape_is_damaged(store, text):
    (store.folder / "manifest.json").write_text(text)
    for read in (store.manifest, lambda: store.claim(MANIFEST)):
        with pytest.raises(StoreError, match="damaged"):
            read()


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


def test_an_unwritable_place_is_named():
    store = ResultStore(Path("/proc/smoothcert"))
    with pytest.raises(StoreError, match=r"could not write /proc/smoothcert/manifest\.json"):
        store.claim(MANIFEST)


def test_the_manifest_is_json_with_identity_and_environment(store):
    values = json.loads((store.folder / "manifest.json").read_text())
    assert values == {"identity": dict(MANIFEST.identity), "inputs": 3, "environment": {"torch": "2.13"}}


def chained_part(store, indices=(0, 1, 2)):
    with store.writer(0, 1) as part:
        for index in indices:
            part.add(row(index))
    return store.folder / "part-0-of-1.tsv"


def broken(store):
    """The lines whose check is wrong."""
    (part,) = store.parts()
    return [part.numbers[place] for place in broken_rows(part, store.manifest().identity)]


@pytest.mark.parametrize(
    ("damage", "lines"),
    [
        (lambda rows: rows, []),
        (lambda rows: [rows[0], rows[1].replace("0:990", "0:991"), *rows[2:]], [3]),
        (lambda rows: [rows[0].replace("1:02:05", "1:02:06"), *rows[1:]], [2]),
        (lambda rows: [rows[0], rows[2], rows[3]], [3]),  # one is lost
        (lambda rows: rows[1:], [2]),  # the first is
        (lambda rows: rows[:2], []),  # the last are: the index set tells
        (lambda rows: [rows[1], rows[0], *rows[2:]], [2, 3, 4]),
        (lambda rows: [*rows[:2], rows[1], *rows[2:]], [4]),  # one is there twice
    ],
)
def test_the_chain_names_edited_lost_moved_and_inserted_rows(store, damage, lines):
    part = chained_part(store, (0, 1, 2, 3))
    header, *rows = part.read_text().splitlines(keepends=True)
    part.write_text("".join([header, *damage(rows)]))
    assert broken(store) == lines


def test_the_chain_goes_on_after_a_torn_line_and_begins_with_the_manifest_and_the_part(store):
    part = chained_part(store, (0, 1))
    part.write_text(part.read_text() + "2\t0\t0")
    with store.writer(0, 1) as writer:
        writer.add(row(2))
    assert store.done() == {0, 1, 2}
    assert broken(store) == []
    renamed = part.rename(part.with_name("part-1-of-2.tsv"))
    assert broken(store) == [2]
    renamed.rename(part)
    manifest = store.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"alpha": 0.001', '"alpha": 0.01'))
    assert broken(store) == [2]


def test_a_part_of_an_older_version_goes_on_without_a_chain(store):
    part = store.folder / "part-0-of-1.tsv"
    part.write_text("\t".join(COLUMNS[:-1]) + "\n" + text(0) + "\n")
    with store.writer(0, 1) as writer:
        writer.add(row(1))
    assert part.read_text().splitlines()[1:] == [text(0), text(1)]


def asked(inputs, **changes):
    return Manifest({**MANIFEST.identity, "max": inputs, **changes}, inputs, {})


@pytest.fixture
def ten(tmp_path):
    made = ResultStore(tmp_path / "ten")
    made.claim(asked(10))
    return made


def test_max_may_grow_and_a_smaller_one_changes_nothing(ten):
    part = chained_part(ten)
    before = (ten.folder / "manifest.json").read_bytes()
    ten.claim(asked(4))
    assert (ten.folder / "manifest.json").read_bytes() == before
    ten.claim(asked(25))
    assert (ten.manifest().inputs, ten.manifest().identity["max"]) == (25, 25)
    ten.claim(asked(10))
    assert ten.manifest().inputs == 25
    ten.claim(Manifest({**MANIFEST.identity, "max": None}, 60, {}))
    assert (ten.manifest().inputs, ten.manifest().identity["max"]) == (60, None)
    assert part.read_text().count("\n") == 4
    assert broken(ten) == []  # the chain does not depend on it


@pytest.mark.parametrize("inputs", [4, 25])
def test_inputs_that_share_one_alpha_keep_their_number(tmp_path, inputs):
    made = ResultStore(tmp_path)
    made.claim(asked(10, simultaneous=True))
    with pytest.raises(StoreError, match=f"shares its alpha among 10 inputs .*, found {inputs} asked for.*--name"):
        made.claim(asked(inputs, simultaneous=True))
    assert made.manifest().inputs == 10
