"""A ResNet in attacks and in training against the plain network; by Triton's interpreter without a GPU."""

import copy

import pytest
import torch

from smoothcert.attacks.ascent import pgd, smoothed_gradient
from smoothcert.attacks.objectives import frozen
from smoothcert.errors import ModelError
from smoothcert.models import build_model
from tests.kernels.networks import with_statistics

pytest.importorskip("triton")
from smoothcert.kernels.cifar_resnet import conv, norm
from smoothcert.kernels.cifar_resnet.entry import CIFAR_RESNET
from smoothcert.kernels.cifar_resnet.training import FastResNetTraining
from smoothcert.kernels.generic.training import Autocast
from smoothcert.kernels.prepare import arithmetic
from smoothcert.kernels.trainable import products

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """Each program takes Triton's interpreter long, however much it computes."""
    if DEVICE.type == "cpu":
        monkeypatch.setattr(conv, "_TILES", dict.fromkeys((16, 32, 64), conv.Tile(2, 4)))
        monkeypatch.setattr(norm, "_WIDE", {"ROWS": 16, "COLUMNS": 4096})


def networks(dtype=torch.float32, name="resnet14"):
    model = with_statistics(build_model(name, normalisation="cifar10", seed=0)).to(DEVICE)
    model.to(memory_format=torch.channels_last)
    plain = model if dtype == torch.float32 else Autocast(model)
    return model, FastResNetTraining(model, plain, dtype)


def inputs(count=3, size=16 if DEVICE.type == "cuda" else 8):
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(count, 3, size, size, generator=generator).to(DEVICE)
    noise = 0.25 * torch.randn(2, count, 3, size, size, generator=generator).to(DEVICE)
    return images, torch.arange(count, device=DEVICE) % 10, noise


def gradients(network, images, labels, noise):
    with frozen(network), arithmetic("float32"):
        return smoothed_gradient(network, labels, noise)(images)


def distance(found, expected):
    return float((found - expected).norm() / expected.norm())


def error(float32, tf32):
    """What is allowed: on a GPU, convolutions have TF32 products."""
    return tf32 if DEVICE.type == "cuda" else float32


