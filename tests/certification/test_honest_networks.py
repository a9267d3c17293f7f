"""Networks that treat each image alone are certified, whatever their logits and layers; votes are their own."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.errors import ModelError
from smoothcert.kernels.prepare import prepare
from tests.networks import DEVICES, SHAPE, Returns, two


def per_image(x):
    flat = x.flatten(1)
    return two((((flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True))[:, :5]).sum(1))


def unit_length(x):
    return two((x.flatten(1) / x.flatten(1).norm(dim=1, keepdim=True))[:, :5].sum(1))


def mask_of_two(x):
    return torch.cat([two((x - 0.5).flatten(1).sum(1)), torch.full((len(x), 2), -1e9)], 1)


HONEST = [
    (Returns(per_image), 2),
    (Returns(unit_length), 2),
    (Returns(mask_of_two), 4),
    (Returns(lambda x: two(1e8 * (x - 0.5).flatten(1).sum(1))), 2),
    (Returns(lambda x: two(1e-12 * (x - 0.5).flatten(1).sum(1))), 2),
    (Returns(lambda x: torch.ones(len(x), 2)), 2),
    (Returns(lambda x: F.one_hot(((x - 0.5).flatten(1).sum(1) > 0).long(), 2)), 2),
    (nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), 3),
    (
        Returns(lambda x: two(x.sub_(0.4).mul_(2).flatten(1).sum(1)) if len(x) else x),
        2,
    ),  # changes its input
    (
        nn.Sequential(
            nn.GroupNorm(1, 1),
            nn.InstanceNorm2d(1),
            nn.Flatten(),
            nn.LayerNorm(64),
            nn.Linear(64, 3),
        ),
        3,
    ),
]


@pytest.mark.parametrize(("model", "classes"), HONEST)
@pytest.mark.parametrize("batch_size", [None, 32, 128])
def test_honest_networks_are_not_refused(model, classes, batch_size):
    """Batches are padded with zeros, for which some of them return NaN: only images that count are looked at."""
    image = torch.randint(
        0, 256, SHAPE, dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    smoothed = SmoothedClassifier(model, CertifyConfig(0.25, n0=100, n=1000), batch_size=batch_size)
    assert smoothed.certify(image).counts.sum() == 1000
    assert smoothed.rechecked[1] == 0


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")  # of PyTorch 2.15
@pytest.mark.parametrize(
    "make", [torch.jit.script, lambda net: torch.jit.trace(net, torch.zeros(4, 1, 8, 8))]
)
def test_scripted_networks_are_certified(make):
    smoothed = SmoothedClassifier(
        make(nn.Sequential(nn.Flatten(), nn.Linear(64, 3))), CertifyConfig(0.25, n0=10, n=100)
    )
    assert smoothed.certify(torch.full(SHAPE, 128, dtype=torch.uint8)).counts.sum() == 100


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "score",
    [
        lambda s: torch.sigmoid(20 + s),
        lambda s: s - 1e9,
        lambda s: (1e6 * s).long() + 2**40,
        lambda s: torch.exp(60 * (s + 3)),
    ],
)
def test_votes_are_those_of_the_model_where_32_bits_cannot_tell_its_logits_apart(score, device):
    """Rounded to float32 all classes would be equal, and class 0 certified."""
    model = Returns(
        lambda x: score(torch.stack([x.flatten(1)[:, i].double() for i in range(3)], 1))
    )
    image = torch.zeros(SHAPE, dtype=torch.uint8)
    image[0, 0, 2] = 255
    certificate = SmoothedClassifier(
        model, CertifyConfig(0.25, n0=50, n=1000), device=device
    ).certify(image)
    assert certificate.predict == 2


def test_an_exported_program_has_to_be_wrapped():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).eval()
    program = torch.export.export(net, (torch.zeros(4, 1, 8, 8),)).module()
    with pytest.raises(ModelError, match="wrap it in a"):
        SmoothedClassifier(program, CertifyConfig(0.25, n0=10, n=100)).certify(
            torch.zeros(SHAPE, dtype=torch.uint8)
        )


def test_the_callers_autocast_decides_no_vote():
    """It holds for one thread, and the store would say float32 all the same."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), torch.rand(64, 1, 28, 28)
    ready = prepare(model, (1, 28, 28), torch.device("cpu"))
    expected = ready.forward(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ready.forward(x), expected)


@pytest.mark.parametrize(
    "unlike", [lambda z: z > 0, lambda z: z.to(torch.complex64), torch.Tensor.to_sparse]
)
def test_logits_that_cannot_be_compared_are_refused_in_words(unlike):
    model = Returns(lambda x: unlike(two((x - 0.5).flatten(1).sum(1))))
    with pytest.raises(ModelError, match="dense floats"):
        SmoothedClassifier(model, 0.5, 2).certify(
            torch.full(SHAPE, 140, dtype=torch.uint8), n0=20, n=200
        )
