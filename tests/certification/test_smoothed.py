"""PREDICT and CERTIFY against classifiers whose smoothed probabilities and true radii are known in closed form."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError, DataError, ModelError
from tests.networks import DEVICES, SHAPE, Linear, OnePixel, Returns


@pytest.mark.parametrize("device", DEVICES)
def test_certified_radii_exceed_the_true_radius_at_most_as_often_as_stated(device):
    """A binomial check that can fail: alpha is large, so that violations must show up, but not too often."""
    model, alpha, sigma, trials = Linear().to(device), 0.1, 0.25, 500
    rng = np.random.default_rng(1)
    smoothed = SmoothedClassifier(
        model, CertifyConfig(sigma, noise="float", n0=20, n=256, alpha=alpha), batch_size=256
    )
    violations = 0
    for trial in range(trials):
        margin = float(rng.uniform(0.02, 0.6))
        certificate = smoothed.certify(model.image_at(margin), trial)
        if certificate.predict == 0:
            violations += certificate.radius > margin
        else:  # the other class would be a false claim at any radius
            violations += certificate.predict == 1
    assert violations <= stats.binom.ppf(0.9999, trials, alpha)
    assert violations >= stats.binom.ppf(
        0.0001, trials, alpha / 2
    )  # the bound is nearly used up: the check has power


@pytest.mark.parametrize("device", DEVICES)
def test_certified_radius_approaches_the_true_one(device):
    model = Linear().to(device)
    radii = [
        SmoothedClassifier(model, CertifyConfig(0.25, noise="float", n=n))
        .certify(model.image_at(0.3))
        .radius
        for n in (100, 1_000, 10_000, 200_000)
    ]
    assert radii == sorted(radii)
    assert 0.985 * 0.3 < radii[-1] < 0.3


@pytest.mark.parametrize("device", DEVICES)
def test_integer_noise_certifies_the_same_radius(device):
    model = Linear().to(device)
    image = (model.image_at(0.3) * 255).round().to(torch.uint8)
    margin = float((((image.float() / 255) - 0.5) * model.w).sum())
    certificate = SmoothedClassifier(model, CertifyConfig(0.25, n=200000)).certify(image)
    assert 0.985 * margin < certificate.radius < margin
    assert certificate.predict == certificate.selected == 0
    assert certificate.counts0.sum() == 100
    assert certificate.counts.sum() == 200_000


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("noise", ["uniform", "laplace", "exact"])
@pytest.mark.parametrize("level", [140, 200])
def test_other_noise_certifies_up_to_the_true_margin(device, noise, level):
    image = torch.full((1, 2, 2), level, dtype=torch.uint8, device=device)
    margin = (level - 127.5) / 255

    def certify(**more):
        config = CertifyConfig(0.25, noise=noise, n0=5_000, n=200_000, **more)
        return SmoothedClassifier(OnePixel().to(device), config, device=device).certify(image)

    certificate = certify()
    assert 0.96 * margin - 0.004 < certificate.radius < margin
    assert certificate.norm == ("l2" if noise == "exact" else "l1")
    tested = certify(radii=(0.5 * margin, 1.2 * margin))
    assert (tested.predict, tested.radius, tested.norm) == (0, 0.5 * margin, certificate.norm)
    assert 0.8 * margin - 0.02 < certify(tolerance=0.01).radius < margin


def test_the_class_comes_from_the_selection_samples_alone():
    """At the plane the selected class is a coin flip of the selection stage, whatever the estimation stage says."""
    model = Linear()
    smoothed = SmoothedClassifier(
        model, CertifyConfig(0.25, noise="float", n0=1, n=1000), batch_size=256
    )
    certificates = [smoothed.certify(model.image_at(0.0), i) for i in range(40)]
    assert {c.selected for c in certificates} == {0, 1}
    for c in certificates:
        assert c.selected == int(np.argmax(c.counts0))
    assert any(c.selected != int(np.argmax(c.counts)) for c in certificates)


def test_near_the_plane_certify_and_predict_abstain():
    model = Linear()
    smoothed = SmoothedClassifier(model, CertifyConfig(0.25, noise="float", n=1000))
    certificate = smoothed.certify(model.image_at(0.0005))
    assert (certificate.predict, certificate.radius, certificate.abstained) == (-1, 0.0, True)
    assert smoothed.predict(model.image_at(0.0005)) == -1
    assert smoothed.predict(model.image_at(0.3)) == 0
    assert smoothed.predict(model.image_at(-0.3)) == 1


def test_predict_is_wrong_at_most_as_often_as_stated():
    model, alpha, trials = Linear(), 0.2, 400
    smoothed = SmoothedClassifier(
        model, CertifyConfig(0.25, noise="float", n=64, alpha=alpha), batch_size=64
    )
    answers = [smoothed.predict(model.image_at(0.01), i) for i in range(trials)]
    assert answers.count(1) <= stats.binom.ppf(0.9999, trials, alpha)
    assert 0 < answers.count(0) < trials  # it does answer, and it does abstain


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (torch.full(SHAPE, float("nan")), "NaN or infinite pixels"),
        (torch.full(SHAPE, float("inf")), "NaN or infinite pixels"),
        (torch.full(SHAPE, 1.5), r"expected pixels in \[0,1\], found 1.5 to 1.5"),
        (torch.full(SHAPE, -0.1), r"expected pixels in \[0,1\], found -0.1"),
        (torch.zeros(2, *SHAPE), r"one image of shape \[C, H, W\], found shape \[2, 1, 8, 8\]"),
        (torch.zeros(8, 8), r"found shape \[8, 8\]"),
        (torch.zeros(SHAPE, dtype=torch.int64), "found torch.int64"),
        (torch.full(SHAPE, 0.1234567), "needs an 8-bit image"),
        (np.full(SHAPE, np.nan), "NaN or infinite pixels"),
        (torch.zeros(1, 0, 8), r"found shape \[1, 0, 8\]"),
        (np.array([[[None]]]), "expected an image of uint8"),
    ],
)
def test_bad_images_are_refused(image, message):
    for call in ("certify", "predict"):
        with pytest.raises(DataError, match=message):
            getattr(SmoothedClassifier(Linear(), CertifyConfig(0.25, n=100)), call)(image)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 9}, "cannot certify anything at alpha = 0.001"),
        ({"n": 100, "alpha": 0.0}, "alpha is a failure probability"),
        ({"n": 100, "alpha": 1.5}, "alpha is a failure probability"),
        ({"n": 100, "n0": 0}, "n0"),
        ({"n": 1e3}, "must be a whole number"),
    ],
)
def test_bad_sample_numbers_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        SmoothedClassifier(Linear(), CertifyConfig(0.25, **arguments)).certify(torch.zeros(SHAPE))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": -0.5}, "sigma"),
        ({"sigma": float("nan")}, "sigma"),
        ({"classes": 1}, "at least 2 classes"),
        ({"simultaneous": True}, "certify_dataset"),
        ({"noise": "gauss"}, "noise is one of exact, .*, found 'gauss'"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def make(sigma=0.25, noise="exact", simultaneous=False, **more):
    return SmoothedClassifier(
        Linear(), CertifyConfig(sigma, noise=noise, simultaneous=simultaneous), **more
    )


def test_what_needs_a_whole_set_or_settings_is_refused():
    image = torch.zeros(SHAPE, dtype=torch.uint8)
    with pytest.raises(DataError, match="labels"):
        SmoothedClassifier(Linear(), CertifyConfig(0.25, skip_wrong=True)).certify(image)
    with pytest.raises(DataError, match="a label for each of 1 images, found 2"):
        make().certify_many([image], [0], [0, 1])
    with pytest.raises(ConfigError, match=r"CertifyConfig\(sigma=0.5\), found 0.25"):
        SmoothedClassifier(Linear(), 0.25)


@pytest.mark.parametrize("classes", [2, 3, 1000])
def test_classes_are_counted_from_the_logits(classes):
    net = Returns(lambda x: torch.nn.functional.pad(x.flatten(1)[:, :2], (0, classes - 2)))
    image = torch.zeros(SHAPE, dtype=torch.uint8)
    certificate = SmoothedClassifier(net, CertifyConfig(0.25, n=100)).certify(image)
    assert certificate.counts.shape == (classes,)


def sometimes_nan(x):
    logits = x.flatten(1)[:, :2].clone()
    logits[logits[:, 0] > 1.2] = float("nan")  # only some noisy copies
    return logits


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: torch.zeros(len(x), 3), r"\[64, 2\].*\[64, 3\]"),
        (lambda x: (torch.zeros(len(x), 2), None), "tuple"),
        (lambda x: torch.zeros(1, 2), r"\[1, 2\]"),
        (lambda x: torch.zeros(len(x), 1), r"\[64, 2\].*\[64, 1\]"),
        (sometimes_nan, "returned NaN for"),
        (nn.Conv2d(3, 4, 3), r"could not take a float32 batch of shape \[64, 1, 8, 8\]"),
        (nn.Linear(8, 2).double(), r"could not take a float32 batch"),
        (lambda x: {}[len(x)], r"could not take a float32 batch"),
    ],
)
@pytest.mark.parametrize("batch_size", [64, None])
def test_bad_models_are_refused(make, message, batch_size):
    config = CertifyConfig(0.5, n0=64, n=640)
    smoothed = SmoothedClassifier(Returns(make), config, classes=2, batch_size=batch_size)
    if batch_size is None:
        message = message.replace("64", r"\d+")
    with pytest.raises(ModelError, match=message):
        smoothed.certify(torch.full(SHAPE, 0.0, dtype=torch.float32))


def test_the_model_is_evaluated_in_eval_mode():
    model = nn.Sequential(nn.Dropout(0.9), Linear())
    model.train()
    smoothed = SmoothedClassifier(model, CertifyConfig(0.25, noise="float", seed=0, n=1000))
    image = model[1].image_at(0.3)
    assert (
        smoothed.certify(image).radius
        == SmoothedClassifier(Linear(), CertifyConfig(0.25, noise="float", seed=0, n=1000))
        .certify(image)
        .radius
    )


@pytest.mark.parametrize(
    ("model", "found"), [("lenet", "str"), (None, "NoneType"), (Linear, "the class Linear")]
)
def test_what_cannot_be_called_on_a_batch_is_refused(model, found):
    with pytest.raises(
        ModelError,
        match=rf"expected the model to be a torch.nn.Module, or a function .*found {found}",
    ):
        SmoothedClassifier(model, CertifyConfig(0.5))
