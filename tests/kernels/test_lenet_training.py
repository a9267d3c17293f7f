"""The fast training of LeNet gives PyTorch's logits and gradients, ties and zeros included."""

import copy
import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton")

from smoothcert.attacks.ascent import smoothed_gradient
from smoothcert.attacks.objectives import frozen
from smoothcert.data.batches import Batch
from smoothcert.errors import ModelError
from smoothcert.kernels.lenet.entry import LENET
from smoothcert.kernels.lenet.training import FastLeNetTraining, _index, features
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.models import build_model
from smoothcert.models.normalise import Normalise

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Tolerances of logits and of gradients. TF32 has 10 bits, so that other positions win some of the poolings, which moves
# a gradient by a pixel; the interpreter computes in float32 whatever is asked.
PRECISIONS = (
    {"ieee": (1e-5, 1e-5), "tf32": (5e-3, 0.1)} if DEVICE == "cuda" else {"tf32": (1e-5, 1e-5)}
)
SHAPES = [(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,)]


def plain_features(x, w1, b1, w2, b2):
    a = F.max_pool2d(F.relu(F.conv2d(x, w1, b1)), 2)
    return F.max_pool2d(F.relu(F.conv2d(a, w2, b2)), 2).flatten(1)


def lenet(normalised=False):
    model = build_model("lenet", seed=0).to(DEVICE)
    if normalised:
        model[0] = Normalise([0.13], [0.31]).to(DEVICE)
    return model


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def integers(low, high, shape, seed):
    return (
        torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))
        .float()
        .to(DEVICE)
    )


def batch(size):
    generator = torch.Generator(DEVICE).manual_seed(5)
    labels = torch.arange(size, device=DEVICE)
    return Batch(integers(0, 256, (size, 1, 28, 28), 7) / 255, labels, labels, generator)


def assert_near(found, expected, tolerance):
    """Relative to the length of what is expected: single values may be sums that cancel."""
    assert found.shape == expected.shape
    assert (found - expected).norm() <= tolerance * expected.norm() + 1e-7


@pytest.fixture(autouse=True)
def full_float32():
    """The judge shall be better than what it judges."""
    with torch.backends.cudnn.flags(allow_tf32=False):
        yield


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("size", "normalised"), [(1, False), (5, True)])
def test_logits_and_all_gradients(size, normalised, precision):
    model = lenet(normalised)
    fast = FastLeNetTraining(model, precision)
    x = randn(size, 1, 28, 28).requires_grad_()
    weight = randn(size, 10, seed=1)
    found, expected = fast(x), model(x)
    near, near_gradient = PRECISIONS[precision]
    assert_near(found, expected, near)
    wanted = [x, *model.parameters()]
    pairs = zip(
        torch.autograd.grad((found * weight).sum(), wanted),
        torch.autograd.grad((expected * weight).sum(), wanted),
        strict=True,
    )
    for mine, theirs in pairs:
        assert_near(mine, theirs, near_gradient)


