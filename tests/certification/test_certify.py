"""Whole stores, compared: shards, order, batch size, kill -9 and resume change no count."""

import json
import signal

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.data import Dataset, load_dataset
from smoothcert.errors import ConfigError, DataError, ModelError, StoreError
from smoothcert.interrupts import leave_on_signals
from smoothcert.models import build_model
from smoothcert.runs.rows import COLUMNS
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import PartWriter
from smoothcert.verification.verify import verify
from tests.networks import SumOfPixels
from tests.processes import Child
from tests.results import attack_with, cells, certify_with
from tests.runs.machines import cut_checks, edit

SETTINGS = {"sigma": 0.5, "n0": 32, "n": 200, "quiet": True}
WIDE = 8000  # grey values to a class: some images have a certificate, others have none


def table(store):
    """idx -> all cells but the time."""
    skip = COLUMNS.index("time")
    rows = cells(store)
    found = {int(row[0]): row[:skip] + row[skip + 1 :] for row in rows}
    assert len(found) == len(rows)  # no input twice
    return found


@pytest.fixture(scope="module")
def model():
    return SumOfPixels(WIDE)


@pytest.fixture(scope="module")
def data():
    return load_dataset("mnist-mini", "test")


@pytest.fixture(scope="module")
def reference(model, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("reference")
    return table(
        certify_with(model, data, out, selection=Selection(start=3, every=7, max=24), **SETTINGS)
    )


def test_the_selected_inputs_are_certified_in_order(reference, data):
    assert list(reference) == list(range(3, 3 + 7 * 24, 7))
    assert [int(cells[1]) for cells in reference.values()] == data.labels[list(reference)].tolist()
    counts = COLUMNS.index("counts") - 1
    assert len({cells[counts] for cells in reference.values()}) > 12
    assert len({cells[COLUMNS.index("radius") - 1] for cells in reference.values()}) > 1


@pytest.mark.parametrize("shards", [2, 5])
@pytest.mark.parametrize("batch_size", [50, 256])
def test_shards_and_batch_size_change_no_row(model, data, reference, tmp_path, shards, batch_size):
    for shard in reversed(range(shards)):
        selection = Selection(start=3, every=7, max=24, shard=shard, shards=shards)
        store = certify_with(
            model, data, tmp_path, selection=selection, batch_size=batch_size, **SETTINGS
        )
    assert table(store) == reference
    assert len(list(tmp_path.glob("part-*-of-*.tsv"))) == shards


def certify_from_files(report, folder, settings, enough):
    """What the process does that is killed or interrupted; it reports each row after so many."""
    leave_on_signals()
    real = PartWriter.add

    def add(self, row):
        real(self, row)
        if rows_of(folder / "store" / "part-0-of-1.tsv") >= enough:
            report()

    PartWriter.add = add
    selection = Selection(start=3, every=7, max=24, shard=0, shards=1)
    data = load_dataset("mnist-mini", "test")
    model, store = SumOfPixels(WIDE), folder / "store"
    certify_with(model, data, store, selection=selection, batch_size=64, **settings)


def rows_of(part):
    return part.read_text().count("\n") - 1


@pytest.mark.parametrize(
    ("number", "status", "stops"),
    [
        (signal.SIGKILL, -9, (1, 4, 9, 15)),
        (signal.SIGTERM, 143, (1, 15)),
        (signal.SIGINT, 130, (15,)),
    ],
)
def test_stopped_at_any_moment_and_resumed_the_store_is_the_same(
    model, reference, tmp_path, number, status, stops
):
    """By a signal, several times, at whatever the process is doing; another number of shards in between."""
    part = tmp_path / "store" / "part-0-of-1.tsv"
    rows = 0
    for enough in stops:
        child = Child(certify_from_files, tmp_path, SETTINGS, enough, waits_at=4)
        child.next_report()
        assert child.interrupt(number)[0] == status
        rows = rows_of(part)
        with part.open("a") as file:
            file.write("999\t3\t")  # and a line torn by a power cut
    assert 15 <= rows < 24
    selection = Selection(start=3, every=7, max=24, shard=0, shards=2)
    data = load_dataset("mnist-mini", "test")
    certify_with(model, data, tmp_path / "store", selection=selection, **SETTINGS)
    selection = Selection(start=3, every=7, max=24, shard=0, shards=1)
    assert (
        table(certify_with(model, data, tmp_path / "store", selection=selection, **SETTINGS))
        == reference
    )
    assert (
        verify(tmp_path / "store")[0].answer == "verified"
    )  # rows go on where a process was killed


def test_a_finished_store_is_left_alone(model, data, tmp_path):
    selection = Selection(max=2)
    certify_with(model, data, tmp_path, selection=selection, **SETTINGS)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    certify_with(model, data, tmp_path, selection=selection, **SETTINGS)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"n": 300}, "n: 200 there, 300 asked"),
        ({"alpha": 0.01}, "alpha"),
        ({"sigma": 0.25}, "sigma"),
        ({"seed": 1}, "seed"),
        ({"noise": "float"}, "noise"),
        ({"selection": Selection(start=1, max=2)}, "start"),
    ],
)
def test_another_procedure_is_refused(model, data, tmp_path, change, key):
    certify_with(model, data, tmp_path, **{**SETTINGS, "selection": Selection(max=2)})
    before = (tmp_path / "part-0-of-1.tsv").read_bytes()
    with pytest.raises(StoreError, match=key):
        certify_with(model, data, tmp_path, **{**SETTINGS, "selection": Selection(max=2), **change})
    assert (tmp_path / "part-0-of-1.tsv").read_bytes() == before


