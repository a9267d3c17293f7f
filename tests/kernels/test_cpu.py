"""Networks rewritten for a CPU against the plain ones, and the threads that share them."""

import copy
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.kernels.generic.cpu import MaxOfFour, for_cpu, workers
from smoothcert.kernels.generic.folding import fold
from smoothcert.kernels.prepare import arithmetic, prepare
from smoothcert.models import build_model
from tests.networks import SumOfPixels, assert_few_flips
from tests.processes import threads

NETWORKS = [
    ("lenet", "none", (1, 28, 28)),
    ("resnet20", "cifar10", (3, 32, 32)),
    ("resnet50", "imagenet", (3, 64, 64)),
]


def network(arch, normalisation):
    model = build_model(arch, 10, normalisation, seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):  # as after training: a fresh one does nothing
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
    return model


def noisy(count, shape):
    generator = torch.Generator().manual_seed(1)
    return torch.rand(count, *shape, generator=generator) + 0.5 * torch.randn(
        count, *shape, generator=generator
    )


def exact(model, x):
    """The logits in float64, and the largest error that `dtype` of `x` costs the plain network."""
    rounded = copy.deepcopy(model).to(x.dtype)(x).double()
    expected = copy.deepcopy(model).double()(x.double())
    return expected, float((rounded - expected).abs().max())


