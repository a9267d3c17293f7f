"""Empirical robustness: how the smoothed classifier answers under attack, beside what was certified.

An attack gives an upper bound of the accuracy at a radius, a certificate a lower bound. An adversarial image inside a
certified radius contradicts the certificate: it is reported as a soundness alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from smoothcert.attacks.ascent import GradientName, pgd
from smoothcert.attacks.ddn import ddn, ddn_test_gamma
from smoothcert.attacks.foolbox_attack import foolbox_pgd
from smoothcert.attacks.rounding import round_inside
from smoothcert.certification.images import check_image
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.certification.subject import evaluation, subject
from smoothcert.config import AttackConfig, CertifyConfig, Precision
from smoothcert.data import Dataset, LazyDataset, require_labels
from smoothcert.devices.launching import kernels_switched, launch_on
from smoothcert.devices.memory import SMALLEST
from smoothcert.errors import ModelError
from smoothcert.evaluation.noise_levels import answers_of
from smoothcert.keys import derive
from smoothcert.noise.streams import unit_range
from smoothcert.runs.attack_rows import ATTACK_COLUMNS, unlike
from smoothcert.runs.check import require_sound
from smoothcert.runs.environment import device_kind, environment
from smoothcert.runs.executor import Here, Row
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.seeds import seed_of_store
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from smoothcert.statistics import bounds

ATTACK_VERSION = 3
"""2: adversarial images are rounded inside the ball, not towards the original, and DDN starts from norm 1.

