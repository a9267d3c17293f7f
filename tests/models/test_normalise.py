"""The first layer: exact constants, outside the state dict, transparent to gradients."""

import numpy as np
import pytest
import torch

from smoothcert.errors import ConfigError, ModelError
from smoothcert.models import NORMALISATIONS, Normalise, build_model
from smoothcert.models.normalise import normalisation_layer

# the constants of the published code, written out once more
CONSTANTS = {
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
    "cifar10-mean": ([0.4914, 0.4822, 0.4465], [1, 1, 1]),
    "cifar100": ([0.5071, 0.4867, 0.4408], [0.2675, 0.2565, 0.2761]),
    "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "imagenet-mean": ([0.485, 0.456, 0.406], [1, 1, 1]),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_values_are_exact(name):
    x = torch.rand(2, 3, 4, 5)
    mean, std = (np.float32(c).reshape(3, 1, 1) for c in CONSTANTS[name])
    np.testing.assert_array_equal(normalisation_layer(name)(x).numpy(), (x.numpy() - mean) / std)


def test_none_is_the_identity():
    x = torch.rand(2, 1, 3, 3)
    assert normalisation_layer("none")(x) is x


def test_every_name_is_covered():
    assert set(NORMALISATIONS) == {"none", *CONSTANTS}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_constants_are_not_weights(name):
    layer = normalisation_layer(name)
    assert not layer.state_dict()
    assert not list(layer.parameters())


@pytest.mark.parametrize("std", [None, (0.5,)])
def test_constants_follow_the_model(std):
    layer = Normalise((0.25,), std).to(torch.float64)
    assert layer(torch.ones(1, 1, 1, 1, dtype=torch.float64)).dtype == torch.float64
    assert layer.to("meta").mean.is_meta


def test_gradient_reaches_the_pixels():
    x = torch.rand(2, 3, 32, 32, requires_grad=True)
    layer = normalisation_layer("cifar10")
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, (1 / torch.tensor(CONSTANTS["cifar10"][1])).view(3, 1, 1).expand_as(x))

    (pixels,) = torch.autograd.grad(build_model("resnet8", normalisation="cifar10").eval()(x).square().sum(), x)
    assert pixels.abs().amax(dim=(1, 2, 3)).min() > 0


def test_grey_image_is_not_broadcast_to_colour():
    with pytest.raises(ModelError, match=r"3 channels but got images \[2, 1, 32, 32\]"):
        normalisation_layer("cifar10")(torch.zeros(2, 1, 32, 32))


def test_unknown_name_offers_the_nearest():
    with pytest.raises(ConfigError, match="unknown normalisation 'cifar-10': did you mean cifar10"):
        normalisation_layer("cifar-10")


def test_repr_shows_the_constants():
    assert "std=None" in repr(Normalise((0.5,)))
    assert "mean=[0.5], std=[0.25]" in repr(Normalise((0.5,), (0.25,)))
