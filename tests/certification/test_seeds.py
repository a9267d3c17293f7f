"""Which noise is drawn: one that nobody chose, unless a seed is asked for."""

import dataclasses
import json

import pytest
import torch
from torch import nn

from smoothcert import CertifyConfig
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.data import load_dataset
from smoothcert.errors import ConfigError, StoreError
from smoothcert.noise.streams import NoisyCopies
from smoothcert.runs.seeds import noise_seed, seed_of_store
from smoothcert.runs.selection import Selection
from smoothcert.verification.verify import verify
from tests.networks import SHAPE
from tests.results import cells, certify_with

SETTINGS = {"sigma": 0.5, "n0": 10, "n": 100, "alpha": 0.01, "quiet": True}


class Product(nn.Module):
    """The sign of <upper half, lower half>: the image decides which noise it likes, with odds of one half."""

    def forward(self, x):
        upper, lower = (x - 128 / 255).flatten(1).chunk(2, 1)
        score = (upper * lower).sum(1)
        return torch.stack([score, -score], 1)


def test_an_image_that_is_made_for_known_noise_gains_nothing():
    """All but the image is known: seed, index and network. Its lower half is then fitted to the noise on the upper one.

    Noise that does not depend on the image gives it a radius, at a true probability of one half.
    """
    grey = torch.full((1, 28, 28), 128, dtype=torch.uint8)
    place = {"seed": 0, "index": 0, "stage": "estimation"}
    noise = NoisyCopies(grey, 0.5, "exact", **place).take(0, 200) - 128 / 255
    image = grey.clone()
    image[:, 14:] = torch.where(noise[:, :, :14].mean(0) > 0, 228, 28)
    known = (Product()(image / 255 + noise).argmax(1) == 0).float().mean()
    assert known > 0.7
    smoothed = SmoothedClassifier(Product(), CertifyConfig(0.5, seed=0))
    assert abs(smoothed.count(image, 200, "estimation", 0)[0] - 100) < 5 * 50**0.5


CONFIG = CertifyConfig(sigma=0.5)


class Recognising(nn.Module):
    """Class 1 by nature, and class 0 on the very samples that a seed gives for index 0 of one image."""

    def __init__(self, image, seed, n):
        super().__init__()
        known = [
            NoisyCopies(image, 0.5, "exact", seed=seed, index=0, stage=stage)
            .take(0, n)
            .flatten(1)[:, :8]
            for stage in ("selection", "estimation")
        ]
        self.register_buffer("known", torch.cat(known))

    def forward(self, x):
        seen = (x.flatten(1)[:, None, :8] == self.known).all(2).any(1).float()
        return torch.stack([2 * seen, torch.ones_like(seen)], 1)


def test_a_network_that_knows_the_samples_of_a_public_seed_gains_nothing():
    image = torch.full(SHAPE, 128, dtype=torch.uint8)
    model = Recognising(image, 0, 1000)
    asked = SmoothedClassifier(
        model, CertifyConfig(0.5, noise="exact", seed=0, n0=100, n=1000)
    ).certify(image)
    assert (asked.predict, asked.radius > 1) == (0, True)  # what it was made for
    for other in ({}, {"seed": 1}):
        assert (
            SmoothedClassifier(model, CertifyConfig(0.5, n0=100, n=1000, **other))
            .certify(image)
            .predict
            == 1
        )


@pytest.mark.parametrize(
    "change",
    [{"sigma": 0.25}, {"n": 1000}, {"n0": 10}, {"alpha": 0.01}, {"noise": "float"}, {"radii": (0.5,)},
     {"tolerance": 0.1}, {"simultaneous": True}],
    ids=str,
)  # fmt: skip
def test_another_experiment_draws_other_noise(change):
    assert seed_of_store(vars(CONFIG), "w", "d") == seed_of_store(vars(CONFIG), "w", "d")
    assert seed_of_store(vars(dataclasses.replace(CONFIG, **change)), "w", "d") != seed_of_store(
        vars(CONFIG), "w", "d"
    )


