"""LeNet's kernels against the plain network: by Triton's interpreter where there is no GPU."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.certification.audit import Audit
from smoothcert.certification.counting import FusedCounter, Request
from smoothcert.certification.network import Network
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import load_dataset
from smoothcert.models import build_model
from smoothcert.models.normalise import Normalise
from smoothcert.noise.streams import NoisyCopies
from smoothcert.runs.folder import RunFolder
from smoothcert.verification.unpack import unpack
from tests.networks import whole_images, whole_numbers

pytest.importorskip("triton")
from smoothcert.kernels.lenet import sampling as lenet
from smoothcert.kernels.lenet.entry import LENET
from smoothcert.kernels.lenet.sampling import FastLeNet
from smoothcert.kernels.prepare import Prepared, arithmetic, plain_network
from smoothcert.noise.exact import place_of
from smoothcert.noise.fused import FusedNoise
from smoothcert.statistics.laws import law_named

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = (1, 28, 28)
PACK = Path(__file__).parents[2] / "results" / "mnist-gaussian-0.50.zip"


def noisy(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, *SHAPE, generator=generator) + 0.5 * torch.randn(
        count, *SHAPE, generator=generator
    )


def run(net, batch):
    x = net.inputs(len(batch))
    x.copy_(batch)
    return net(x).clone()


@pytest.mark.parametrize(
    ("dtype", "error"),
    # Triton's interpreter has no products of bfloat16
    [(torch.float16, 2e-3), pytest.param(torch.bfloat16, 2e-2, marks=pytest.mark.cuda)],
)
@pytest.mark.parametrize("classes", [2, 10, 17])
def test_logits_are_those_of_the_plain_network(dtype, error, classes):
    model = build_model("lenet", classes, seed=1).to(DEVICE).eval()
    batch = noisy(9).to(DEVICE, dtype)
    with torch.no_grad():
        expected = model(batch.float())
    found = run(FastLeNet(model, dtype, DEVICE), batch)
    assert found.shape == expected.shape
    assert (found - expected).norm() < error * expected.norm()


def test_a_normalisation_in_front_is_part_of_the_first_layer():
    plain = build_model("lenet", seed=1)
    model = nn.Sequential(Normalise([0.1307], [0.3081]), plain[1]).to(DEVICE).eval()
    batch = noisy(4).to(DEVICE, torch.float16)
    with torch.no_grad():
        expected = model(batch.float())
    assert (
        run(FastLeNet(model, torch.float16, DEVICE), batch) - expected
    ).norm() < 2e-3 * expected.norm()


# The interpreter multiplies by NumPy, whose sums round by a row's place: there only whole numbers have the same bits.
BITS = pytest.mark.parametrize(
    ("model", "batch"),
    [
        pytest.param(whole_numbers(build_model("lenet")), whole_images(9, *SHAPE), id="whole"),
        pytest.param(build_model("lenet", seed=1), noisy(9), id="floats", marks=pytest.mark.cuda),
    ],
)


@BITS
def test_an_image_gets_the_same_bits_in_any_batch(model, batch):
    net, batch = FastLeNet(model, torch.float16, DEVICE), batch.to(DEVICE)
    whole = run(net, batch)
    assert len(whole.unique(dim=0)) == len(batch)
    for first, last in itertools.combinations(range(len(batch) + 1), 2):
        assert torch.equal(whole[first:last], run(net, batch[first:last]))


@BITS
def test_less_shared_memory_means_the_same_bits(monkeypatch, model, batch):
    batch = batch.to(DEVICE)
    expected = run(FastLeNet(model, torch.float16, DEVICE), batch)
    monkeypatch.setattr(lenet, "_capacity", lambda device: (3, 100_000))
    assert torch.equal(run(FastLeNet(model, torch.float16, DEVICE), batch), expected)


def test_huge_activations_stay_finite():
    """Beyond float16 values saturate; an infinity would meet the zeros of the written-out filters and become NaN."""
    model = build_model("lenet", seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 300
    assert run(FastLeNet(model, torch.float16, DEVICE), noisy(3).to(DEVICE)).isfinite().all()


class Similar(type(build_model("lenet")[1])):
    """A LeNet with another forward."""


@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (build_model("resnet8"), SHAPE, "not a LeNet"),
        (build_model("lenet")[1], SHAPE, "not a LeNet"),
        (nn.Sequential(nn.Identity(), Similar()), SHAPE, "not a LeNet"),
        (nn.Sequential(nn.Flatten(), build_model("lenet")[1]), SHAPE, "first layer"),
        (build_model("lenet"), (1, 32, 32), "images"),
        (build_model("lenet", 65), SHAPE, "64 classes"),
    ],
)
def test_what_the_kernels_cannot_stand_for(model, shape, reason):
    assert reason in LENET.why_not_sampling(model, shape)


class Standardised(nn.Conv2d):
    def forward(self, x):
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return nn.functional.conv2d(x, weight, self.bias)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("conv1", Standardised(1, 20, 5)),
        ("conv1", nn.Conv2d(1, 20, 5, bias=False)),
        ("fc1", nn.Sequential(nn.Linear(800, 500))),
        ("fc2", nn.Sequential(nn.Linear(500, 10))),
        ("fc2", nn.Linear(500, 10, bias=False)),
    ],
)
def test_other_layers_under_the_same_names_are_seen(name, layer):
    model = build_model("lenet")
    setattr(model[1], name, layer)
    assert "layers" in LENET.why_not_sampling(model, SHAPE)
    assert "layers" in LENET.why_not_training(model)


def test_hooks_and_damaged_weights_are_left_to_the_plain_network():
    assert LENET.why_not_sampling(build_model("lenet"), SHAPE) is None
    hooked = build_model("lenet")
    hooked[1].conv1.register_forward_hook(lambda *_: None)
    assert "hooks" in LENET.why_not_sampling(hooked, SHAPE)
    damaged = build_model("lenet")
    damaged[1].fc1.weight.data[0, 0] = torch.nan
    assert "not finite" in LENET.why_not_sampling(damaged, SHAPE)


@pytest.mark.long
def test_counts_of_several_images_at_once_are_those_of_each_sample_alone():
    """Requests of different lengths, stages and starts share batches: every vote must land in its own row."""
    model = build_model("lenet", seed=0)
    with torch.no_grad():  # votes must be spread, or a vote in the wrong row could not show
        model[1].fc2.bias -= model(noisy(64)).mean(0)
    images = [
        torch.from_numpy(np.random.default_rng(k).integers(0, 256, SHAPE, dtype=np.uint8))
        for k in range(3)
    ]
    images = [image.to(DEVICE) for image in images]
    fast = LENET.sampling(model, SHAPE, DEVICE, torch.float16)
    prepared = Prepared(
        fast,
        fast.inputs,
        "float16",
        (LENET.title,),
        batch_size=fast.batch_size,
        any_batch=True,
        spread=1.0,
    )
    settings = {"sigma": 0.5, "mode": "exact", "seed": 4}
    plain = plain_network(model.to(DEVICE), SHAPE, DEVICE)
    audit = Audit(prepared, plain, torch.zeros(32, *SHAPE, device=DEVICE))
    counter = FusedCounter(images, Network(prepared, 10, audit, None), **settings)
    requests = [
        Request(0, 11, "selection", 0, 5),
        Request(2, 12, "estimation", 7, 20),
        Request(1, 13, "estimation", 0, 1),
        Request(0, 11, "estimation", 3, 9),
    ]
    counts = counter.count(requests, 16)
    assert counts.sum(1).tolist() == [5, 13, 1, 6]
    for request, row in zip(requests, counts, strict=True):
        noise, expected = FusedNoise(law_named("gaussian"), 0.5, 4, DEVICE), np.zeros(10, int)
        for sample in range(request.first, request.last):
            place = place_of(images[request.image].cpu(), request.index, request.stage)
            x, word = prepared.inputs(1), noise.words([(place, 100)])
            at = torch.tensor([sample], dtype=torch.int32, device=DEVICE)
            noise.fill(x, images[request.image][None], word, torch.zeros_like(at), at)
            expected[int(prepared.forward(x).argmax())] += 1
        assert row.tolist() == expected.tolist()
    assert (counts > 0).sum() > 6
    assert (counter.count(requests, 7) == counts).all()
    assert (counter.count(requests[::-1], 100)[::-1] == counts).all()


@pytest.fixture
def trained(tmp_path):
    """The network of the run that is packed in results/."""
    return RunFolder(unpack(PACK, tmp_path)).load_model()[0]


@pytest.mark.long
def test_a_trained_network_answers_alike_in_half_precision(trained):
    """At least 99.9 % of the samples, of images that it is sure of and of others."""
    data, count = load_dataset("mnist-mini", "test"), 100 if DEVICE.type == "cpu" else 20_000
    model = trained.to(DEVICE).eval()
    net, agree = FastLeNet(model, torch.float16, DEVICE), []
    for index in range(10):
        image = torch.from_numpy(np.array(data.image(index))).to(DEVICE)
        noisy = NoisyCopies(image, 0.5, "exact", seed=0, index=index, stage="estimation").take(
            0, count
        )
        with torch.no_grad(), arithmetic("float32"):
            agree.append(run(net, noisy).argmax(1) == model(noisy).argmax(1))
    assert torch.cat(agree).float().mean() >= 0.999


@pytest.mark.cuda
def test_radii_of_half_precision_are_those_of_float32_within_the_monte_carlo_error(trained):
    """The same noise goes through both networks, so radii differ by far less than two independent runs would."""
    data, indices, n = load_dataset("mnist-mini", "test"), range(40), 20_000
    images = [data.image(i) for i in indices]
    half, full = (
        SmoothedClassifier(
            trained, CertifyConfig(0.5, precision=precision, n=n), device="cuda"
        ).certify_many(images, indices)
        for precision in ("float16", "float32")
    )
    for a, b in zip(half, full, strict=True):
        assert np.abs(a.counts - b.counts).sum() <= 2 * 0.001 * n
        assert a.radius == pytest.approx(b.radius, abs=0.02)
        assert (a.selected, a.abstained) == (b.selected, b.abstained)
