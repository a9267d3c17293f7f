"""What the doctor says of networks whose faults are known, and its forecasts against what then happens."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from smoothcert import CertifyConfig, Dataset, SmoothedClassifier, load_dataset
from smoothcert.evaluation.doctor import examine, rows_of
from smoothcert.evaluation.findings import about_noise
from smoothcert.evaluation.noise_levels import Level, best_sigma
from smoothcert.evaluation.outlook import limits_of, samples_expected
from smoothcert.models.normalise import Normalise, normalisation_layer
from smoothcert.runs.folder import RunFolder
from smoothcert.statistics.bounds import lower_bound
from smoothcert.statistics.laws import law_named
from tests.counted import procedure
from tests.data.test_pictures import save
from tests.networks import Linear, OnePixel, Returns, two

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


def errors(diagnosis):
    return " ".join(finding.text for finding in diagnosis.findings if finding.kind == "error")


def test_a_network_trained_with_noise_is_fit(lenet, digits):
    found = said(lenet, digits)
    assert found.fit
    assert kinds(found) == ["fine", "fine", "fine"]
    rows = rows_of(found)
    assert [row["sigma"] for row in rows] == [0.0, 0.12, 0.25, 0.5, 1.0]
    assert rows[0]["accuracy"] > 0.6
    low, high = rows[-1]["accuracy_interval"]
    assert low < rows[-1]["accuracy"] < high
    assert 0.1 < high - low < 0.3  # of 60 images
    for row in rows[1:]:
        assert row["acr_of_one_class"] < row["average_radius"] < row["largest_radius"]
    assert found.advice.startswith("ready: certify it with sigma 0.5")
    assert found.rate > 0
    assert found.seconds == pytest.approx(len(digits) * 1100 / found.rate)
    assert found.radii_seconds < found.seconds


def test_a_wrong_normalisation_is_named(lenet, digits):
    wrong = nn.Sequential(normalisation_layer("mean=0.9 std=0.05"), lenet[1])
    found = said(wrong, digits)
    assert not found.fit
    assert "the normalisation looks wrong" in errors(found)
    assert "--input-range 0 1" in errors(found)
    assert found.best is None
    assert found.advice.startswith("not ready: feed the network as in its training")


def test_classes_in_another_order_are_named(lenet, digits):
    order = np.array([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    named = dataclasses.replace(
        digits, labels=order[digits.labels], class_names=tuple("abcdefghij")
    )
    found = said(lenet, named, images=120)
    assert "classes in another order" in errors(found)
    assert "class 3 (d) are answered 0" in errors(found)


class Mixes(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        logits = self.net(x)
        return logits - logits.mean(0)


def test_what_cannot_be_certified_is_an_error(lenet, digits):
    found = said(Mixes(lenet), digits)
    assert "depends on the other images in its batch" in errors(found)
    assert found.limits is None


def test_guessing_is_an_error(digits):
    torch.manual_seed(0)
    found = said(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), digits)
    assert "guessing among 10 classes" in errors(found)


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
    assert "the normalisation looks wrong" in errors(said(wrong, halves, images=300))


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


def test_noise_that_the_network_does_not_know_is_an_error(digits):
    few = dataclasses.replace(digits, images=digits.images[:300], labels=digits.labels[:300])
    found = said(Fragile(few), few)
    assert "not clearly more images would be certified" in errors(found)
    assert "smoothcert denoised" in found.advice


def rough(x):
    """Where there is noise of sigma 0.5 or more."""
    return (x[..., 1:] - x[..., :-1]).abs().mean((1, 2, 3)) > 0.45


def test_noise_that_takes_half_of_the_accuracy_is_a_warning(lenet, digits):
    def half_blind(x):
        logits = lenet(x)
        wrong = rough(x) & (logits.argmax(1) < 6)
        return torch.where(wrong[:, None], logits.roll(1, 1), logits)

    found = said(Returns(half_blind), digits, images=200)
    assert kinds(found) == ["fine", "fine", "warning"]
    assert "was not trained for this noise" in found.findings[-1].text
    assert found.advice.endswith("or take sigma 0.25")


def test_without_labels_nothing_is_said_about_accuracy(lenet, digits):
    plain = dataclasses.replace(digits, labels=np.full(len(digits), -1, np.int64))
    found = said(lenet, plain)
    assert found.fit
    assert "no labels" in found.findings[1].text
    assert all(row["accuracy"] is None for row in rows_of(found))
    assert found.best is None


# --- normalisations that answer alike, and networks that answer one class ------------------------------------------


def sides(n=60):
    """Which half of an image is brighter? Whatever is subtracted and whatever divides, the answer stays."""
    rng, labels = np.random.default_rng(0), np.arange(n) % 2
    images = rng.integers(0, 160, (n, 1, 8, 8), dtype=np.uint8)
    images[labels == 0, :, :, :4] += 90
    images[labels == 1, :, :, 4:] += 90
    network = Returns(lambda x: two(x[..., :4].mean((1, 2, 3)) - x[..., 4:].mean((1, 2, 3))))
    return Dataset("sides", "test", images, labels, 2), network


def test_normalisations_that_do_as_well_are_told():
    data, network = sides()
    right = said(nn.Sequential(nn.Identity(), network), data, sigma=0.25)
    assert right.fit
    text = " ".join(finding.text for finding in right.findings)
    assert "--input-range 0 255" in text
    assert "--mean 0.1307 --std 0.3081" in text
    assert "--input-range 0 1" not in text  # that is how it is fed
    wrong = said(nn.Sequential(Normalise([1.0], [-1.0]), network), data, sigma=0.25)
    assert all(option in errors(wrong) for option in ("--input-range 0 1", "--input-range 0 255"))
    assert "cannot tell" in wrong.advice


@pytest.mark.parametrize("labels", [np.arange(60) % 10, np.arange(60) // 57])
def test_a_network_that_answers_one_class_is_never_recommended(labels):
    classes = max(labels) + 1
    found = said(Brightness(classes, answer=0), plain(labels, classes), images=60)
    assert "this network answers one class" in errors(found)
    assert found.best is None
    assert found.advice.startswith("not ready")


def test_one_answer_under_noise_is_an_error_and_a_smaller_sigma_is_named(lenet, digits):
    def confused(x):
        return lenet(x) + 1e3 * rough(x)[:, None] * torch.eye(10)[7]

    found = said(Returns(confused), digits)
    assert "answers one class, class 7" in errors(found)
    assert found.best == 0.25
    assert found.advice.endswith("or take sigma 0.25")


def test_a_classifier_with_one_answer_has_its_own_acr_and_gains_nothing():
    labels, budget = np.arange(200) // 120, (1000, 0.001, law_named("gaussian"))
    levels = [Level(sigma, np.tile([100, 0], (200, 1))) for sigma in (0.25, 1.0)]
    for level in levels:
        acr = level.expected(labels, *budget)[1]
        assert acr == pytest.approx(level.one_class_acr(labels, *budget))
        assert acr > 0.1
    assert best_sigma(levels, labels, *budget) is None


def test_where_one_class_has_the_larger_acr_a_sigma_with_a_smaller_one_is_named():
    margins = np.linspace(0.02, 0.4, 100)
    found = said(Linear(), linear_images([*margins, *-margins]), images=200)
    row = next(row for row in rows_of(found) if row["sigma"] == 0.5)
    assert row["average_radius"] < row["acr_of_one_class"]
    assert kinds(found)[-1] == "warning"
    assert found.best == 0.12
    assert found.advice.endswith("take sigma 0.12")


def test_only_the_pictures_that_are_looked_at_are_opened(tmp_path):
    for i in range(9):
        save(tmp_path / f"{i}.png", seed=i, channels=1)
    (tmp_path / "3.png").write_bytes(b"no picture")
    data = load_dataset(f"folder:{tmp_path}", classes=2)
    found = said(Returns(lambda x: two(x.mean((1, 2, 3)) - 0.5)), data, images=3)
    assert found.fit
    (tmp_path / "8.png").write_bytes(b"no picture")
    assert "8.png: expected a readable picture" in errors(said(Linear(), data, images=3))


# --- forecasts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "alpha"), [(10, 0.001), (57, 0.001), (300, 0.05), (2000, 1e-6)])
def test_what_n_and_alpha_allow(n, alpha):
    counts = np.arange(n + 1)
    certified = counts[lower_bound(counts, n, alpha) > 0.5]
    assert limits_of(0.25, n, alpha, law_named("gaussian")).smallest_p == certified[0] / n


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
    radii = level.expected_radii(100_000, 0.001, law_named("gaussian"))
    assert radii.mean() == pytest.approx(margins.mean(), abs=0.06)
    perfect = Level(0.25, np.tile([100, 0], (3, 1)))
    assert (
        perfect.expected_radii(100_000, 0.001, law_named("gaussian")) < 0.25 * 2.6
    ).all()  # 100 of 100 is no probability of 1


@pytest.mark.parametrize(("noise", "norm_of"), [("uniform", 0.866), ("laplace", 3.142)])
def test_radii_and_limits_are_those_of_the_law_of_the_noise(noise, norm_of):
    """In l1 norm the true radius of a threshold on one pixel is that pixel's distance from it."""
    values = np.array([160, 180, 200, 220])
    images = np.zeros((4, 1, 2, 2), np.uint8)
    images[:, 0, 0, 0] = values
    data = Dataset("pixel", "test", images, np.zeros(4, np.int64), 2)
    config = CertifyConfig(sigma=0.5, noise=noise)
    found = examine(OnePixel(), data, config, planned=4, device=CPU, seconds=3.0)
    assert found.limits.largest_radius == pytest.approx(norm_of, abs=1e-3)
    level = next(level for level in found.levels if level.sigma == 0.5)
    radii = level.expected_radii(config.n, config.alpha, law_named(noise))
    assert radii.mean() == pytest.approx((values / 255 - 0.5).mean(), abs=0.06)


