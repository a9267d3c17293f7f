"""Networks as people have them: functions, answers with `.logits`, and the images of a DataLoader."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

from smoothcert import CertifyConfig, SmoothedClassifier, certify_loader
from smoothcert.errors import DataError, ModelError
from smoothcert.report import read_store
from tests.networks import SHAPE, Linear, Returns, assert_few_flips

LINEAR = Linear()
CONFIG = CertifyConfig(sigma=0.25, n=500, seed=3)


def with_logits(x):
    return SimpleNamespace(logits=LINEAR(x), hidden_states=None)


@pytest.mark.parametrize(
    "model", [LINEAR.forward, with_logits, Returns(with_logits)], ids=["function", "object", "both"]
)
def test_any_callable_gets_the_certificate_of_the_network_in_it(model):
    image = (LINEAR.image_at(0.3) * 255).round().clamp(0, 255).to(torch.uint8)
    found, expected = (
        SmoothedClassifier(m, replace(CONFIG, n=2000)).certify(image) for m in (model, LINEAR)
    )
    assert found.predict == expected.predict
    assert_few_flips(found.counts, expected.counts)
    assert 0.2 < found.radius < 0.3 + 1e-2


def test_a_function_that_mixes_images_is_refused():
    mixing = SmoothedClassifier(lambda x: LINEAR(x - x.mean(0)), CONFIG)
    with pytest.raises(ModelError, match="depends on the other images"):
        mixing.certify(torch.zeros(SHAPE, dtype=torch.uint8))


@pytest.fixture
def images():
    margins = np.linspace(-0.4, 0.4, 6)
    return torch.stack(
        [(LINEAR.image_at(float(m)) * 255).round().clamp(0, 255) / 255 for m in margins]
    )


def test_a_loader_is_certified_in_its_order(tmp_path, images):
    labels = torch.tensor([1, 1, 1, 0, 0, 0])
    data, settings = TensorDataset(images, labels), {"classes": 2, "quiet": True}
    store = certify_loader(
        LINEAR, DataLoader(data, batch_size=4), tmp_path / "a", CONFIG, **settings
    )
    found = read_store(store.folder)
    assert found.idx.tolist() == list(range(6))
    assert found.predict.tolist() == labels.tolist()
    again = certify_loader(LINEAR, DataLoader(data), tmp_path / "a", CONFIG, **settings)
    assert (
        again.done() == store.done()
    )  # whatever the batches: the same data, so the store is complete


@pytest.mark.parametrize(
    "order",
    [
        {"shuffle": True},
        {"sampler": SubsetRandomSampler([0, 1])},
        {"sampler": WeightedRandomSampler([1, 2], 2)},
    ],
)
def test_a_shuffled_loader_is_refused(tmp_path, images, order):
    loader = DataLoader(TensorDataset(images, torch.zeros(6, dtype=torch.int64)), **order)
    with pytest.raises(DataError, match="shuffle=False"):
        certify_loader(LINEAR, loader, tmp_path / "a", CONFIG, classes=2)
    assert not (tmp_path / "a").exists()


def test_images_that_were_normalised_outside_are_refused(tmp_path, images):
    normalised = TensorDataset((images - 0.5) / 0.25, torch.zeros(6, dtype=torch.int64))
    with pytest.raises(DataError, match=r"pixels in \[0, 1\]"):
        certify_loader(LINEAR, DataLoader(normalised), tmp_path / "a", CONFIG, classes=2)


@pytest.mark.parametrize(
    "change", [nn.Module.train, nn.Module.double, lambda m: m.requires_grad_(True)]
)
def test_modes_of_a_module_do_not_matter(change):
    """Train mode is left, and a longer type only adds digits."""
    image = torch.full(SHAPE, 140, dtype=torch.uint8)
    model = change(Linear())
    if next(model.buffers()).dtype == torch.float64:
        model = Returns(lambda x, m=model: m(x.double()))
    found, expected = (SmoothedClassifier(m, CONFIG).certify(image) for m in (model, LINEAR))
    assert found.predict == expected.predict
    assert found.radius == pytest.approx(expected.radius, abs=0.02)


def test_a_store_is_about_a_module_and_whole_batches(tmp_path):
    images, config = torch.zeros(4, 1, 8, 8), CertifyConfig(sigma=0.5, n=50)
    with pytest.raises(ModelError, match="found a function"):
        certify_loader(
            lambda x: x.flatten(1),
            [(images, torch.zeros(4).long())],
            tmp_path / "a",
            config,
            classes=64,
        )
    with pytest.raises(DataError, match=r"one each, found \[4, 3\]"):
        certify_loader(
            torch.nn.Flatten(),
            [(images, torch.zeros(3).long())],
            tmp_path / "a",
            config,
            classes=64,
        )
    assert not (tmp_path / "a").exists()
