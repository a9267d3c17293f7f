"""The first layer: exact constants, outside the state dict, transparent to gradients."""

import numpy as np
import pytest
import torch

from smoothcert.errors import ConfigError, ModelError
from smoothcert.models import NORMALISATIONS, Normalise, build_model
from smoothcert.models.normalise import InputForm, input_form, normalisation_layer
from tests.refusals import cases

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
    torch.testing.assert_close(
        x.grad, (1 / torch.tensor(CONSTANTS["cifar10"][1])).view(3, 1, 1).expand_as(x)
    )

    (pixels,) = torch.autograd.grad(
        build_model("resnet8", normalisation="cifar10").eval()(x).square().sum(), x
    )
    assert pixels.abs().amax(dim=(1, 2, 3)).min() > 0


def test_grey_image_is_not_broadcast_to_colour():
    with pytest.raises(ModelError, match=r"3 channels, found images \[2, 1, 32, 32\]"):
        normalisation_layer("cifar10")(torch.zeros(2, 1, 32, 32))


def test_unknown_name_offers_the_nearest():
    with pytest.raises(ConfigError, match="unknown normalisation 'cifar-10': did you mean cifar10"):
        normalisation_layer("cifar-10")


def test_repr_shows_the_constants():
    assert "std=None" in repr(Normalise((0.5,)))
    assert "mean=[0.5], std=[0.25]" in repr(Normalise((0.5,), (0.25,)))


# --- what a network expects, in numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("range=-1,1", lambda x: 2 * x - 1),
        ("range=0,255", lambda x: 255 * x),
        ("mean=0.5 std=0.25", lambda x: (x - 0.5) / 0.25),
        ("mean=0.1,0.2,0.3", lambda x: x - np.float32([0.1, 0.2, 0.3]).reshape(3, 1, 1)),
        (
            "range=0,255 mean=124,116,104 std=58",
            lambda x: (255 * x - np.float32([124, 116, 104])[:, None, None]) / 58,
        ),
        ("std=2,4,8", lambda x: x / np.float32([2, 4, 8]).reshape(3, 1, 1)),
    ],
)
def test_a_form_in_numbers(text, expected):
    x = torch.rand(2, 3, 4, 5)
    assert input_form(text).text() == input_form(input_form(text).text()).text()
    found = normalisation_layer(text)(x).numpy()
    np.testing.assert_allclose(found, expected(x.numpy().astype(np.float64)), rtol=1e-5, atol=1e-4)


def test_a_form_says_what_it_is():
    form = InputForm((0.5,), (0.25,), (-1.0, 1.0), (8, 6))
    assert input_form(form.text()) == form
    assert InputForm().text() == "none"
    assert input_form("imagenet") == InputForm(*NORMALISATIONS["imagenet"])


def test_the_size_that_a_network_looks_at():
    """Constant images stay constant, and each image is resized alone."""
    layer = normalisation_layer("size=8x6 range=-1,1")
    x = torch.full((2, 3, 4, 3), 0.75)
    torch.testing.assert_close(layer(x), torch.full((2, 3, 8, 6), 0.5))
    rows = torch.rand(4, 1, 16, 16)
    torch.testing.assert_close(layer(rows)[2:3], layer(rows[2:3]))
    kept = torch.rand(1, 1, 8, 6)
    assert layer[0](kept) is kept


@pytest.mark.parametrize(
    ("text", "message"),
    cases("""
        mean=a                 | a normalisation is a name
        mean                   | unknown normalisation 'mean'
        men=0.5                | a normalisation is a name
        range=1,0              | low then high
        range=0,inf            | low then high
        range=0                | a normalisation is a name
        std=0                  | std above 0
        std=nan                | std above 0
        mean=0.5,0.5 std=1,1,1 | one value, or one per channel
        size=0x4               | height x width
        size=4                 | a normalisation is a name
    """),
)
def test_forms_that_cannot_be(text, message):
    with pytest.raises(ConfigError, match=message):
        normalisation_layer(text)