def test_logits_and_input_gradients_are_those_of_the_plain_network():
    model, fast = networks()
    images, labels, noise = inputs()
    with frozen(fast), torch.no_grad(), arithmetic("float32"):
        assert distance(fast(images), model(images)) < error(1e-5, 0.002)
    found, expected = (gradients(network, images, labels, noise) for network in (fast, model))
    assert distance(found, expected) < error(1e-4, 0.1)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_gradients_are_as_near_to_float64_as_those_of_cudnn(precision):
    """Of the input in an attack, and of the parameters in training."""
    model, fast = networks(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    exact, plain = (
        copy.deepcopy(model).cpu().double(),
        copy.deepcopy(model),
    )  # float64 is slow on a GPU
    plain = Autocast(plain) if precision == "bfloat16" else plain
    single = inputs(32, 32)
    double = single[0].cpu().double(), single[1].cpu(), single[2].cpu().double()
    found = []
    for network, (images, labels, noise) in ((exact, double), (plain, single), (fast, single)):
        with products(DEVICE, precision):
            with frozen(network):
                attack = smoothed_gradient(network, labels, noise)(images)
            network.train().zero_grad()
            torch.nn.functional.cross_entropy(network(images + noise[0]), labels).backward()
        parameters = torch.cat([parameter.grad.flatten() for parameter in network.parameters()])
        found.append((attack.cpu().double(), parameters.cpu().double()))
    for expected, cudnn, ours in zip(*found, strict=True):
        assert distance(ours, expected) < 2 * distance(cudnn, expected) < 1


@pytest.mark.long  # in the interpreter
def test_half_precision_is_near():
    """In training, too. The interpreter multiplies the bits of bfloat16, not their values."""
    model, fast = networks(torch.bfloat16 if DEVICE.type == "cuda" else torch.float16)
    images, labels, noise = inputs(64, 32) if DEVICE.type == "cuda" else inputs()
    with frozen(fast), torch.no_grad(), arithmetic("float32"):
        assert distance(fast(images), model(images)) < 0.05
    found, expected = (gradients(net, images, labels, noise).flatten(1) for net in (fast, model))
    assert torch.cosine_similarity(found, expected).mean() > 0.9
    twin, weights = copy.deepcopy(model), []
    for network in (fast, twin):
        with arithmetic("float32"):
            torch.nn.functional.cross_entropy(network.train()(images), labels).backward()
        weights.append(torch.cat([parameter.grad.flatten() for parameter in network.parameters()]))
    assert torch.cosine_similarity(*weights, dim=0) > 0.8


@pytest.mark.long  # in the interpreter
def test_a_whole_attack_ends_where_the_plain_one_does():
    model, fast = networks()
    images, labels, noise = inputs()
    settings = {"epsilon": 0.5, "steps": 2}
    with arithmetic("float32"):
        ends = [
            pgd(
                net,
                images,
                labels,
                noise,
                generator=torch.Generator(DEVICE).manual_seed(0),
                **settings,
            )
            for net in (model, fast)
        ]
    assert distance(ends[1] - images, ends[0] - images) < error(1e-3, 0.2)


def test_training_is_that_of_the_plain_network():
    """Logits, gradients and moving statistics, of two steps."""
    model, fast = networks()
    twin = copy.deepcopy(model)
    images, labels, _ = inputs()
    logits = []
    for network in (fast, twin):
        optimizer = torch.optim.SGD(network.parameters(), 0.01)
        network.train()
        with arithmetic("float32"):
            for _ in range(2):
                optimizer.zero_grad()
                logits.append(network(images))
                torch.nn.functional.cross_entropy(logits[-1], labels).backward()
                optimizer.step()
    for ours, plain in zip(logits[:2], logits[2:], strict=True):
        assert distance(ours.detach(), plain.detach()) < error(1e-4, 0.05)
    for (name, one), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert distance(one.grad, other.grad) < error(1e-2, 0.5), name
    for (name, one), other in zip(model.named_buffers(), twin.buffers(), strict=True):
        assert distance(one.double(), other.double()) < error(1e-4, 0.02), name


def mixed(model):
    """One BatchNorm in eval mode, the others in training."""
    model.train()[1].bn1.eval()


def one_trains(model):
    model.eval().requires_grad_(False)[1].bn1.train()


def wants_gradients(model):
    model.eval().requires_grad_(True)


def cumulative(model):
    """Momentum None, as when statistics are made anew."""
    model.train()[1].bn1.momentum = None


@pytest.mark.parametrize("state", [mixed, one_trains, wants_gradients, cumulative])
def test_in_any_other_state_the_plain_network_runs(state):
    model, fast = networks()
    state(model)
    twin = copy.deepcopy(model)
    images = inputs()[0].requires_grad_()
    with arithmetic("float32"):
        found, expected = fast(images), twin(images)
    assert torch.equal(found, expected)
    for (name, one), other in zip(model.named_buffers(), twin.named_buffers(), strict=True):
        assert torch.equal(one, other[1]), name
    if next(model.parameters()).requires_grad:
        ours, plain = (
            torch.autograd.grad(y.sum(), n[1].conv1.weight)[0]
            for y, n in ((found, model), (expected, twin))
        )
        assert torch.equal(ours, plain)


def test_no_images_at_all():
    _, fast = networks()
    none = inputs()[0][:0]
    assert fast.train()(none).shape == (0, 10)
    with frozen(fast):
        assert fast(none).shape == (0, 10)


@pytest.mark.parametrize("train", [True, False])
def test_an_autocast_around_it_changes_nothing(train):
    _, fast = networks(name="resnet8")
    images = inputs()[0]
    fast.train(train).requires_grad_(train)
    with arithmetic("float32"):
        expected = fast(images)
        with torch.autocast(DEVICE.type, torch.bfloat16):
            assert torch.equal(fast(images), expected)


def test_new_parameters_are_used_at_once():
    model, fast = networks(name="resnet8")
    images, _, _ = inputs()
    with frozen(fast), torch.no_grad(), arithmetic("float32"):
        before = fast(images)
        model[1].layer1[0].conv1.weight.mul_(2)
        model[1].bn1.running_mean.add_(0.1)
        assert distance(fast(images), before) > 0.05
        assert distance(fast(images), model(images)) < error(1e-5, 0.002)


def changed(change):
    model = build_model("resnet8")
    change(model[1])
    return model


def exchanged(**settings):
    def change(net):
        net.conv1 = torch.nn.Conv2d(3, 16, 3, **{"padding": 1, "bias": False, **settings})

    return change


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (build_model("lenet"), "not a CIFAR ResNet"),
        (changed(lambda net: setattr(net.bn1, "eps", 1e-3)), "layers"),
        (changed(lambda net: setattr(net, "bn1", torch.nn.GroupNorm(4, 16))), "layers"),
        (changed(lambda net: setattr(net, "fc", torch.nn.Sequential(net.fc))), "layers"),
        (changed(lambda net: net.layer1.__setitem__(0, torch.nn.Identity())), "layers"),
        (changed(exchanged(bias=True)), "layers"),
        (changed(exchanged(padding_mode="reflect")), "layers"),
        (changed(exchanged(dilation=2, padding=2)), "layers"),
        (changed(lambda net: net.layer1[0].register_forward_hook(lambda *_: None)), "hooks"),
        (changed(lambda net: net.layer1[0].register_full_backward_hook(lambda *_: None)), "hooks"),
        (changed(lambda net: net.double()), "float32"),
    ],
)
def test_what_it_cannot_stand_for(model, reason):
    assert reason in CIFAR_RESNET.why_not_training(model)
    with pytest.raises(ModelError, match="train it as it is"):
        FastResNetTraining(model, model, torch.float32)


def test_what_it_stands_for():
    assert CIFAR_RESNET.why_not_training(build_model("resnet8")) is None
    assert CIFAR_RESNET.why_not_training(build_model("resnet8", 100, "cifar10")) is None
