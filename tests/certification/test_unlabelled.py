"""Data without labels: certificates as ever, and no word of accuracy."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert import CertifyConfig, Dataset, certify_dataset, load_recipe
from smoothcert.config import AttackConfig
from smoothcert.data import UNLABELLED, Batches, from_torch
from smoothcert.errors import DataError, SmoothcertError, StoreError
from smoothcert.evaluation.attack import attack_dataset
from smoothcert.evaluation.reanalysis import reanalyse
from smoothcert.report import (
    average_certified_radius,
    average_radius,
    certificate_table,
    certified_accuracy,
    certified_share,
    read_store,
)
from smoothcert.report.views.accuracy import accuracy_figure
from smoothcert.runs.store import ResultStore
from smoothcert.training.fit import fit
from smoothcert.verification.verify import verify
from tests.report.page import write_report
from tests.verification.simulated import recheck


class Brightness(nn.Module):
    """Class 1 above a mean of 1/2: it abstains on grey images, and is sure of black and of white ones."""

    def forward(self, images):
        mean = images.mean(dim=(1, 2, 3)) - 0.5
        return torch.stack([-mean, mean, mean * 0 - 9], dim=1)


def levels(**changes):
    images = np.stack([np.full((1, 8, 8), value, np.uint8) for value in (0, 255, 0, 255, 127, 128)])
    fields = {
        "labels": np.full(6, UNLABELLED),
        "classes": 3,
        "licence": "none",
        "preparation": "drawn",
    } | changes
    return Dataset("levels", "test", images, **fields)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("unlabelled") / "store"
    config = CertifyConfig(sigma=1.0, n0=20, n=100, seed=1)
    return certify_dataset(Brightness(), levels(), out, config, device="cpu", quiet=True)


def test_rows_have_no_label_and_are_never_correct(store):
    rows = list(store.rows())
    assert {(row["label"], row["correct"]) for row in rows} == {("-1", "0")}
    assert [row["predict"] for row in rows[:4]] == ["0", "1", "0", "1"]
    assert "-1" in [row["predict"] for row in rows[4:]]  # an abstention, which is no right answer
    environment = store.manifest().environment
    assert (environment["licence"], environment["preparation"]) == ("none", "drawn")
    (verdict,) = verify(store.folder, record=False)
    assert verdict.problems == []


def test_labels_change_neither_radii_nor_noise(store, tmp_path):
    config = CertifyConfig(sigma=1.0, n0=20, n=100, seed=1)
    known = certify_dataset(
        Brightness(), levels(labels=np.array([0, 1, 1, 1, 0, 1])), tmp_path, config, quiet=True
    )
    assert [r["radius"] for r in known.rows()] == [r["radius"] for r in store.rows()]
    assert np.array_equal(
        certified_share(read_store(tmp_path), [0.0, 1.0]),
        certified_share(read_store(store.folder), [0.0, 1.0]),
    )


def test_shares_and_mean_radius_are_shown_and_no_accuracy(store):
    found = read_store(store.folder)
    assert not found.labelled
    assert np.isnan([*certified_accuracy(found, [0.0, 0.5]), average_certified_radius(found)]).all()
    radii = np.array([float(row["radius"]) for row in store.rows()])
    answered = np.array([row["predict"] != "-1" for row in store.rows()])
    assert certified_share(found, [0.0, 1.0]).tolist() == [
        answered.mean(),
        (answered & (radii >= 1.0)).mean(),
    ]
    assert average_radius(found) == pytest.approx(radii.mean())
    table = certificate_table([found], [0.0, 1.0])
    (row,) = table.rows
    cells = dict(zip(table.columns, row, strict=True))
    assert cells["ACR"] == "-"
    assert cells["mean radius"] == f"{radii.mean():.3f}"
    assert (
        cells["share r=0.00"] == f"{np.floor(1000 * answered.mean()) / 10:.1f}"
    )  # never rounded up
    assert "Certified share" in table.to_latex()
    again = reanalyse(store.folder, alpha=0.01)
    assert not again.correct.any()


def test_the_page_speaks_of_shares(store, tmp_path):
    found = read_store(store.folder)
    write_report([found], tmp_path / "page.html", images={found.name: levels()})
    page = (tmp_path / "page.html").read_text()
    body = page[page.index("<main>") : page.index("Manifest of the store")].lower()
    assert "certified share" in body
    assert "most robust" in body  # the gallery
    for word in (
        "certified accuracy",
        "correct answers",
        "classified correctly",
        "wrong ones",
        ">wrong<",
    ):
        assert word not in body
    figure = accuracy_figure([read_store(store.folder)])
    assert figure.axes[0].get_ylabel() == "certified share"
    assert "certified accuracy" not in figure.get_label()


def test_runs_with_labels_beside_runs_without(store, make, tmp_path):
    labelled, bare = make([0.5, 1.0]), read_store(store.folder)
    table = certificate_table([labelled, bare], [0.0])
    assert [row[-1] for row in table.rows] == ["100.0", "-"]
    assert table.columns[-1] == "r=0.00"
    write_report([labelled, bare], tmp_path / "page.html")  # the charts leave it out
    with pytest.raises(SmoothcertError, match="have no curves in common"):
        accuracy_figure([labelled, bare])


@pytest.fixture
def make():
    from smoothcert.report import Certificates

    def build(radius):
        zero = np.zeros(len(radius), np.int64)
        return Certificates("log", np.arange(len(radius)), zero, zero, np.array(radius), zero == 0)

    return build


def changed(store, folder, old, new):
    folder.mkdir()
    for path in (store.folder / "manifest.json", *store.part_paths()):
        (folder / path.name).write_text(path.read_text().replace(old, new, 1))
    return folder


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n0\t-1\t0", "\n0\t0\t0", "in all rows for data without labels"),
        ("\n0\t-1\t", "\n0\t-2\t", "a class from 0 on"),
        ("\t0\t0:00", "\t1\t0:00", "0, since there are no labels"),
    ],
)
def test_rows_that_cannot_be_are_refused(store, tmp_path, old, new, message):
    folder = changed(store, tmp_path / "store", old, new)
    with pytest.raises(StoreError, match=message):
        read_store(folder)
    (verdict,) = verify(folder, record=False)
    assert any(message in problem for problem in verdict.problems)


def test_parts_with_labels_and_parts_without_are_refused(store, tmp_path):
    folder = changed(store, tmp_path / "store", "", "")
    header, *rows = store.part_paths()[0].read_text().splitlines(keepends=True)
    (folder / "part-0-of-1.tsv").write_text(header + "".join(rows[:3]))
    cells = rows[3].split("\t")
    cells[1], cells[4] = "1", "1"
    (folder / "part-1-of-2.tsv").write_text(header + "\t".join(cells))
    mixed = ResultStore(folder)
    for part in mixed.parts():
        recheck(mixed, part)
    with pytest.raises(StoreError, match="some parts have labels and others none"):
        read_store(folder)
    (verdict,) = verify(folder, record=False)
    assert any("some parts have labels" in problem for problem in verdict.problems)


def test_what_needs_labels_is_refused_before_anything_is_written(tmp_path):
    data, model, out = levels(), Brightness(), tmp_path / "out"
    config = load_recipe("mnist-mini/gaussian-0.50").config
    for work in (
        lambda: certify_dataset(model, data, out, CertifyConfig(sigma=1.0, n=100, skip_wrong=True)),
        lambda: attack_dataset(model, data, out, AttackConfig(sigma=1.0, radii=(0.5,))),
        lambda: fit(config, out, train=data, device="cpu", quiet=True),
        lambda: fit(
            config, out, train=levels(labels=np.arange(6) % 3), test=data, device="cpu", quiet=True
        ),
        lambda: Batches(data, 2, seed=0),
    ):
        with pytest.raises(DataError, match=r"levels \(test\) has no labels"):
            work()
    with pytest.raises(DataError, match="does not say how many classes"):
        certify_dataset(model, levels(classes=0), out, CertifyConfig(sigma=1.0, n=100))
    assert not out.exists()


def test_a_torch_data_set_of_images_alone_has_no_labels():
    images = torch.zeros(3, 1, 4, 4)
    for dataset in (list(images), torch.utils.data.TensorDataset(images)):
        assert from_torch(dataset, "toy", 10).labels.tolist() == [UNLABELLED] * 3


def test_a_manifest_names_the_licence_of_known_data(tmp_path):
    from smoothcert import Selection, build_model, load_dataset

    config, chosen = CertifyConfig(sigma=0.5, n0=10, n=50), Selection(max=1)
    certify_dataset(
        build_model("lenet", seed=0),
        load_dataset("mnist-mini"),
        tmp_path,
        config,
        selection=chosen,
        quiet=True,
    )
    made = json.loads((tmp_path / "manifest.json").read_text())["environment"]
    assert made["licence"].startswith("part of MNIST")
    assert "preparation" not in made
