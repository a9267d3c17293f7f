"""Counts: which samples there are does not depend on batches, on memory, or on how many come later."""

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.certification.batch_size import choose_batch_size
from smoothcert.certification.counting import forward_size
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.errors import ModelError
from smoothcert.models import build_model
from smoothcert.noise.streams import NoisyCopies
from tests.networks import DEVICES, SHAPE, Linear, SumOfPixels, assert_few_flips


def undecided(arch, image, **options):
    """An untrained network whose votes are spread: the hard case, where any difference in rounding would flip some."""
    model = build_model(arch, seed=0, **options).eval()
    noise = torch.randn(256, *image.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        last = list(model.modules())[-1]
        last.bias -= model(torch.from_numpy(image) / 255 + 0.5 * noise).mean(0)
    return model


STAGES = (("selection", 100), ("estimation", 150), ("estimation", 600))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_each_copy_is_counted_once_in_batches_of_any_size(shape, device):
    """More samples extend the same stream: nothing depends on how many come later."""
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8))
    expected = []
    for stage, n in STAGES:
        noisy = NoisyCopies(image, 0.5, "exact", seed=0, index=3, stage=stage).take(0, n)
        sums = (noisy.double() * 255).round().long().flatten(1).sum(1)
        expected.append(torch.bincount(sums % 10, minlength=10).tolist())
    image = image.to(device)
    for size in (None, 1, 7, 32, 100, 512):
        smoothed = SmoothedClassifier(
            SumOfPixels(), CertifyConfig(0.5, seed=0), batch_size=size, device=device
        )
        found = [smoothed.count(image, n, stage, 3).tolist() for stage, n in STAGES]
        assert found == expected


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("arch", "options", "shape", "sizes", "n"),
    [
        ("lenet", {}, (1, 28, 28), (1, 7, 32, 100, 512), 600),
        ("resnet8", {"normalisation": "cifar10"}, (3, 32, 32), (5, 64, 100), 150),
    ],
)
def test_few_votes_depend_on_the_batch_size(arch, options, shape, sizes, n, device):
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    model, x = undecided(arch, image, **options).to(device), torch.from_numpy(image).to(device)
    first, *others = [
        SmoothedClassifier(model, CertifyConfig(0.5), batch_size=size).count(x, n, "estimation", 3)
        for size in sizes
    ]
    assert (first > 0).sum() > 2
    for found in others:
        assert_few_flips(found, first)


@pytest.mark.parametrize(
    ("count", "batch", "size"),
    [
        (1, 1, 32),
        (7, 7, 32),
        (32, 32, 32),
        (100, 100, 100),
        (40, 100, 64),
        (100, 512, 128),
        (90, 100, 100),
        (9, 10, 32),
    ],
)
def test_short_batches_are_padded_to_round_shapes(count, batch, size):
    assert forward_size(count, batch) == size


class Greedy(nn.Module):
    """Really runs out of memory above 64 inputs, as a large network on a small device does."""

    def __init__(self):
        super().__init__()
        self.tried = []

    def forward(self, x):
        self.tried.append(len(x))
        if len(x) > 64:
            torch.empty(2**50)
        return x.flatten(1)[:, :2]


def test_out_of_memory_halves_the_batch_and_changes_no_count():
    image = torch.full(SHAPE, 128, dtype=torch.uint8)
    model = Greedy()
    smoothed = SmoothedClassifier(model, CertifyConfig(0.5), batch_size=512)
    smoothed.prepare(image)
    model.tried.clear()
    counts = smoothed.count(image, 1000, "estimation", 0)
    assert smoothed.batch_size == 64
    assert model.tried[:4] == [512, 256, 128, 64]
    assert (
        counts.tolist()
        == SmoothedClassifier(Greedy(), CertifyConfig(0.5), batch_size=40)
        .count(image, 1000, "estimation", 0)
        .tolist()
    )
    assert (
        choose_batch_size(Greedy(), lambda count: torch.zeros(count, *SHAPE), torch.device("cpu"))
        <= 64
    )


def test_memory_too_small_for_the_fewest_copies_is_said():
    class Starved(nn.Module):
        def forward(self, x):
            torch.empty(2**50)

    with pytest.raises(ModelError, match="out of memory with 32 noisy copies"):
        SmoothedClassifier(Starved(), CertifyConfig(0.5), batch_size=128).count(
            torch.zeros(SHAPE), 100, "estimation", 0
        )


def test_numpy_indices_draw_the_noise_of_plain_ones():
    model = Linear()
    smoothed = SmoothedClassifier(model, CertifyConfig(0.25, noise="float", n=500))
    image = model.image_at(0.1)
    plain, numpy = (smoothed.certify(image, index) for index in (3, np.int64(3)))
    assert plain.counts.tolist() == numpy.counts.tolist()
