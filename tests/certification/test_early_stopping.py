"""Certification that stops early, on real networks: same decisions as with fixed n, far fewer samples."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import Dataset, load_dataset
from smoothcert.errors import ConfigError, StoreError
from smoothcert.models import build_model
from smoothcert.report import average_certified_radius, certified_accuracy, read_store
from smoothcert.runs.counts import class_counts
from smoothcert.runs.rows import COLUMNS
from smoothcert.runs.selection import Selection
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import law_named
from tests.networks import SumOfPixels
from tests.results import cells, certify_with, status_lines

SIGMA, N = 0.5, 1000
SELECTION = Selection(every=50)
SETTINGS = {
    "sigma": SIGMA,
    "n0": 50,
    "n": N,
    "selection": SELECTION,
    "batch_size": 256,
    "quiet": True,
    "seed": 0,  # the samples of fewer looks are then the first of all n
}


@pytest.fixture(scope="module")
def data():
    return load_dataset("mnist-mini", "test")


@pytest.fixture(scope="module")
def model():
    """LeNet after half an epoch: some inputs right, some wrong, some undecided."""
    train, generator = load_dataset("mnist-mini", "train"), torch.Generator().manual_seed(0)
    model = build_model("lenet", seed=0)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for picked in torch.randperm(5000, generator=generator).split(50):
        x = torch.from_numpy(train.images[picked]).float() / 255
        x = x + SIGMA * torch.randn(x.shape, generator=generator)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), torch.from_numpy(train.labels[picked])).backward()
        optimiser.step()
    return model.eval()


@pytest.fixture(scope="module")
def fixed(model, data, tmp_path_factory):
    return certify_with(model, data, tmp_path_factory.mktemp("fixed"), **SETTINGS)


def samples(store):
    return np.array([sum(class_counts(row["counts"]).values()) for row in store.rows()])


def top_counts(store):
    """Count of the selected class, by input, in index order."""
    found = {}
    for row in store.rows():
        counts0, counts = (
            dict(tuple(map(int, entry.split(":"))) for entry in row[name].split(","))
            for name in ("counts0", "counts")
        )
        selected = min(counts0, key=lambda c: (-counts0[c], c))
        found[int(row["idx"])] = counts.get(selected, 0)
    return np.array([found[index] for index in sorted(found)])


@pytest.mark.parametrize("radius", [0.25, 0.5])
def test_fixed_radius_decisions_agree_with_fixed_n(model, data, fixed, tmp_path, radius):
    store = certify_with(model, data, tmp_path, radii=(radius,), **SETTINGS)
    tested, full = read_store(store.folder), read_store(fixed.folder)
    accepted, expected = ~tested.abstained, full.radius >= radius
    assert set(tested.radius) <= {0.0, radius}
    assert (tested.predict[accepted] == full.predict[accepted]).all()
    # where all n samples leave no doubt on which side of p0 the input is, the test says the same
    p0, count = float(law_named("gaussian").probability(radius, SIGMA)), top_counts(fixed)
    sure = bounds.lower_bound(count, N, 1e-6) > p0
    hopeless = bounds.upper_bound(count, N, 1e-3) < p0
    assert accepted[sure].all()
    assert not accepted[hopeless].any()
    assert (accepted == expected).mean() >= 0.9
    assert 0.2 < expected.mean() < 0.98  # the model does pose the question
    assert samples(store).mean() < N / 3
    assert samples(store).max() <= N


def test_a_grid_of_radii_gives_a_radius_on_the_grid(model, data, fixed, tmp_path):
    grid = [0.0, 0.25, 0.5, 0.75, 1.0]
    store = certify_with(model, data, tmp_path, radii=grid, **SETTINGS)
    tested, full = read_store(store.folder), read_store(fixed.folder)
    assert set(tested.radius) <= set(grid)
    assert len(set(tested.radius)) >= 4
    floor = np.array([max((r for r in grid if r <= radius), default=0.0) for radius in full.radius])
    assert (tested.radius == floor).mean() > 0.7
    assert np.abs(tested.radius - floor).max() <= 0.25
    assert samples(store).mean() < 0.7 * N


def test_tolerance_gives_nearly_the_radius_of_fixed_n(model, data, fixed, tmp_path):
    store = certify_with(model, data, tmp_path, tolerance=0.3, **SETTINGS)
    found, full = read_store(store.folder), read_store(fixed.folder)
    assert samples(store).mean() < 0.8 * N
    assert full.radius.mean() - 0.25 < found.radius.mean() < full.radius.mean() + 0.01
    assert (full.radius - found.radius).max() < 0.45


def test_skipping_wrong_inputs_changes_neither_certified_accuracy_nor_acr(
    model, data, fixed, tmp_path
):
    store = certify_with(model, data, tmp_path, skip_wrong=True, **SETTINGS)
    found, full = read_store(store.folder), read_store(fixed.folder)
    assert average_certified_radius(found) == average_certified_radius(full)
    radii = [0.0, 0.25, 0.5, 0.75, 1.0]
    assert list(certified_accuracy(found, radii)) == list(certified_accuracy(full, radii))
    assert found.radius[found.correct].tolist() == full.radius[full.correct].tolist()
    skipped = samples(store) == 0
    assert 0.02 < skipped.mean() < 0.6
    assert (
        found.predict[np.argsort([int(row["idx"]) for row in store.rows()])][skipped] == -1
    ).all()  # no claim


def test_simultaneous_certificates_spend_alpha_over_the_inputs(model, data, tmp_path):
    """Over all inputs of the index set, also if this process takes a part of them."""
    settings = {**SETTINGS, "n": 200, "selection": Selection(max=10, shard=1, shards=2)}
    store = certify_with(model, data, tmp_path, simultaneous=True, **settings)
    found = read_store(store.folder)
    assert found.rows == 5
    tau = store.manifest().procedure.tau
    assert (
        found.p_lower.tolist()
        == bounds.lower_bound(top_counts(store), 200, 0.001 / 10, tau).tolist()
    )
    identity = store.manifest().described
    assert (identity["alpha"], identity["alpha_each"]) == (0.001, 0.001 / 10)


def test_stages_extend_each_other_whatever_the_batch_size(data):
    model = SumOfPixels(8000)
    image = torch.from_numpy(data.image(3))
    whole = SmoothedClassifier(model, CertifyConfig(SIGMA), batch_size=256).count(
        image, 900, "estimation", 3
    )
    for size in (7, 100, 256):
        smoothed = SmoothedClassifier(
            model, CertifyConfig(SIGMA, n=900, tolerance=0.0), batch_size=size
        )
        cuts = [0, 20, 25, 400, 401, 900]
        pieces = [
            smoothed.count(image, b, "estimation", 3, first=a) for a, b in itertools.pairwise(cuts)
        ]
        assert sum(pieces).tolist() == whole.tolist()
    certificate = smoothed.certify(image, 3)
    used = int(certificate.counts.sum())
    assert certificate.counts.tolist() == smoothed.count(image, used, "estimation", 3).tolist()


def test_shards_and_batch_sizes_change_no_row(model, data, tmp_path):
    settings = {**SETTINGS, "n": 500, "radii": [0.0, 0.25]}
    tables = []
    for place, shards, size in ((tmp_path / "a", 1, 256), (tmp_path / "b", 2, 50)):
        for shard in range(shards):
            selection = Selection(every=100, shard=shard, shards=shards)
            store = certify_with(
                model, data, place, **{**settings, "selection": selection, "batch_size": size}
            )
        skip = COLUMNS.index("time")
        tables.append(sorted(row[:skip] + row[skip + 1 :] for row in cells(store)))
    assert tables[0] == tables[1]


class Plane(nn.Module):
    """Two classes split by a plane through grey: p_A = Phi(margin / sigma) for an image at that distance from it."""

    def forward(self, x):
        score = (x[:, 0] - 0.5).mean((1, 2)) * 8  # 64 pixels: the unit normal is 1/8 everywhere
        return torch.stack([score, -score], 1)


def test_known_margins_are_told_apart_with_a_hundredth_of_the_samples():
    radius, n, trials = 0.25, 100_000, 40
    margins = np.concatenate(
        [np.linspace(-0.2, 0.2, trials // 2), np.linspace(0.3, 0.9, trials // 2)]
    )
    smoothed = SmoothedClassifier(
        Plane(), CertifyConfig(0.25, noise="float", n=n, radii=(radius,)), batch_size=512
    )
    used, answers = [], []
    for index, margin in enumerate(margins):
        image = torch.full((1, 8, 8), 0.5 + float(margin) / 8)
        certificate = smoothed.certify(image, index)
        used.append(int(certificate.counts.sum()))
        answers.append((certificate.predict, certificate.radius))
    # a far negative margin selects the other class, and certifies it; at -0.2 its radius 0.2 is too small
    assert answers == [(-1, 0.0)] * (trials // 2) + [(0, radius)] * (trials // 2)
    assert np.mean(used) < n / 100


def test_false_claims_at_the_threshold_itself_are_as_rare_as_stated():
    """The one simulation here, of the whole chain: at p = p0 exactly, acceptance is a false claim."""
    alpha, trials = 0.1, 300
    image = torch.full((1, 8, 8), 0.5 + 0.2 / 8)
    smoothed = SmoothedClassifier(
        Plane(),
        CertifyConfig(0.25, noise="float", seed=0, n=300, alpha=alpha, radii=(0.2000001,)),
        batch_size=128,
    )
    accepted = [smoothed.certify(image, trial).radius > 0 for trial in range(trials)]
    assert (
        stats.binom.ppf(0.0001, trials, 0.7 * alpha)
        <= sum(accepted)
        <= stats.binom.ppf(0.9999, trials, alpha)
    )


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        ({}, {"radii": [0.25]}, "radii: None there, .0.25. asked"),
        ({"radii": [0.25]}, {"radii": [0.25, 0.5]}, "radii"),
        ({"radii": [0.25]}, {}, "radii: .0.25. there, None asked"),
        ({"tolerance": 0.1}, {"tolerance": 0.2}, "tolerance"),
        ({}, {"skip_wrong": True}, "skip_wrong"),
        ({"simultaneous": True}, {}, "simultaneous"),
    ],
)
def test_another_procedure_is_refused(model, data, tmp_path, first, second, key):
    settings = {**SETTINGS, "n": 200, "selection": Selection(max=1)}
    certify_with(model, data, tmp_path, **settings, **first)
    certify_with(model, data, tmp_path, **settings, **first)  # its own is taken up again
    with pytest.raises(StoreError, match=key):
        certify_with(model, data, tmp_path, **settings, **second)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"radii": [0.25], "tolerance": 0.1}, "exclude each other"),
        ({"radii": [5.0]}, "cannot be certified with n = 1000"),
        ({"radii": []}, "at least one radius"),
        ({"simultaneous": True, "n": 14}, "cannot certify anything at alpha = 5e-05"),
    ],
)
def test_impossible_procedures_are_refused_before_anything_is_written(
    model, data, tmp_path, wrong, message
):
    with pytest.raises(ConfigError, match=message):
        certify_with(model, data, tmp_path, **{**SETTINGS, **wrong})
    assert not list(tmp_path.iterdir())


def test_status_names_the_procedure(model, data, tmp_path):
    small = Dataset("mine", "test", data.images[:1], data.labels[:1], 10)
    settings = {"sigma": SIGMA, "n0": 20, "n": 100, "batch_size": 64, "quiet": True}
    run = tmp_path / "run"
    run.mkdir()
    (run / "weights.safetensors").touch()
    (run / "model.json").write_text("{}")
    certify_with(
        model, small, run / "certify" / "a", radii=[0.0, 0.25], simultaneous=True, **settings
    )
    certify_with(model, small, run / "certify" / "b", tolerance=0.1, skip_wrong=True, **settings)
    lines = "\n".join(status_lines(run))
    assert "(radii 0 0.25, n at most 100, alpha 0.001, exact noise, all inputs at once)" in lines
    assert "(tolerance 0.1, n at most 100, alpha 0.001, exact noise, wrong inputs skipped)" in lines