def test_more_inputs_are_added_to_the_same_store_and_fewer_change_nothing(
    model, data, reference, tmp_path
):
    for inputs in (5, 2, 24):
        selection = Selection(start=3, every=7, max=inputs)
        store = certify_with(model, data, tmp_path, selection=selection, **SETTINGS)
        assert store.manifest().inputs == max(5, inputs)
    assert table(store) == reference
    assert store.manifest().identity["max"] == 24
    certify_with(
        model, data, tmp_path / "all", selection=Selection(max=3), simultaneous=True, **SETTINGS
    )
    with pytest.raises(StoreError, match="shares its alpha among 3 inputs"):
        certify_with(
            model, data, tmp_path / "all", selection=Selection(max=4), simultaneous=True, **SETTINGS
        )


def test_other_weights_another_network_or_other_data_are_refused(data, tmp_path):
    model = build_model("lenet", seed=0)
    settings = {**SETTINGS, "selection": Selection(max=1)}
    certify_with(model, data, tmp_path, **settings)
    with pytest.raises(StoreError, match="model: "):
        certify_with(build_model("lenet", seed=1), data, tmp_path, **settings)
    shifted = torch.nn.Sequential(torch.nn.Softmax(2), model[1])  # same weights, another forward
    with pytest.raises(StoreError, match="network: "):
        certify_with(shifted, data, tmp_path, **settings)
    flipped = Dataset("mnist-mini", "test", 255 - data.images, data.labels, 10)
    with pytest.raises(StoreError, match="data: "):
        certify_with(model, flipped, tmp_path, **settings)


def test_the_manifest_says_what_the_certificates_are_about(model, data, tmp_path):
    certify_with(model, data, tmp_path, selection=Selection(max=1), **SETTINGS)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    wanted = {
        "sigma",
        "n0",
        "n",
        "alpha",
        "noise_seed",
        "behaviour",
        "noise",
        "model",
        "dataset",
        "data",
        "split",
        "start",
        "every",
        "max",
    }
    assert wanted <= manifest["identity"].keys()
    assert manifest["inputs"] == 1
    assert manifest["environment"]["torch"] == torch.__version__


def test_data_off_the_8_bit_grid_needs_float_noise(model, tmp_path):
    rng = np.random.default_rng(0)
    images = rng.random((3, 1, 28, 28), dtype=np.float32)
    data = Dataset("mine", "test", images, np.zeros(3, np.int64), 10)
    with pytest.raises(DataError, match="not 8-bit data"):
        certify_with(model, data, tmp_path, **SETTINGS)
    assert not list(tmp_path.iterdir())
    store = certify_with(model, data, tmp_path, noise="float", **SETTINGS)
    assert store.done() == {0, 1, 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": -1},
        {"every": 0},
        {"max": 0},
        {"shard": 2, "shards": 2},
        {"shard": -1},
        {"shards": 0},
    ],
)
def test_impossible_selections_are_refused(wrong):
    with pytest.raises(ConfigError, match="found"):
        Selection(**wrong)


def test_a_start_beyond_the_data_is_refused(model, data, tmp_path):
    with pytest.raises(ConfigError, match="leaves no input"):
        certify_with(model, data, tmp_path, selection=Selection(start=5000), **SETTINGS)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda part: edit(part, "0:00:", "1:00:"),
            "part-0-of-1.tsv, line 2, input 0: column check: found",
        ),
        (cut_checks, "missing: check"),
    ],
)
def test_a_store_that_verify_would_never_accept_is_not_resumed(
    model, data, tmp_path, damage, message
):
    part = (
        certify_with(model, data, tmp_path, selection=Selection(max=3), **SETTINGS).parts()[0].path
    )
    damage(part)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        StoreError, match=f"{message}.*restore the file from a copy, or certify again under another"
    ):
        certify_with(model, data, tmp_path, selection=Selection(max=4), **SETTINGS)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("make", [certify_with, attack_with])
def test_a_network_that_cannot_take_the_images_leaves_no_store(data, tmp_path, make):
    small = nn.Sequential(nn.Flatten(), nn.Linear(25, 10))
    settings = {**SETTINGS, "radii": (0.5,)}
    del settings["n0"]
    with pytest.raises(ModelError, match="could not take a float32 batch"):
        make(small, data, tmp_path / "store", selection=Selection(max=2), **settings)
    assert list(tmp_path.iterdir()) == []
