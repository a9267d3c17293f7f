"""prepare(): equivalent networks, the steps back to slower ones, and what is written down about them."""

import dataclasses
import threading
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import Dataset, load_dataset
from smoothcert.errors import ConfigError, DataError
from smoothcert.kernels import prepare as prepare_module
from smoothcert.kernels.prepare import Prepared, arithmetic, prepare
from smoothcert.models import build_model
from smoothcert.runs.selection import Selection
from tests.kernels.networks import with_statistics
from tests.networks import SumOfPixels
from tests.results import certify_with

CPU = torch.device("cpu")
CUDA = pytest.mark.cuda


def batch(count, shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, *shape, generator=generator) + 0.5 * torch.randn(
        count, *shape, generator=generator
    )


def logits(prepared, x):
    place = prepared.inputs(len(x))
    place.copy_(x)
    return prepared.forward(place)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])
@pytest.mark.parametrize(
    ("arch", "shape", "normalisation"),
    [
        ("lenet", (1, 28, 28), "none"),
        ("resnet8", (3, 32, 32), "cifar10"),
        ("resnet50", (3, 64, 64), "imagenet"),
    ],
)
def test_float32_stays_the_same_up_to_last_bits(arch, shape, normalisation, device):
    model = with_statistics(build_model(arch, normalisation=normalisation, seed=0)).to(device)
    x = batch(4, shape).to(device)
    with torch.inference_mode(), arithmetic("float32"):
        expected = model(x)
    prepared = prepare(model, shape, torch.device(device), "float32")
    with torch.inference_mode():
        torch.testing.assert_close(
            logits(prepared, x), expected, rtol=2e-4, atol=2e-4 * float(expected.abs().max())
        )
    assert prepared.precision == "float32"
    assert "folded" in prepared.steps


@pytest.mark.parametrize(
    ("device", "precision", "error"),
    [
        ("cpu", "bfloat16", 0.03),
        pytest.param("cuda", "bfloat16", 0.03, marks=CUDA),
        pytest.param("cuda", "float16", 0.01, marks=CUDA),
        pytest.param("cuda", "tf32", 0.01, marks=CUDA),
        pytest.param("cuda", "auto", 0.01, marks=CUDA),
    ],
)
@pytest.mark.parametrize(
    ("arch", "shape", "normalisation"),
    [
        ("lenet", (1, 28, 28), "none"),
        ("resnet20", (3, 32, 32), "cifar10"),
        ("resnet50", (3, 64, 64), "imagenet"),
    ],
)
def test_lower_precision_is_near(arch, shape, normalisation, device, precision, error):
    model = with_statistics(build_model(arch, normalisation=normalisation, seed=0)).to(device)
    x = batch(256 if device == "cuda" else 8, shape).to(device)
    with torch.inference_mode(), arithmetic("float32"):
        expected = model(x)
    prepared = prepare(model, shape, torch.device(device), precision)
    with torch.inference_mode():
        found = logits(prepared, x)
    assert found.dtype == torch.float32
    assert (found - expected).norm() < error * expected.norm()
    assert prepared.precision == ("float16" if precision == "auto" else precision)


