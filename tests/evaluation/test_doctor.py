"""What the doctor says of networks whose faults are known, and its forecasts against what then happens."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from smoothcert import CertifyConfig, Dataset, SmoothedClassifier, load_dataset
from smoothcert.evaluation.doctor import examine, rows_of
from smoothcert.evaluation.noise_levels import Level
from smoothcert.evaluation.outlook import limits_of, samples_with_radii
from smoothcert.models.normalise import normalisation_layer
from smoothcert.runs.folder import RunFolder
from smoothcert.statistics.bounds import lower_bound
from tests.networks import Linear

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def lenet(shared_run):
    return RunFolder(shared_run).load_model()[0]


@pytest.fixture(scope="module")
def digits():
    return load_dataset("mnist-mini", "test")


def said(model, data, *, sigma=0.5, images=60, **settings):
    config = CertifyConfig(sigma=sigma, n=1000, **settings)
    return examine(model, data, config, planned=len(data), images=images, device=CPU, seconds=0.3)


def kinds(diagnosis):
    return [finding.kind for finding in diagnosis.findings]


def faults(diagnosis):
    return " ".join(finding.text for finding in diagnosis.findings if finding.kind == "fault")


def test_a_network_trained_with_noise_is_fit(lenet, digits):
    found = said(lenet, digits)
    assert found.fit
    assert kinds(found) == ["fine", "fine", "fine"]
    rows = rows_of(found)
    assert [row["sigma"] for row in rows] == [0.0, 0.12, 0.25, 0.5, 1.0]
    assert rows[0]["accuracy"] > 0.6
    assert all(0 < row["average_radius"] < row["largest_radius"] for row in rows[1:])
    assert found.rate > 0
    assert found.seconds == pytest.approx(len(digits) * 1100 / found.rate)
    assert found.radii_seconds < found.seconds


def test_a_wrong_normalisation_is_named(lenet, digits):
    wrong = nn.Sequential(normalisation_layer("mean=0.9 std=0.05"), lenet[1])
    found = said(wrong, digits)
    assert not found.fit
    assert "the normalisation looks wrong" in faults(found)
    assert "--input-range 0 1" in faults(found)


def test_classes_in_another_order_are_named(lenet, digits):
    order = np.array([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    named = dataclasses.replace(
        digits, labels=order[digits.labels], class_names=tuple("abcdefghij")
    )
    found = said(lenet, named, images=120)
    assert "classes in another order" in faults(found)
    assert "class 3 (d) are answered 0" in faults(found)


class Mixes(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        logits = self.net(x)
        return logits - logits.mean(0)


def test_what_cannot_be_certified_is_a_fault(lenet, digits):
    found = said(Mixes(lenet), digits)
    assert "depends on the other images in its batch" in faults(found)
    assert found.limits is None


def test_guessing_is_a_fault(digits):
    torch.manual_seed(0)
    found = said(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), digits)
    assert "guessing among 10 classes" in faults(found)


class Halves(nn.Module):
    """Is the digit below 5?"""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        logits = self.net(x)
        return torch.stack([logits[:, :5].amax(1), logits[:, 5:].amax(1)], 1)


def test_two_classes_are_not_taken_for_guessing(lenet, digits):
    """Twice the chance of a guess would be all of them."""
    labels = (digits.labels >= 5).astype(np.int64)
    labels[::6] = 1 - labels[::6]  # that the network cannot know
    halves = dataclasses.replace(digits, labels=labels, classes=2, class_names=())
    found = said(nn.Sequential(lenet[0], Halves(lenet[1])), halves)
    assert found.fit
    assert 0.6 < rows_of(found)[0]["accuracy"] < 1
    wrong = nn.Sequential(normalisation_layer("mean=2 std=0.5"), Halves(lenet[1]))
    assert "the normalisation looks wrong" in faults(said(wrong, halves, images=300))


class Fragile(nn.Module):
    """Knows images by the sine of a multiple of their pixels: exactly right on them, blind under noise."""

    def __init__(self, data):
        super().__init__()
        self.register_buffer(
            "known", self.features(torch.from_numpy(data.images[:300]).float() / 255)
        )
        self.register_buffer(
            "labels", torch.nn.functional.one_hot(torch.from_numpy(data.labels[:300])).float()
        )

    def features(self, x):
        return nn.functional.normalize((60 * x).sin().flatten(1))

    def forward(self, x):
        return (50 * self.features(x) @ self.known.T).softmax(1) @ self.labels


def test_noise_that_the_network_does_not_know_is_a_warning(digits):
    few = dataclasses.replace(digits, images=digits.images[:300], labels=digits.labels[:300])
    found = said(Fragile(few), few)
    assert any(
        "was not trained for it" in finding.text
        for finding in found.findings
        if finding.kind == "warning"
    )


def test_without_labels_nothing_is_said_about_accuracy(lenet, digits):
    plain = dataclasses.replace(digits, labels=np.full(len(digits), -1, np.int64))
    found = said(lenet, plain)
    assert found.fit
    assert "no labels" in found.findings[1].text
    assert all(row["accuracy"] is None for row in rows_of(found))
    assert found.best is None


# --- forecasts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "alpha"), [(10, 0.001), (57, 0.001), (300, 0.05), (2000, 1e-6)])
def test_what_n_and_alpha_allow(n, alpha):
    counts = np.arange(n + 1)
    certified = counts[lower_bound(counts, n, alpha) > 0.5]
    assert limits_of(0.25, n, alpha).smallest_p == certified[0] / n


def linear_images(margins):
    """Images of a classifier whose true radii are these margins."""
    images = [
        np.asarray(Linear().image_at(float(m)) * 255).round().clip(0, 255).astype(np.uint8)
        for m in margins
    ]
    return Dataset("plane", "test", np.stack(images), (np.array(margins) < 0).astype(np.int64), 2)


def test_the_forecast_of_radii_is_near_the_true_ones():
    margins = np.linspace(0.02, 0.4, 12)
    found = said(Linear(), linear_images(margins), sigma=0.25, images=12)
    level = next(level for level in found.levels if level.sigma == 0.25)
    assert level.hoped_radii(100_000, 0.001).mean() == pytest.approx(margins.mean(), abs=0.06)
    perfect = Level(0.25, 100, np.tile([100, 0], (3, 1)))
    assert (
        perfect.hoped_radii(100_000, 0.001) < 0.25 * 2.6
    ).all()  # 100 of 100 is no probability of 1


def test_the_forecast_of_samples_is_near_what_certify_takes():
    margins = np.linspace(0.05, 0.45, 9)
    data, settings = linear_images(margins), {"n": 20_000, "alpha": 0.001}
    smoothed = SmoothedClassifier(Linear(), 0.25, 2, seed=0)
    taken = [
        smoothed.certify(data.image(i), index=i, radii=(0.25,), **settings).counts.sum()
        for i in range(len(margins))
    ]
    expected = samples_with_radii(norm.cdf(margins / 0.25), (0.25,), 0.25, 20_000, 0.001)
    assert 0.4 < np.mean(taken) / expected < 2.5
    assert expected < 20_000


# --- few images, few classes, many of one class ------------------------------------------------------------------


class Brightness(nn.Module):
    """Which of some equal steps from black to white an image has on average."""

    def __init__(self, classes, answer=None):
        super().__init__()
        self.steps = nn.Parameter((torch.arange(classes) + 0.5) / classes)
        self.answer = answer

    def forward(self, x):
        mean = x.mean((1, 2, 3))[:, None] if self.answer is None else self.steps[self.answer]
        return -((mean - self.steps) ** 2) + 0 * x.mean((1, 2, 3))[:, None]


def plain(labels, classes, wrong=0):
    """Images of the brightness that belongs to their labels; some get another label then."""
    labels = np.array(labels, np.int64)
    levels = ((labels + 0.5) / classes * 255).round().astype(np.uint8)
    images = np.broadcast_to(levels[:, None, None, None], (len(labels), 1, 4, 4)).copy()
    labels[:wrong] = (labels[:wrong] + 1) % classes
    return Dataset("plain", "test", images, labels, classes)


@pytest.mark.parametrize(
    ("classes", "labels", "wrong", "answer", "worst", "words"),
    [
        (2, [0, 1] * 20, 2, None, "fine", ""),  # 95 % right
        (2, [0, 1] * 20, 20, None, "fault", "guessing among 2 classes"),
        (
            2,
            [0] * 57 + [1] * 3,
            0,
            None,
            "fine",
            "",
        ),  # 95 % of all answers are one class, and rightly so
        (2, [0] * 57 + [1] * 3, 0, 0, "fault", "one and the same class"),
        (
            2,
            [1] * 6 + [0] * 50 + [1] * 4,
            12,
            None,
            "warning",
            "to answer it always would be as good",
        ),
        (2, [1], 0, None, "warning", "too few to tell it from guessing"),
        (200, range(0, 200, 3), 0, None, "fine", ""),
        (
            200,
            range(0, 200, 3),
            67,
            None,
            "fault",
            "guessing among 200 classes",
        ),  # not: another order, one image each
    ],
)
def test_faults_are_not_luck(classes, labels, wrong, answer, worst, words):
    found = said(
        Brightness(classes, answer), plain(labels, classes, wrong), sigma=0.004, images=100
    )
    order = ("fine", "warning", "fault")
    assert max(kinds(found), key=order.index) == worst, found.findings
    assert words in " ".join(finding.text for finding in found.findings if finding.kind == worst)
    assert "another order" not in faults(found)