def test_the_forecast_of_samples_is_near_what_certify_takes():
    margins = np.linspace(0.05, 0.45, 9)
    data, settings = linear_images(margins), {"n": 20_000, "alpha": 0.001}
    smoothed = SmoothedClassifier(Linear(), CertifyConfig(0.25, radii=(0.25,), seed=0, **settings))
    taken = [smoothed.certify(data.image(i), i).counts.sum() for i in range(len(margins))]
    test = procedure(**settings, sigma=0.25, radii=(0.25,))
    expected = samples_expected(test.stopping, norm.cdf(margins / 0.25))
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
        (2, [0, 1] * 20, 20, None, "error", "guessing among 2 classes"),
        (2, [0] * 92 + [1] * 8, 0, None, "fine", ""),  # nearly all answers are one class, rightly
        (2, [0] * 57 + [1] * 3, 0, 0, "error", "answers one class"),
        (2, [0] * 57 + [1] * 3, 0, None, "warning", "too few"),
        (
            2,
            [1] * 6 + [0] * 50 + [1] * 4,
            12,
            None,
            "warning",
            "not clearly more than the 83.3 % of the most frequent label",
        ),
        (2, [1], 0, None, "warning", "too few to tell it from guessing"),
        (200, range(0, 200, 3), 0, None, "fine", ""),
        (
            200,
            range(0, 200, 3),
            67,
            None,
            "error",
            "guessing among 200 classes",
        ),  # not: another order, one image each
    ],
)
def test_errors_are_not_luck(classes, labels, wrong, answer, worst, words):
    found = said(
        Brightness(classes, answer), plain(labels, classes, wrong), sigma=0.004, images=100
    )
    order = ("fine", "warning", "error")
    assert max(kinds(found), key=order.index) == worst, found.findings
    assert words in " ".join(finding.text for finding in found.findings if finding.kind == worst)
    assert "another order" not in errors(found)


def test_no_finding_calls_nearly_all_all_or_few_none():
    """10,000 images of two classes, 4 of which a network that knows the clean ones answers wrongly under noise."""
    labels = np.arange(10_000) % 2
    perfect = np.eye(2, dtype=np.int64)[labels]
    data = Dataset("two", "test", np.zeros((10_000, 1, 1, 1), np.uint8), labels, 2)

    def about(wrong):
        counts = perfect.copy()
        counts[:wrong] = counts[:wrong, ::-1]
        noisy = Level(0.5, 100 * counts)
        found = about_noise(
            Level(0.0, perfect), noisy, labels, None, data, 1000, 0.001, law_named("gaussian")
        )
        return " ".join(finding.text for finding in found)

    assert all("100.0 %" not in about(wrong) for wrong in (1, 4))
    assert "99.96 %" in about(4)
    assert "0.04 %" in about(9_996)
