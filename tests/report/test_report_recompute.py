"""Rows of a store are recomputed from their counts: what these do not prove is refused with file and line."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from smoothcert import CertifyConfig, certify_dataset
from smoothcert.data import Dataset
from smoothcert.errors import StoreError
from smoothcert.report import read_log, read_store
from smoothcert.runs.store import ResultStore
from smoothcert.runs.votes import BadCounts, read_votes
from smoothcert.verification.verify import verify
from tests.report.rows import ROWS
from tests.verification.simulated import rechain

SETTINGS = {
    "fixed": {},
    "together": {"simultaneous": True},
    "skipping": {"skip_wrong": True},
    "early": {"procedure": "radius", "radii": [0.25, 0.5, 1.0]},
    "rough": {"procedure": "tolerance", "tolerance": 0.05},
    "l1": {"noise": "laplace", "norm": "l1"},
}


def edit(folder, row, part=0, **cells):
    """Other cells in one row of a store; `line` counts as an editor does."""
    (path,) = folder.glob(f"part-{part}-of-*.tsv")
    lines = path.read_text().split("\n")
    header, values = lines[0].split("\t"), lines[row + 1].split("\t")
    for name, value in cells.items():
        values[header.index(name)] = str(value)
    lines[row + 1] = "\t".join(values)
    path.write_text("\n".join(lines))


@pytest.mark.parametrize("kind", SETTINGS)
def test_what_the_counts_prove_is_read_without_a_word(write_store, kind):
    rows = [row for row in ROWS if kind != "skipping" or row[1] == row[2] or row[2] < 0]
    assert read_store(write_store(rows, classes=10, **SETTINGS[kind])).warnings == ()


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("radius", ["9.75", "0.0001"])
def test_no_radius_is_believed_that_the_counts_do_not_prove(write_store, kind, radius):
    folder = write_store(ROWS[:1], **SETTINGS[kind])
    edit(folder, 0, radius=radius)
    with pytest.raises(
        StoreError, match=rf"part-0-of-1\.tsv, line 2: column radius: expected .* found '{radius}'"
    ):
        read_store(folder)


@pytest.mark.parametrize(
    ("row", "cells", "column"),
    [
        (0, {"radius": 1.231641}, "radius"),  # a hundred thousandth above
        (0, {"p_lower": 0.9932}, "p_lower"),
        (0, {"p_lower": 0.8}, "p_lower"),
        (0, {"multiclass_radius": 2.0}, "multiclass_radius"),
        (0, {"multiclass_radius": 0.5}, "multiclass_radius"),
        (0, {"predict": 3, "correct": 0}, "predict"),  # not the selected class
        (0, {"predict": -1, "correct": 0, "radius": 0.0}, "predict"),  # its counts prove a class
        (0, {"predict": -1, "correct": 0}, "predict"),
        (1, {"predict": 2, "correct": 1}, "predict"),  # its counts prove no class
        (1, {"radius": 0.25}, "radius"),  # of an abstention
        (0, {"counts0": "3:60,7:40"}, "predict"),  # the selection samples name another class
        (0, {"counts": "7:900,8:100"}, "radius"),
        (0, {"counts": "7:2000"}, "counts"),  # other than n samples
        (0, {"counts0": "7:99"}, "counts0"),
        (0, {"n": "100000"}, "n"),
        (0, {"n0": "1"}, "n0"),
        (0, {"n": "many"}, "n"),
        (0, {"counts": ""}, "counts"),  # nothing was skipped
        (0, {"counts0": "7:100,7:100"}, "columns counts0 and counts"),
        (0, {"counts": "8:0,7:1000"}, "columns counts0 and counts"),
        (0, {"counts": "7:1000,"}, "columns counts0 and counts"),
        (0, {"counts": "7=1000"}, "columns counts0 and counts"),
        (0, {"counts": "7:99999999999999999999"}, "columns counts0 and counts"),
        (0, {"counts": "7:999,12:1"}, "counts"),  # a class that there is not
        (0, {"label": 10, "correct": 0}, "label"),
        (0, {"predict": 10, "correct": 0}, "predict"),
        (1, {"idx": 25}, "idx"),
        (1, {"idx": 80}, "idx"),
        (0, {"seed": 1}, "seed"),
        (0, {"noise": "float"}, "noise"),
    ],
)
def test_edited_rows_are_refused(write_store, row, cells, column):
    folder = write_store(ROWS, classes=10)
    edit(folder, row, **cells)
    word = column if column.startswith("columns") else f"column {column}"
    with pytest.raises(StoreError, match=rf"part-0-of-1\.tsv, line {row + 2}: {word}: expected"):
        read_store(folder)


def test_a_part_of_another_seed_is_refused(write_store):
    folder = write_store(ROWS[:2], ROWS[2:])
    edit(folder, 1, part=1, seed=7)
    with pytest.raises(
        StoreError, match=r"part-1-of-2\.tsv, line 3: column seed: expected 0, as in the manifest"
    ):
        read_store(folder)


@pytest.mark.parametrize(
    ("kind", "row", "cells", "column"),
    [
        ("early", 0, {"radius": 0.75}, "radius"),  # no tested radius
        (
            "early",
            0,
            {"radius": 0.5, "p_lower": 0.8413447460686874},
            "radius",
        ),  # it went on, and passed the next
        (
            "early",
            1,
            {"predict": 2, "correct": 1, "radius": 0.25, "p_lower": 0.6914624612749},
            "radius",
        ),
        ("early", 0, {"p_lower": 0.5}, "p_lower"),
        (
            "early",
            0,
            {"n": 1000, "counts": "7:1000"},
            "radius",
        ),  # sampling would have stopped before
        ("early", 0, {"counts": "7:33"}, "counts"),  # no look at 33 samples
        ("early", 0, {"multiclass_radius": 0.7}, "multiclass_radius"),
        ("rough", 0, {"p_lower": 0.9999, "radius": 1.8595082404}, "p_lower"),
        (
            "rough",
            0,
            {"p_lower": 0.6, "radius": 0.12667355156},
            "p_lower",
        ),  # below the bound of the last look
        ("rough", 0, {"n": 20, "counts": "7:20"}, "counts"),
        ("skipping", 2, {}, "counts"),  # the selected class is not the label, yet there are samples
    ],
)
def test_edited_rows_of_other_procedures_are_refused(write_store, kind, row, cells, column):
    folder = write_store(ROWS, **SETTINGS[kind])
    edit(folder, row, **cells)
    with pytest.raises(StoreError, match=rf"line {row + 2}: column {column}: expected"):
        read_store(folder)


def test_a_skipped_input_claims_nothing(write_store):
    folder = write_store(ROWS[2:3], inputs=3, **SETTINGS["skipping"])
    skipped = {"predict": -1, "radius": 0.0, "correct": 0, "n": 0, "counts": "", "p_lower": 0.0}
    edit(folder, 0, **skipped, multiclass_radius="nan")
    store = ResultStore(folder)
    rechain(store, *store.parts())
    assert read_store(folder).warnings == ()
    edit(folder, 0, predict=3, radius=0.5)
    with pytest.raises(
        StoreError,
        match=r"line 2[:,] .*(column predict|chain is broken)",
    ):
        read_store(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"alpha_each": 0.01},
            "no certification can have alpha_each 0.01 here",
        ),
        ({"norm": "linf"}, "no certification can have norm 'linf' here"),
        ({"sigma": 5.0}, "no certification can have tau"),
        ({"alpha": 0.5, "alpha_each": 0.5}, "line 2: column radius: expected"),
        ({"n": 100}, "line 2: column counts: expected 100 answers"),
    ],
)
def test_an_edited_manifest_is_refused(write_store, change, words):
    folder = write_store(ROWS)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["identity"] |= change
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=words):
        read_store(folder)


ODD = {
    "procedure": ({"procedure": "magic"}, "no certification can have procedure 'magic' here"),
    "looks": (
        {"procedure": "tolerance", "tolerance": 0.05},
        "lacks settings of a certification .looks, early_alpha",
    ),
    "n": ({"n": None}, "expected n as a whole number, found None"),
    "classes and sigma": (
        {"classes": None, "sigma": None},
        "lacks settings of a certification .sigma, classes",
    ),
    "large": ({"n": 10**15}, "no certification can have n 1000000000000000 here"),
    "tau": ({"tau": -0.3}, "no certification can have tau -0.3 here"),
    "split": ({"split_alpha": 0.0}, "no certification can have split_alpha 0.0 here"),
    "noise": ({"noise": "salt"}, "no certification can have noise 'salt' here"),
    "every": ({"every": 0}, "no certification can have every 0 here"),
}


@pytest.mark.parametrize("kind", ODD)
def test_radii_that_cannot_be_checked_are_not_reported(write_store, kind):
    change, words = ODD[kind]
    folder = write_store(ROWS)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["identity"] |= change
    path.write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=rf"manifest\.json.*{words}"):
        read_store(folder)


def test_other_rules_of_stopping_than_those_here_are_refused(write_store):
    folder = write_store(ROWS, **SETTINGS["rough"])
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"beta": 0.001', '"beta": 0.002'))
    with pytest.raises(StoreError, match=r"a procedure with beta 0\.002, here it is 0\.001"):
        read_store(folder)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A store that certification itself has written, with a chain."""
    images = np.random.default_rng(0).integers(0, 256, (8, 1, 4, 4), np.uint8)
    data = Dataset("noise", "test", images, np.arange(8) % 3, 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
    folder = tmp_path_factory.mktemp("run") / "certify" / "test"
    certify_dataset(model, data, folder, CertifyConfig(sigma=0.5, n=200), device="cpu", quiet=True)
    return folder


FORGED = {
    "a check without its name": (("part-0-of-1.tsv", "\tcheck\n", "\told\n"), "was cut off"),
    "counts without their name": (("part-0-of-1.tsv", "\tcounts\t", "\tvotes\t"), "counts are missing"),
    "a time": (("part-0-of-1.tsv", "\t0:00:00", "\t0:00:01"), "the chain is broken"),
    "no distance from the law": (("manifest.json", '"tau": ', '"tau": 0.0, "was": '), "tau 0.0 here"),
    "fewer inputs": (("manifest.json", '"max": null', '"max": 5'), "inputs 8 here"),
    "another network": (("manifest.json", '"model": "', '"model": "0'), "no certification can have noise_seed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_what_verify_refuses_is_not_reported(certified, tmp_path, kind):
    (name, old, new), words = FORGED[kind]
    folder = Path(shutil.copytree(certified, tmp_path / "certify" / "test"))
    assert read_store(folder).warnings == ()
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    (verdict,) = verify(folder, record=False)
    assert verdict.answer == "differs"
    with pytest.raises(StoreError, match=words):
        read_store(folder)


def test_a_log_with_radii_beyond_the_fields_samples_is_told(write_log):
    assert read_log(write_log([(0, 1, 1, "1.91")])).warnings == ()  # 1.9057, rounded as logs are
    (told,) = read_log(write_log([(0, 1, 1, "0.5"), (1, 1, 1, "9.75")])).warnings
    assert re.match(
        r"its largest radius 9\.75 is more than 100000 samples give at alpha 0\.001 \(1\.906\)",
        told,
    )


COUNTS = st.lists(
    st.tuples(
        *(st.dictionaries(st.integers(0, 12), st.integers(0, 10**6), max_size=5) for _ in range(2))
    ),
    min_size=1,
    max_size=6,
)


@given(COUNTS)
@settings(max_examples=200)
def test_votes_are_those_of_the_rows_one_by_one(rows):
    cells = np.array(
        [[",".join(f"{k}:{c[k]}" for k in sorted(c)) for c in row] for row in rows], dtype=object
    )
    votes = read_votes(cells[:, 0], cells[:, 1])
    for place, (first, second) in enumerate(rows):
        selected = min(first, key=lambda k: (-first[k], k), default=-1)
        others = [count for k, count in second.items() if k != selected]
        wanted = (
            selected,
            second.get(selected, 0),
            max(others, default=0),
            sum(first.values()),
            sum(second.values()),
        )
        found = votes.selected, votes.top, votes.other, votes.n0, votes.n
        assert tuple(int(column[place]) for column in found) == wanted
        assert votes.highest[place] == max([0, *first, *second])


@pytest.mark.parametrize(
    "cell", ["1", "1:", ":1", "1:1,", ",1:1", "1:1\n2:1", "1:1:1", "a:1", "1:-1", "٣:1", "2:1,1:1"]
)
def test_what_are_no_counts_is_named_by_its_row(cell):
    good = np.array(["0:1", "", "3:4,5:6"], dtype=object)
    with pytest.raises(BadCounts) as bad:
        read_votes(good, np.array(["0:1", "1:5", cell], dtype=object))
    assert bad.value.row == 2