3: the network's own answer and its votes are stored.
"""


def attack_store(folder: Path | str) -> ResultStore:
    """Attacks are stored as certificates are, with one row per input and radius."""
    return ResultStore(Path(folder), ATTACK_COLUMNS, ("idx", "radius"))


def attack_dataset(
    model: nn.Module,
    dataset: Dataset | LazyDataset,
    out: Path | str,
    config: AttackConfig,
    *,
    selection: Selection | None = None,
    certificates: ResultStore | None = None,
    device: str | torch.device | None = None,
    quiet: bool = False,
) -> ResultStore:
    """Attack the selected inputs at each radius, then PREDICT with n samples; resumable rows in the store at `out`.

    Certificates of another network, of other images, at another sigma or in another norm are left aside (`unlike`).

    >>> from smoothcert import AttackConfig, Selection, attack_dataset, load_dataset, load_model
    >>> config = AttackConfig(sigma=0.5, radii=(0.25,), noises=4, steps=2, n=100)
    >>> model, test, two = load_model("mini"), load_dataset("mnist-mini"), Selection(max=2)
    >>> store = attack_dataset(model, test, "mini/attack", config, selection=two, quiet=True)
    >>> len(store.done())
    2
    """
    chosen = selection or Selection()
    bounds.check_alpha(config.alpha)
    require_labels(dataset, "an attack")
    indices = chosen.indices(len(dataset), f"{dataset.name} ({dataset.split})")
    about = subject(model, dataset, chosen)
    config = replace(config, seed=seed_of_store(vars(config), about["model"], about["data"]))
    first = dataset.image(indices[0])
    smoothed = _smoothed(model, dataset.classes, config, device)
    prepared = smoothed.prepare(first)
    attacked = {**about, "sigma": config.sigma, "behaviour": prepared.behaviour}
    if certificates is not None and unlike(attacked, certificates.manifest().described):
        certificates = None
    precision = (
        _certified_precision(certificates, smoothed)
        if certificates is not None
        else smoothed.config.precision
    )
    if precision not in (smoothed.config.precision, prepared.precision):
        smoothed = _smoothed(model, dataset.classes, replace(config, precision=precision), device)
        prepared = smoothed.prepare(first)
    identity = {
        **vars(config),
        "radii": list(config.radii),
        "attack_version": ATTACK_VERSION,
        **evaluation(prepared, config.noise, smoothed.device),
        **about,
    }
    # a network that cannot take the images fails here, before there is a store
    smoothed.count(check_image(first), SMALLEST, "prediction", 0)
    # a radius that was raised would raise a false alarm
    proved = {} if certificates is None else _certified(certificates)
    store = attack_store(out)
    made = {**environment(smoothed.device), "skipped": list(prepared.skipped)}
    store.claim(Manifest(identity, len(indices) * len(config.radii), made))

    def work(now: Sequence[tuple[int, float]]) -> Iterator[Row]:
        for index, radius in now:
            image, label = (
                torch.from_numpy(dataset.image(index)).to(smoothed.device),
                int(dataset.labels[index]),
            )
            found = _attacked(smoothed, image, label, config, radius, index)
            answer, counts = smoothed.predict_counted(found, index)
            with launch_on(smoothed.device):
                base = int(answers_of(prepared, 1)(unit_range(found)[None]))
            predict, proved_radius = proved.get(index, ("", ""))
            yield {
                "idx": index,
                "label": label,
                "radius": radius,
                "distance": _distance(found, image),
                "predict": answer,
                "correct": int(answer == label),
                "certified_predict": predict,
                "certified_radius": proved_radius,
                "base_predict": base,
                "votes": int(counts[label]),
            }

    wanted = [(index, radius) for index in chosen.mine(indices) for radius in config.radii]
    what, note = f"attack {dataset.name}", "correct under attack"
    store.complete(wanted, chosen, Here(work), what=what, unit="attacks", note=note, quiet=quiet)
    return store


def _smoothed(
    model: nn.Module, classes: int, config: AttackConfig, device: str | torch.device | None
) -> SmoothedClassifier:
    """The classifier that is attacked, with what its PREDICT takes."""
    names = ("sigma", "n", "alpha", "noise", "seed", "precision", "kernels")
    settings: dict[str, Any] = {name: getattr(config, name) for name in names}
    return SmoothedClassifier(model, CertifyConfig(**settings), classes=classes, device=device)


def _certified_precision(certificates: ResultStore, smoothed: SmoothedClassifier) -> Precision:
    """The precision of the certified network if its device was of this kind, unless a precision is asked for."""
    known = certificates.manifest().identity
    same_device = known.get("device_type") == device_kind(smoothed.device)
    certified = same_device and known.get("precision") in get_args(Precision)
    return (
        known["precision"]
        if smoothed.config.precision == "auto" and certified
        else smoothed.config.precision
    )


def _attacked(
    smoothed: SmoothedClassifier,
    image: Tensor,
    label: int,
    config: AttackConfig,
    radius: float,
    index: int,
) -> Tensor:
    """The adversarial image that the classifier is asked about; at radius 0 the image as it is."""
    if radius == 0:
        return image
    smoothed.model.eval()
    assert config.seed is not None
    key = derive(config.seed, "attack", index)
    with kernels_switched(config.kernels):
        found = adversarial_image(
            smoothed.model, unit_range(image), label, config, radius, key
        ).detach()
    if not found.isfinite().all():
        raise ModelError(
            f"the attack on input {index} found no image: the model's gradient there is not a number. Check the "
            "weights and the forward of the model, or use the attack stein or stein-hard, which needs no gradient"
        )
    return found if config.noise == "float" else round_inside(found, image, radius)


def adversarial_image(
    model: nn.Module, image: Tensor, label: int, config: AttackConfig, radius: float, key: int
) -> Tensor:
    """An image [C, H, W] in [0,1] at most `radius` away that the smoothed classifier should get wrong."""
    generator = torch.Generator(image.device).manual_seed(key)
    noises, scale = (1, 0.0) if config.attack == "vanilla" else (config.noises, config.sigma)
    noise = scale * torch.randn((noises, 1, *image.shape), generator=generator, device=image.device)
    images, labels = image[None], torch.tensor([label], device=image.device)
    if config.attack == "foolbox":
        return foolbox_pgd(model, images, labels, noise, epsilon=radius, steps=config.steps)[0]
    ball: dict[str, Any] = {
        "epsilon": radius,
        "steps": config.steps,
        "generator": generator,
        "beta": config.beta,
        "as_printed": config.as_printed,
    }
    if config.attack == "ddn":
        gamma = 0.05 if config.as_printed else ddn_test_gamma(radius, config.steps)
        return ddn(model, images, labels, noise, gamma=gamma, start=1.0, rounded=False, **ball)[0]
    gradient: GradientName = "smoothed"
    if config.attack != "pgd" and config.attack != "vanilla":
        gradient = config.attack
    found = pgd(model, images, labels, noise, gradient=gradient, **ball)[0]
    # as printed an attack knows no range; cut to it, what was found lies no further from the image
    return found.clamp(0.0, 1.0) if config.as_printed else found


def _distance(found: Tensor, image: Tensor) -> float:
    """In units of the [0, 1] image; of two 8-bit images by whole numbers, since alarms compare it with radii."""
    if found.dtype == image.dtype == torch.uint8:
        return math.sqrt(int((found.long() - image.long()).square().sum())) / 255
    return float((unit_range(found).double() - unit_range(image).double()).norm())


def _certified(store: ResultStore) -> dict[int, tuple[int, float]]:
    """idx -> (predict, radius) of a certificate store, each of which its counts prove; none before the first row."""
    found = require_sound(store.folder, "name other certificates, or certify again").columns
    if not found:
        return {}
    rows = zip(*(found[name].tolist() for name in ("idx", "predict", "radius")), strict=True)
    return {index: (predict, radius) for index, predict, radius in rows}
