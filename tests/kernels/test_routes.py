"""Gradients of several passes through the blocks of a ResNet; by Triton's interpreter without a GPU."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton")
from smoothcert.kernels.prepare import arithmetic
from tests.kernels import test_cifar_resnet_training as resnet
from tests.kernels.test_cifar_resnet_training import distance, error, few_programs, inputs

__all__ = ["few_programs"]  # a fixture


def networks():
    return resnet.networks(name="resnet8")


@pytest.mark.parametrize("backward_passes", [1, 2])
def test_gradients_of_two_passes_are_added_up(backward_passes):
    model, fast = networks()
    twin = copy.deepcopy(model)
    images, labels, noise = inputs()
    for network in (fast, twin):
        network.train()
        with arithmetic("float32"):
            losses = [
                torch.nn.functional.cross_entropy(network(images + some), labels) for some in noise
            ]
            for loss in losses if backward_passes == 2 else [sum(losses)]:
                loss.backward()
    for (name, found), expected in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert distance(found.grad, expected.grad) < error(1e-4, 0.1), name


def test_passes_whose_gradients_never_went_back_change_nothing_later():
    """Frozen ones, those of a network that is copied then, and those before parameters were replaced."""
    model, fast = networks()
    images, labels, _ = inputs()
    block = model[1].layer1[0]

    def gradient(network):
        network.zero_grad()
        torch.nn.functional.cross_entropy(network.train()(images), labels).backward()
        return network.model[1].layer1[0].conv1.weight.grad

    expected = gradient(fast).clone()
    fast.requires_grad_(False)
    fast.train()(images)
    fast.requires_grad_(True)
    assert distance(gradient(fast), expected) < 1e-6
    fast.train()(images)
    assert distance(gradient(copy.deepcopy(fast)), expected) < 1e-6
    block.conv1.weight = torch.nn.Parameter(block.conv1.weight.detach().clone())
    assert distance(gradient(fast), expected) < 1e-6


def test_gradients_of_blocks_are_added_up_and_kept_together():
    """One sum for all layers, and no copy of what a parameter gets of it."""
    model, fast = networks()
    images, labels, noise = inputs()
    logits = [fast.train()(images + some) for some in noise]
    with Operations() as seen:
        torch.nn.functional.cross_entropy(torch.cat(logits), labels.repeat(2)).backward()
    block = model[1].layer1[0]
    convs, norms = (
        [block.conv1.weight, block.conv2.weight],
        [*block.bn1.parameters(), *block.bn2.parameters()],
    )
    for parameters in (convs, norms):
        assert len({parameter.grad.untyped_storage().data_ptr() for parameter in parameters}) == 1
    shapes = [tuple(shape) for name, shape in seen.found if name == "add"]
    assert (2, 16, 16, 3, 3) in shapes
    assert (16, 16, 3, 3) not in shapes
    assert fast._stages[0][1]._open is None  # what the next step asks for is new


class Operations(TorchDispatchMode):
    """Notes the operations that PyTorch carries out, with the shape of what comes out of them."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.found.append((function.overloadpacket.__name__, out.shape))
        return out