def test_weights_and_data_decide_and_a_seed_overrules_them():
    seeds = {seed_of_store(vars(CONFIG), *about) for about in (("w", "d"), ("v", "d"), ("w", "e"))}
    assert len(seeds) == 3
    asked = dataclasses.replace(CONFIG, seed=7)
    assert seed_of_store(vars(asked), "w", "d") == seed_of_store(vars(asked), "v", "e") == 7
    assert noise_seed(7, "w") == noise_seed(7, "v") == 7


def test_the_same_command_gives_the_same_rows_and_another_seed_others(tmp_path):
    data, model = load_dataset("mnist-mini"), nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    first, second, other = (
        certify_with(model, data, tmp_path / name, selection=Selection(max=4), **SETTINGS, **more)
        for name, more in (("a", {}), ("b", {}), ("c", {"seed": 51219234445}))
    )
    assert counts(first) == counts(second) != counts(other)
    assert "seed" not in first.manifest().identity
    assert other.manifest().identity["noise_seed"] == 51219234445
    with pytest.raises(StoreError, match="noise_seed"):
        certify_with(model, data, tmp_path / "a", selection=Selection(max=4), **SETTINGS, seed=3)


def counts(store):
    place = store.columns.index("counts")
    return [row[place] for row in cells(store)]


def test_a_store_is_named_by_the_number_that_keyed_its_noise(tmp_path):
    """Whoever asks for the derived seed by its number draws the same noise, and may go on in the store."""
    data, model = load_dataset("mnist-mini"), nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    store = certify_with(
        model, data, tmp_path, selection=Selection(max=4, shard=0, shards=2), **SETTINGS
    )
    seed = store.manifest().identity["noise_seed"]
    certify_with(
        model, data, tmp_path, selection=Selection(max=4, shard=1, shards=2), **SETTINGS, seed=seed
    )
    assert len(store.done()) == 4
    assert verify(store.folder)[0].problems == []


def test_the_largest_seed_makes_a_store_that_is_read_again(tmp_path):
    data, model = load_dataset("mnist-mini"), nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    store = certify_with(
        model, data, tmp_path, selection=Selection(max=2), **SETTINGS, seed=2**63 - 1
    )
    assert verify(store.folder)[0].answer == "verified"


@pytest.mark.parametrize("more", [{}, {"radii": (0.25, 0.5)}, {"simultaneous": True}, {"seed": 3}])
def test_a_chosen_seed_is_not_passed_off_as_derived(tmp_path, more):
    """Whoever tries seeds until he likes the outcome cannot hide it: verify knows which one nobody chose."""
    data, model = load_dataset("mnist-mini"), nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    store = certify_with(
        model, data, tmp_path / "store", selection=Selection(max=3), **SETTINGS, **more
    )
    (found,) = verify(store.folder)
    assert found.answer == "verified"
    assert any("chosen by hand" in note for note in found.notes) == ("seed" in more)
    seed = 1234567
    forged = certify_with(
        model,
        data,
        tmp_path / "forged",
        selection=Selection(max=3),
        **{**SETTINGS, **more, "seed": seed},
    )
    manifest = json.loads((forged.folder / "manifest.json").read_text())
    del manifest["identity"]["seed"]
    (forged.folder / "manifest.json").write_text(json.dumps(manifest))
    (found,) = verify(forged.folder)
    assert any("noise_seed 1234567" in problem for problem in found.problems)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_manifest_could_hold_is_refused_in_python_too(seed):
    with pytest.raises(ConfigError, match=r"seed must be a whole number from 0 to 2\*\*63 - 1"):
        SmoothedClassifier(nn.Flatten(), CertifyConfig(0.5, seed=seed))


def test_what_is_set_on_a_classifier_later_decides_the_noise_too():
    image = torch.full(SHAPE, 140, dtype=torch.uint8)
    smoothed = SmoothedClassifier(Product(), CertifyConfig(0.5, n0=20, n=500, seed=0))
    first = smoothed.certify(image).counts.tolist()
    smoothed.config = CertifyConfig(0.5, n0=20, n=500, seed=1)
    assert smoothed.certify(image).counts.tolist() != first
    smoothed.config = CertifyConfig(0.25, n0=20, n=600, seed=1)
    later = smoothed.certify(image)
    assert later.counts.sum() == 600
    assert later.radius <= 0.25 * 4