@pytest.mark.parametrize(("arch", "normalisation", "shape"), NETWORKS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_the_same_network(arch, normalisation, shape, dtype):
    model, x = network(arch, normalisation), noisy(4, shape)
    net = for_cpu(fold(copy.deepcopy(model).double(), x[:2].double()).to(dtype))
    assert all(
        w.is_contiguous(memory_format=torch.channels_last) for w in net.parameters() if w.ndim == 4
    )
    expected, error = exact(model, x.to(dtype))
    error += 1e-13 * float(expected.abs().max())  # float64 has none beside itself
    assert float((net(x.to(dtype)) - expected).abs().max()) <= 4 * error


@pytest.mark.parametrize(("arch", "normalisation", "shape"), NETWORKS[:2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_logits_hardly_depend_on_the_batch_or_on_the_number_of_threads(
    arch, normalisation, shape, dtype
):
    model, x = network(arch, normalisation), noisy(168, shape).to(dtype)
    net = for_cpu(fold(copy.deepcopy(model), x[:2].float()).to(dtype))
    expected = net(x)
    near = {"rtol": 0.0, "atol": 4 * exact(model, x)[1]}
    for size in (32, 42, 64, 128, 167):  # powers of two, and the blocks of noise of CIFAR and MNIST
        torch.testing.assert_close(net(x[:size]), expected[:size], **near)
    with workers() as pool:
        alone = pool.submit(torch.inference_mode()(net), x[:64]).result()
    torch.testing.assert_close(alone, expected[:64], **near)


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_max_of_four_is_pooling_bit_for_bit(size, dtype, layout):
    x = torch.randn(3, 5, *size, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[0, 0, 0, 0], x[0, 1, 0, 1], x[1, 0, 1, 0] = float("nan"), float("inf"), float("-inf")
    x[2, 0, :2, :2] = -0.0
    x = x.contiguous(memory_format=layout)
    for pool, expected in (
        (MaxOfFour(relu_after=False), F.max_pool2d(x, 2)),
        (MaxOfFour(relu_after=True), F.max_pool2d(F.relu(x), 2)),
    ):
        found = pool(x)
        assert torch.equal(found.nan_to_num(1e9), expected.nan_to_num(1e9))
        assert found.isnan().any()


class Pooled(nn.Module):
    def __init__(self, rule):
        super().__init__()
        self.conv, self.rule = nn.Conv2d(3, 4, 3), rule
        self.relu, self.pool, self.wide = (
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.MaxPool2d((2, 3)),
        )

    def forward(self, x):
        return self.rule(self, self.conv(x))


def used_twice(self, x):
    y = F.relu(x)
    return F.max_pool2d(y, 2) + y.mean()


def changed_in_place(self, x):
    """The ReLU changes what is used again later."""
    y = F.max_pool2d(F.relu_(x), 2)
    return y + x.mean()


# rule, pools by two comparisons, of those with the ReLU after
POOLS = {
    "modules": (lambda self, x: self.pool(self.relu(x)), 1, 1),
    "functions": (lambda self, x: F.max_pool2d(F.relu(x), 2), 1, 1),
    "all said": (
        lambda self, x: F.max_pool2d(F.relu_(x), (2, 2), (2, 2), (0, 0), (1, 1), False),
        1,
        1,
    ),
    "keywords": (lambda self, x: F.max_pool2d(x.relu(), kernel_size=2, stride=2), 1, 1),
    "torch": (lambda self, x: torch.max_pool2d(torch.relu(x), 2), 1, 1),
    "in a row": (lambda self, x: self.pool(self.pool(self.relu(x))), 2, 1),
    "no relu": (lambda self, x: self.pool(x), 1, 0),
    "relu after": (lambda self, x: F.relu(self.pool(x)), 1, 0),
    "relu used twice": (used_twice, 1, 0),
    "relu in place, seen": (changed_in_place, 1, 0),
    "another activation": (lambda self, x: self.pool(torch.tanh(x)), 1, 0),
    "three wide": (lambda self, x: F.max_pool2d(F.relu(x), 3, 2), 0, 0),
    "not square": (lambda self, x: self.wide(self.relu(x)), 0, 0),
    "overlapping": (lambda self, x: F.max_pool2d(F.relu(x), 2, 1), 0, 0),
    "padded": (lambda self, x: F.max_pool2d(x, 2, padding=1), 0, 0),
    "dilated": (lambda self, x: F.max_pool2d(x, 2, 2, 0, 2), 0, 0),
    "rounded up": (lambda self, x: F.max_pool2d(x, 2, ceil_mode=True), 0, 0),
    "with places": (lambda self, x: F.max_pool2d(x, 2, return_indices=True)[0], 0, 0),
    "mean": (lambda self, x: F.avg_pool2d(F.relu(x), 2), 0, 0),
}


@pytest.mark.parametrize(("rule", "pools", "after"), POOLS.values(), ids=POOLS)
@torch.inference_mode()
def test_only_plain_pooling_is_rewritten(rule, pools, after):
    torch.manual_seed(0)
    model, x = Pooled(rule).double().eval(), noisy(2, (3, 15, 15)).double()
    expected = model(x)
    net = for_cpu(fold(model, x))
    torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)
    found = [module for module in net.modules() if isinstance(module, MaxOfFour)]
    assert (len(found), sum(pool.relu_after for pool in found)) == (pools, after)


@pytest.fixture
def three_threads():
    with threads(3):
        yield


@pytest.mark.usefixtures("three_threads")
def test_workers_compute_alone_and_leave_no_trace():
    with workers() as pool:
        assert set(pool.map(lambda _: torch.get_num_threads(), range(8))) == {1}
        assert pool._max_workers == 3
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as pool:  # new threads take their number from the process
        assert pool.submit(torch.get_num_threads).result() == 3


@pytest.mark.usefixtures("three_threads")
def test_an_error_stops_the_workers():
    futures, done, latest = [], [], time.monotonic() + 60

    def work(place):
        if place == 1:
            raise ValueError("no")
        while not (len(futures) == 300 and futures[-1].cancelled()) and time.monotonic() < latest:
            time.sleep(0.001)
        done.append(place)

    def run():
        with workers() as pool:
            futures.extend([pool.submit(work, place) for place in range(300)])
            futures[1].result()

    with pytest.raises(ValueError, match="no"):
        run()
    assert len(done) <= 3  # those that had begun
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("noise", ["exact", "float", "laplace"])
def test_counts_do_not_depend_on_threads(noise):
    image = (noisy(1, (1, 28, 28))[0].clamp(0, 1) * 255).to(torch.uint8)

    def counts(model, size):
        smoothed = SmoothedClassifier(model, CertifyConfig(0.5, noise=noise), batch_size=size)
        assert smoothed.prepare(image).concurrent
        return smoothed.count(image, 1000, "estimation", 3)

    whole, lenet = SumOfPixels(), network("lenet", "none")
    with threads(1):
        expected = [counts(model, 1024) for model in (whole, lenet)]
    assert (expected[1] > 0).sum() > 1
    # blocks of noise hold 167 samples: 100 of them make threads share blocks
    for size in (None, 32, 100, 167):
        assert counts(whole, size).tolist() == expected[0].tolist()
        assert_few_flips(counts(lenet, size), expected[1])


class RemembersItself(nn.Module):
    """Keeps a value on the module between two layers: two threads would read each other's."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        if x.shape[0] < 1:  # cannot be traced
            return x
        self.kept = x.flatten(1)
        return self.fc(self.kept)


def test_only_traced_networks_are_shared_by_threads():
    assert not prepare(RemembersItself(), (1, 8, 8), torch.device("cpu")).concurrent


@pytest.mark.usefixtures("three_threads")
def test_threads_leave_the_settings_of_the_process_as_they_were():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        image = torch.zeros(1, 28, 28, dtype=torch.uint8)
        SmoothedClassifier(network("lenet", "none"), CertifyConfig(0.5), batch_size=32).count(
            image, 2000, "estimation", 0
        )
        assert torch.get_float32_matmul_precision() == "medium"
        with arithmetic("float32"), arithmetic("tf32"):
            assert torch.get_float32_matmul_precision() == "high"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