class Branching(nn.Module):
    """Cannot be traced: values decide what runs."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        score = (x.flatten(1)[:, :2] * self.scale).float()
        return score if float(x.sum()) > -1e9 else -score


def test_a_network_that_cannot_be_traced_is_used_as_it_is_and_the_reason_kept():
    prepared = prepare(Branching(), (1, 4, 4), CPU)
    x = batch(5, (1, 4, 4))
    assert torch.equal(logits(prepared, x), Branching()(x))
    assert any(reason.startswith("not folded: ") for reason in prepared.skipped)


class Overflows(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        y = self.conv(x) * 1e6  # beyond float16, well inside bfloat16
        return self.fc(y.mean((2, 3))) * 1e-6


@CUDA
def test_a_network_too_large_for_float16_falls_back_to_bfloat16_and_says_so():
    prepared = prepare(Overflows().cuda().eval(), (1, 8, 8), torch.device("cuda"), "auto")
    assert prepared.precision == "bfloat16"
    assert any("float16" in reason for reason in prepared.skipped)


@pytest.mark.parametrize("precision", ["tf32", "float16", "double"])
def test_precisions_a_cpu_does_not_have_are_refused(precision):
    with pytest.raises(ConfigError, match="precision"):
        SmoothedClassifier(build_model("lenet"), CertifyConfig(0.5, precision=precision))


def test_new_weights_make_a_new_network():
    """Preparing copies the weights: a model trained further must not be certified with the old ones."""
    model, image = build_model("lenet", seed=0), torch.zeros(1, 28, 28, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, CertifyConfig(0.5), batch_size=32)
    before = smoothed.count(image, 64, "estimation", 0)
    same = smoothed.prepare(image)
    assert smoothed.prepare(image) is same
    with torch.no_grad():
        model[1].fc2.bias[3] += 100
    after = smoothed.count(image, 64, "estimation", 0)
    assert after[3] == 64 > before[3]


def test_arithmetic_is_given_back_as_it_was():
    torch.set_float32_matmul_precision("medium")
    try:
        with suppress(KeyError), arithmetic("float32"):
            assert torch.get_float32_matmul_precision() == "highest"
            raise KeyError
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])
@pytest.mark.parametrize("settings", [{}, {"radii": [0.0, 0.1, 0.3]}, {"tolerance": 0.1}], ids=str)
@pytest.mark.parametrize("skip", [False, True])
def test_many_at_once_are_certified_as_one_by_one(device, settings, skip):
    data, indices = load_dataset("mnist-mini"), [3, 8, 21, 22]
    # our kernels give an image the same bits in any batch; on a CPU only whole numbers are sure to
    model = SumOfPixels(4000) if device == "cpu" else build_model("lenet", seed=0)
    given = {"n0": 20, "n": 300, "alpha": 0.01, **settings}
    config = CertifyConfig(0.25, skip_wrong=skip, **given)
    smoothed = SmoothedClassifier(model, config, device=device, batch_size=64)
    labels = [int(data.labels[i]) for i in indices]
    images = [data.image(i) for i in indices]
    first = smoothed.certify_many(images[:1], indices[:1], labels[:1])[0]
    labels[0] = first.selected  # one at least is not skipped
    many = smoothed.certify_many(images, indices, labels)
    for image, index, label, found in zip(images, indices, labels, many, strict=True):
        (alone,) = smoothed.certify_many([image], [index], [label])
        assert found.counts.tolist() == alone.counts.tolist()
        assert found.counts0.tolist() == alone.counts0.tolist()
        assert (found.predict, found.radius) == (alone.predict, alone.radius)
    assert many[0].counts.sum() > 0


def test_images_of_different_shapes_are_not_taken_together():
    smoothed = SmoothedClassifier(Branching(), CertifyConfig(0.5))
    images = [torch.zeros(1, 4, 4, dtype=torch.uint8), torch.zeros(1, 4, 5, dtype=torch.uint8)]
    with pytest.raises(DataError, match="one shape"):
        smoothed.certify_many(images, [0, 1])
    with pytest.raises(DataError, match="an index for each"):
        smoothed.certify_many(images, [0])


def test_the_manifest_says_which_network_was_certified(tmp_path):
    data, settings = (
        load_dataset("mnist-mini"),
        {"sigma": 0.5, "n0": 10, "n": 50, "alpha": 0.01, "quiet": True},
    )
    store = certify_with(
        build_model("lenet", seed=0), data, tmp_path, selection=Selection(max=20), **settings
    )
    identity = store.manifest().identity
    assert identity["precision"] == "float32"
    assert identity["prepared"][0] == "folded"
    assert [int(row["idx"]) for row in store.rows()] == list(range(20))  # groups keep the order


def changed_through_data(model):
    model[1].fc2.bias.data[3] += 100


def changed_by_a_hook(model):
    model[1].fc2.register_forward_hook(lambda _, __, logits: logits + 100 * (torch.arange(10) == 3))


def changed_by_an_attribute(model):
    model[1].preferred = 3


class Preferring(type(build_model("lenet")[1])):
    preferred = None

    def __init__(self):
        super().__init__()
        self.preferred = -1

    def forward(self, x):
        return super().forward(x) + (100.0 if self.preferred >= 0 else 0.0) * (
            torch.arange(10) == self.preferred
        )


@pytest.mark.parametrize(
    "change", [changed_through_data, changed_by_a_hook, changed_by_an_attribute]
)
def test_no_change_of_the_model_goes_unseen(change):
    torch.manual_seed(0)
    model, image = (
        nn.Sequential(nn.Identity(), Preferring()),
        torch.zeros(1, 28, 28, dtype=torch.uint8),
    )
    smoothed = SmoothedClassifier(model, CertifyConfig(0.5), batch_size=32)
    assert smoothed.count(image, 64, "estimation", 0)[3] < 64
    change(model)
    assert smoothed.count(image, 64, "estimation", 0)[3] == 64


def test_a_prepared_network_with_other_logits_is_refused_even_if_it_names_the_same_class():
    probe = prepare_module.synthetic_images((1, 8, 8), CPU)
    expected = torch.stack(
        [probe.flatten(1).sum(1) + 100, torch.zeros(len(probe))], 1
    )  # always class 0
    constant = torch.tensor([100.0, 0.0]).expand(len(probe), 2)
    wrong = Prepared(lambda _: constant, lambda n: torch.zeros(n, 1, 8, 8), "float16", ("other",))
    assert "spread" in prepare_module._disagreement(wrong, probe, expected)
    broken = dataclasses.replace(wrong, forward=lambda _: torch.full_like(constant, torch.nan))
    assert prepare_module._disagreement(broken, probe, expected) is not None
    right = dataclasses.replace(wrong, forward=lambda _: expected.clone())
    assert prepare_module._disagreement(right, probe, expected) is None


class Votes(nn.Module):
    """Hard votes, in integers."""

    def forward(self, x):
        return nn.functional.one_hot((x.flatten(1)[:, 0] > 0.5).long(), 2)


class Uncopyable(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.fc = nn.Linear(48, 2)

    def forward(self, x):
        return self.fc(x.flatten(1)) if len(x) else x


@pytest.mark.parametrize("model", [Votes(), Uncopyable()])
def test_odd_networks_are_certified_as_they_are(model):
    certificate = SmoothedClassifier(model, CertifyConfig(0.5, n0=10, n=100)).certify(
        torch.zeros(3, 4, 4, dtype=torch.uint8)
    )
    assert certificate.counts.sum() == 100


def test_reasons_are_kept_but_do_not_decide_whether_a_store_is_the_same(tmp_path):
    settings = {"sigma": 0.5, "n0": 10, "n": 50, "alpha": 0.01, "quiet": True}
    data = Dataset("two", "test", np.zeros((2, 1, 4, 4), np.uint8), np.zeros(2, np.int64), 2)
    for _ in range(2):
        store = certify_with(Votes(), data, tmp_path, **settings)
    assert store.manifest().environment["skipped"]


def test_the_newer_setting_of_products_is_respected():
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        certificate = SmoothedClassifier(
            build_model("lenet", seed=0), CertifyConfig(0.5, n0=10, n=50)
        ).certify(torch.zeros(1, 28, 28, dtype=torch.uint8))
        assert certificate.counts.sum() == 50
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before