@pytest.mark.parametrize("filters", ["integers", "zeros"])
def test_ties_go_to_the_first_maximum_and_zeros_stop_gradients(filters):
    """Small integers, so that equal sums are equal in any order and at any precision."""
    x = torch.cat([torch.zeros(1, 1, 28, 28), torch.ones(1, 1, 28, 28)]).to(DEVICE)
    x = torch.cat([x, integers(0, 3, (1, 1, 28, 28), 0)]).requires_grad_()
    low, high = (-1, 2) if filters == "integers" else (0, 1)
    w1, w2 = (
        integers(low, high, SHAPES[0], 1).requires_grad_(),
        integers(low, high, SHAPES[2], 2).requires_grad_(),
    )
    b1, b2 = (
        integers(-1, 2, SHAPES[1], 3).requires_grad_(),
        integers(-1, 2, SHAPES[3], 4).requires_grad_(),
    )
    inputs = [x, w1, b1, w2, b2]
    found, expected = features(*inputs, _index().to(DEVICE)), plain_features(*inputs)
    assert torch.equal(found, expected)
    weight = integers(-2, 3, (3, 800), 5)
    pairs = zip(
        torch.autograd.grad(found, inputs, weight),
        torch.autograd.grad(expected, inputs, weight),
        strict=True,
    )
    for mine, theirs in pairs:
        assert torch.allclose(mine, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("needed", [(0,), (1,), (2, 3), (4,)])
def test_only_what_is_needed_has_a_gradient(needed):
    inputs = [randn(2, 1, 28, 28), *(0.2 * randn(*shape, seed=i) for i, shape in enumerate(SHAPES))]
    for i in needed:
        inputs[i].requires_grad_()
    weight = randn(800, 2).T  # not contiguous
    expected = torch.autograd.grad(plain_features(*inputs), [inputs[i] for i in needed], weight)
    features(*inputs, _index().to(DEVICE), "ieee").backward(weight)
    for i, gradient in zip(needed, expected, strict=True):
        assert_near(inputs[i].grad, gradient, 1e-5)
    assert [i for i, value in enumerate(inputs) if value.grad is not None] == list(needed)


def test_not_a_number_stays_one():
    x = randn(1, 1, 28, 28)
    x[0, 0, 9, 13] = float("nan")
    inputs = [x, *(0.2 * randn(*shape, seed=i) for i, shape in enumerate(SHAPES))]
    found, expected = features(*inputs, _index().to(DEVICE)), plain_features(*inputs)
    assert 0 < expected.isnan().sum() < expected.numel()
    # a zero of the filters as written out times not-a-number is one too: neighbours may have it, none may lose it
    assert found[expected.isnan()].isnan().all()


def test_attacks_freeze_and_use_the_wrapped_model():
    model = lenet().train()
    model[1].fc2.bias.requires_grad_(False)
    fast = FastLeNetTraining(model, "ieee")
    assert [id(p) for p in fast.parameters()] == [id(p) for p in model.parameters()]
    data, noise = batch(2), randn(2, 2, 1, 28, 28)
    with frozen(fast):
        assert not model.training
        assert not any(p.requires_grad for p in model.parameters())
        found = smoothed_gradient(fast, data.labels, noise)(data.images)
        expected = smoothed_gradient(model, data.labels, noise)(data.images)
    assert_near(found, expected, 1e-5)
    assert model[1].training
    assert [p.requires_grad for p in model.parameters()] == [True] * 7 + [False]
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "size"),
    [({"name": "gaussian"}, 3), ({"name": "smoothmix", "noises": 2, "steps": 2, "alpha": 0.5}, 1)],
    ids=["gaussian", "smoothmix"],
)
def test_a_step_of_a_method_is_that_of_the_plain_model(settings, size):
    plain, method = lenet(), build_method(settings)
    before = {key: value.clone() for key, value in plain.state_dict().items()}
    wrapped = copy.deepcopy(plain)
    for model, used in ((plain, plain), (wrapped, FastLeNetTraining(wrapped, "ieee"))):
        optimizer = torch.optim.SGD(used.parameters(), lr=0.1)
        method.loss(used, batch(size), 0.5, Progress(20, 90)).total.backward()
        optimizer.step()
        assert model[1].conv1.weight.grad is not None
    for key, value in plain.state_dict().items():
        assert_near(wrapped.state_dict()[key] - before[key], value - before[key], 1e-3)


def test_other_networks_and_images_are_refused():
    assert LENET.why_not_training(lenet()) is None
    assert LENET.why_not_training(lenet(normalised=True)) is None
    assert LENET.why_not_training(lenet().double()) == "made for float32"
    assert LENET.why_not_training(nn.Sequential(nn.ReLU(), lenet()[1])) == "an unknown first layer"
    with pytest.raises(ModelError, match=r"not a LeNet of this package.*train it as it is"):
        FastLeNetTraining(nn.Linear(2, 2))
    with pytest.raises(
        ModelError, match=r"float32 images \[B, 1, 28, 28\], found torch.float32 \[2, 1, 32, 32\]"
    ):
        FastLeNetTraining(lenet())(torch.zeros(2, 1, 32, 32))


@pytest.mark.cuda
def test_a_captured_step_sees_new_parameters():
    model = lenet()
    fast, x, labels = (
        FastLeNetTraining(model),
        randn(8, 1, 28, 28).requires_grad_(),
        torch.arange(8, device="cuda"),
    )

    def gradients():
        return torch.autograd.grad(F.cross_entropy(fast(x), labels), [x, *model.parameters()])

    gradients()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = gradients()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    graph.replay()
    for mine, theirs in zip(captured, gradients(), strict=True):
        assert_near(
            mine, theirs, 1e-5
        )  # a library may choose other kernels for the linear layers in a graph
