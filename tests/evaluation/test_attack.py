"""Attacks on the smoothed classifier: closed form on a linear model, alarms, stores."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.config import AttackConfig
from smoothcert.data import Dataset
from smoothcert.devices import launching
from smoothcert.errors import ConfigError, ModelError, StoreError
from smoothcert.evaluation.attack import adversarial_image
from smoothcert.report import empirical_rows, read_attacks
from smoothcert.runs.attack_rows import ATTACK_COLUMNS
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from tests.results import attack_with, cells, certify_with
from tests.verification.simulated import invented

SHAPE = (1, 8, 8)
SIGMA = 0.25


class Plane(nn.Module):
    """Two classes split by w.(x - 1/2) = 0 with |w| = 1: the smoothed classifier is the classifier itself."""

    def __init__(self):
        super().__init__()
        w = torch.from_numpy(np.random.default_rng(0).standard_normal(SHAPE)).float()
        self.register_buffer("w", w / w.norm())

    def forward(self, x):
        score = 10 * ((x - 0.5) * self.w).flatten(1).sum(1)
        return torch.stack([score, -score], 1)

    def dataset(self, margins):
        """8-bit images of class 0 at about these distances from the plane."""
        images = torch.stack([0.5 + m * self.w for m in margins])
        labels = np.zeros(len(margins), np.int64)
        return Dataset("planes", "test", (images * 255).round().to(torch.uint8).numpy(), labels, 2)


class Answers(Plane):
    """The same classifier, which tells its answer alone: its gradient is 0 everywhere."""

    def forward(self, x):
        return (super().forward(x) > 0).float()


def summarise(store):
    return empirical_rows(read_attacks(store.folder))


@pytest.fixture
def plane():
    return Plane()


@pytest.mark.parametrize("name", ["pgd", "stein", "stein-hard", "vanilla", "foolbox"])
def test_the_attack_goes_straight_at_the_plane(plane, name):
    """On a linear model the best perturbation is -radius w; the gradient-free estimate needs many noises for it."""
    if name == "foolbox":
        pytest.importorskip("foolbox")
    image = torch.full(SHAPE, 0.5) + 0.3 * plane.w
    noises = 4096 if name.startswith("stein") else 16
    config = AttackConfig(SIGMA, (0.2,), name, noises=noises, steps=10)
    found = adversarial_image(plane, image, 0, config, 0.2, key=1)
    d = found - image
    assert d.norm() == pytest.approx(0.2, abs=1e-4)
    cosine = float(-(d * plane.w).sum() / d.norm())
    assert cosine > (0.9 if name.startswith("stein") else 0.999)


@pytest.mark.parametrize("name", ["pgd", "expected", "ddn", "stein", "vanilla"])
def test_what_an_attack_as_printed_finds_is_an_image_in_the_ball(plane, name):
    """Its steps know no [0,1], which here they leave; and it is another than the code finds."""
    image = torch.from_numpy(np.random.default_rng(1).integers(0, 2, SHAPE)).float()
    label = int(plane(image[None]).argmax())
    config = AttackConfig(SIGMA, (2.0,), name, noises=8, steps=4)
    found = [
        adversarial_image(plane, image, label, replace(config, as_printed=printed), 2.0, key=1)
        for printed in (False, True)
    ]
    assert not torch.equal(*found)
    assert 0 <= found[1].min() <= found[1].max() <= 1
    assert 0.1 < (found[1] - image).norm() <= 2.0 + 1e-5


@pytest.mark.parametrize("name", ["pgd", "expected", "ddn", "stein"])
def test_the_temperature_changes_what_is_attacked(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 4))
    image = torch.full(SHAPE, 0.5)
    label = int(model(image[None]).argmax())
    config = AttackConfig(SIGMA, (2.0,), name, noises=16, steps=4)
    found = [
        adversarial_image(model, image, label, replace(config, beta=beta), 2.0, key=1)
        for beta in (1.0, 8.0)
    ]
    assert (found[0] - found[1]).abs().max() > 1e-3


def test_hard_votes_find_the_plane_where_gradients_say_nothing():
    """The network gives 0 and 1 for logits, so that PGD is refused; the votes of its answers lead to the plane."""
    model = Answers()
    image = torch.full(SHAPE, 0.5) + 0.1 * model.w
    config = AttackConfig(SIGMA, (0.2,), "stein-hard", noises=4096, steps=10)
    d = adversarial_image(model, image, 0, config, 0.2, key=1) - image
    assert float(-(d * model.w).sum() / d.norm()) > 0.9
    with pytest.raises(ModelError, match=r"no gradient .* the attack stein-hard"):
        adversarial_image(model, image, 0, replace(config, attack="pgd"), 0.2, key=1)


def test_radius_0_measures_the_network_itself_and_under_a_single_noise(plane, tmp_path):
    """Without noise every image is on its side of the plane; a noisy copy at distance m stays with Phi(m / sigma)."""
    data = plane.dataset([0.05, 0.2, 0.4])
    (row,) = summarise(
        attack_with(plane, data, tmp_path, **{**SETTINGS, "radii": [0.0], "n": 20_000})
    )
    margins = [
        float(((torch.from_numpy(data.image(i)) / 255 - 0.5) * plane.w).sum())
        for i in range(len(data))
    ]
    assert (row.radius, row.inputs, row.base, row.empirical, row.alarms) == (0.0, 3, 1.0, 1.0, ())
    expected = np.mean([0.5 * (1 + math.erf(m / SIGMA / math.sqrt(2))) for m in margins])
    assert row.noisy == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(3 * 20_000))


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_at_radius_0_no_attack_is_made(plane, tmp_path, noise):
    """DDN divides by the radius."""
    settings = {**SETTINGS, "radii": [0.0], "attack": "ddn", "noise": noise}
    (row,) = attack_with(plane, plane.dataset([0.2]), tmp_path, **settings).rows()
    assert (float(row["distance"]), row["correct"]) == (0.0, "1")


def test_an_attack_on_the_network_itself_flips_it(plane, tmp_path):
    data = plane.dataset([0.1, 0.5])
    (row,) = summarise(
        attack_with(plane, data, tmp_path, **{**SETTINGS, "radii": [0.2], "attack": "vanilla"})
    )
    assert row.base == 0.5


def test_ddn_finds_an_image_just_across_the_plane(plane):
    image = (torch.full(SHAPE, 0.5) + 0.3 * plane.w).mul(255).round().div(255)
    config = AttackConfig(SIGMA, (0.6,), "ddn", noises=64, steps=40)
    found = adversarial_image(plane, image, 0, config, 0.6, key=1)
    assert 0.28 < float((found - image).norm()) < 0.45
    assert (
        abs(float(((found - 0.5) * plane.w).sum())) < 0.06
    )  # where 64 noisy copies are tied, not quite on the plane


@pytest.mark.parametrize("radius", [0.05, 0.1, 0.3])
def test_the_attacked_8_bit_image_keeps_the_radius(plane, tmp_path, radius):
    settings = {**SETTINGS, "radii": [radius], "n": 100}
    store = attack_with(plane, plane.dataset([0.3, 0.5]), tmp_path, **settings)
    distances = [float(row["distance"]) for row in store.rows()]
    assert all(0.98 * radius <= distance <= radius for distance in distances)


def test_ddn_starts_from_norm_1_whatever_the_radius(plane):
    """On a linear model its steps are straight, so after one step only a start of norm 1 has crossed the plane."""
    image = (torch.full(SHAPE, 0.5) + 0.3 * plane.w).mul(255).round().div(255)
    config = AttackConfig(SIGMA, (0.2,), "ddn", noises=64, steps=2)
    found = adversarial_image(plane, image, 0, config, 0.2, key=1)
    d = found - image
    assert float(d.norm()) == pytest.approx(
        0.2, rel=1e-4
    )  # drawn back to the sphere, and not rounded there
    assert float(-(d * plane.w).sum() / d.norm()) > 0.99


def test_an_attack_without_a_gradient_is_refused(plane, tmp_path):
    class Broken(nn.Module):
        def forward(self, x):
            return plane(x) + 0 * (x[:, 0, :1, 0] - x[:, 0, :1, 0]).sqrt()

    with pytest.raises(ModelError, match="gradient there is not a number"):
        attack_with(Broken(), plane.dataset([0.3]), tmp_path, **SETTINGS)


@pytest.fixture
def certified(plane, tmp_path):
    data = plane.dataset(np.linspace(0.03, 0.58, 12))
    return data, certify_with(plane, data, tmp_path / "certify", sigma=SIGMA, n=5_000, quiet=True)


SETTINGS = {"sigma": SIGMA, "radii": [0.4, 0.2], "n": 2000, "noises": 16, "quiet": True}


def test_empirical_accuracy_lies_above_certified_and_the_true_accuracy_between(
    plane, certified, tmp_path
):
    data, certificates = certified
    rows = summarise(
        attack_with(plane, data, tmp_path / "attack", certificates=certificates, **SETTINGS)
    )
    assert [row.radius for row in rows] == [0.2, 0.4]
    margins = [
        float(((torch.from_numpy(data.image(i)) / 255 - 0.5) * plane.w).sum())
        for i in range(len(data))
    ]
    for row in rows:
        true = float(np.mean([margin > row.radius for margin in margins]))
        assert row.certified is not None
        assert row.certified <= true <= row.empirical + row.abstained + 1e-9
        assert row.empirical - row.certified <= 3 / 12  # and both are near it
        assert row.alarms == ()


def test_a_wrong_certificate_raises_the_alarm(plane, certified, tmp_path):
    """All samples are claimed to agree; every image that the attack flips contradicts its certificate."""
    data, source = certified
    certificates = invented(tmp_path / "wrong", source, lambda row: 0)
    rows = summarise(
        attack_with(plane, data, tmp_path / "attack", certificates=certificates, **SETTINGS)
    )
    assert len(rows[-1].alarms) >= 6
    assert rows[-1].certified == pytest.approx(1.0, abs=0.1)


def test_attacks_resume_shard_and_refuse_other_settings(plane, certified, tmp_path):
    data, _ = certified
    whole = attack_with(plane, data, tmp_path / "a", **SETTINGS)
    for shard in (1, 0):
        parts = attack_with(
            plane, data, tmp_path / "b", selection=Selection(shard=shard, shards=2), **SETTINGS
        )

    def table(store):
        return sorted(row[:-1] for row in cells(store))

    assert table(whole) == table(parts)
    part = tmp_path / "a" / "part-0-of-1.tsv"
    part.write_text("".join(part.read_text().splitlines(keepends=True)[:7]) + "3\t0")
    assert table(attack_with(plane, data, tmp_path / "a", **SETTINGS)) == table(parts)
    with pytest.raises(StoreError, match="steps: 20 there, 5 asked"):
        attack_with(plane, data, tmp_path / "a", **{**SETTINGS, "steps": 5})
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["inputs"] == 24
    assert part.read_text().splitlines()[0] == "\t".join(ATTACK_COLUMNS)


def test_rows_that_two_processes_made_count_once(plane, tmp_path):
    store = attack_with(plane, plane.dataset([0.1, 0.4]), tmp_path, **{**SETTINGS, "radii": [0.2]})
    before = summarise(store)
    with store.writer(1, 2) as other:
        other.add(next(store.rows()))
    assert len(list(store.rows())) == 3
    assert summarise(store) == before


def test_without_certificates_only_the_empirical_accuracy_is_known(plane, tmp_path):
    data = plane.dataset([0.1, 0.5])
    (row,) = summarise(attack_with(plane, data, tmp_path, **{**SETTINGS, "radii": [0.2]}))
    assert row.certified is None
    assert (row.inputs, row.empirical) == (2, 0.5)


@pytest.mark.parametrize("name", ["pgd", "ddn"])
def test_float_noise_attacks_the_image_off_the_grid(plane, tmp_path, name):
    data = plane.dataset([0.1, 0.5])
    settings = {**SETTINGS, "radii": [0.2], "attack": name}
    (row,) = summarise(attack_with(plane, data, tmp_path, noise="float", **settings))
    assert row.empirical == 0.5


@pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="the interpreter, as if it were a GPU, is for machines without one",
)
@pytest.mark.parametrize("kernels", ["auto", "off"])
def test_attack_steps_use_kernels_unless_they_are_switched_off(
    plane, tmp_path, kernels, monkeypatch
):
    fused = pytest.importorskip("smoothcert.attacks.fused")
    used, step_up = [], fused.step_up
    monkeypatch.setattr(
        launching, "runs_triton", lambda _: True
    )  # the interpreter, where there is no GPU
    monkeypatch.setattr(fused, "step_up", lambda *a, **k: used.append(1) or step_up(*a, **k))
    (row,) = summarise(
        attack_with(
            plane, plane.dataset([0.1]), tmp_path, kernels=kernels, **{**SETTINGS, "radii": [0.2]}
        )
    )
    assert row.empirical == 0.0
    assert bool(used) == (kernels == "auto")


def test_the_network_is_left_as_it_was(plane, tmp_path):
    model = nn.Sequential(nn.BatchNorm2d(1), plane)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attack_with(model, plane.dataset([0.3]), tmp_path, **SETTINGS)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"radii": []}, "needs radii.* found none"),
        ({"radii": [-0.1]}, "at least 0"),
        ({"radii": [math.nan]}, r"radii must be .* finite number, found \[nan\]"),
        ({"radii": [math.inf]}, r"radii must be .* finite number, found \[inf\]"),
        ({"radii": [0.5, 0.5]}, "each radius once"),
        ({"alpha": 0.0}, "failure probability"),
    ],
)
def test_unusable_settings_are_refused(plane, tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        attack_with(plane, plane.dataset([0.3]), tmp_path, **{**SETTINGS, **settings})


def test_a_store_of_attacks_is_not_read_as_certificates(plane, tmp_path):
    attack_with(plane, plane.dataset([0.3]), tmp_path, **SETTINGS)
    with pytest.raises(StoreError, match="expected a tab-separated header with the columns"):
        ResultStore(tmp_path).done()


@pytest.mark.parametrize(
    ("change", "noise", "told"),
    [({"split": "train"}, "exact", True), ({}, "uniform", True), ({}, "exact", False)],
)
def test_certificates_of_other_images_or_norms_are_left_aside(plane, tmp_path, change, noise, told):
    """The images of the other split have the opposite class: their certificates contradict every answer here."""
    certified, attacked = plane.dataset([-0.4, -0.5]), plane.dataset([0.4, 0.5])
    certified = replace(certified, labels=1 - certified.labels, **change) if change else attacked
    certificates = certify_with(
        plane, certified, tmp_path / "c", sigma=SIGMA, n0=10, n=200, noise=noise
    )
    store = attack_with(
        plane,
        attacked,
        tmp_path / "a",
        sigma=SIGMA,
        radii=(0.0,),
        n=200,
        noises=2,
        steps=1,
        certificates=certificates,
    )
    (row,) = summarise(store)
    assert row.alarms == ()
    assert (row.certified is None) == told
