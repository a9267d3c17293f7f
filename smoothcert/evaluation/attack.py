"""Empirical robustness: how the smoothed classifier answers under attack, beside what was certified.

An attack gives an upper bound of the accuracy at a radius, a certificate a lower bound. An adversarial image inside a
certified radius contradicts the certificate: it is reported as a soundness alarm.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from smoothcert.attacks.ascent import pgd
from smoothcert.attacks.ddn import ddn, ddn_test_gamma
from smoothcert.attacks.judge import foolbox_pgd
from smoothcert.certification.certify import Selection, device_kind, environment, subject
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.data import Dataset, ImageFolder
from smoothcert.errors import ConfigError, unknown_name
from smoothcert.kernels.prepare import Precision
from smoothcert.keys import derive
from smoothcert.noise.streams import NoiseMode, stream, unit_range
from smoothcert.progress import Progress
from smoothcert.runs.store import COLUMNS as CERTIFICATE_COLUMNS
from smoothcert.runs.store import CertificateStore, Manifest, clock
from smoothcert.statistics import bounds
from smoothcert.statistics.certificate import ABSTAIN

AttackName = Literal["pgd", "ddn", "stein", "vanilla", "foolbox"]
COLUMNS = ("idx", "label", "radius", "distance", "predict", "correct", "certified_predict", "certified_radius", "time")


@dataclass(frozen=True)
class Attack:
    """Which attack: SmoothAdv's PGD or DDN, the gradient-free `stein`, `vanilla` (PGD on the network without noise), or
    foolbox's own PGD as an independent judge.

    SmoothAdv's evaluation (arXiv:1906.04584, section 4.2) takes T = 20 steps and `noises` from 1 to 128 (Stein: 512).
    """

    name: AttackName = "pgd"
    noises: int = 128
    steps: int = 20

    def __post_init__(self) -> None:
        if self.name not in get_args(AttackName):
            raise unknown_name("attack", self.name, get_args(AttackName))
        if self.noises < 1 or self.steps < 1:
            raise ConfigError(f"an attack needs noises >= 1 and steps >= 1, found {self.noises} and {self.steps}")

    def __call__(self, model: nn.Module, image: Tensor, label: int, sigma: float, radius: float, key: int) -> Tensor:
        """An image [C, H, W] in [0,1] at most `radius` away that the smoothed classifier should get wrong."""
        generator = torch.Generator(image.device).manual_seed(key)
        noises, scale = (1, 0.0) if self.name == "vanilla" else (self.noises, sigma)
        noise = scale * torch.randn((noises, 1, *image.shape), generator=generator, device=image.device)
        labels = torch.tensor([label], device=image.device)
        if self.name == "foolbox":
            found = foolbox_pgd(model, image[None], labels, noise, epsilon=radius, steps=self.steps)
        elif self.name == "ddn":
            gamma = ddn_test_gamma(radius, self.steps)
            found = ddn(
                model, image[None], labels, noise, epsilon=radius, steps=self.steps, generator=generator, gamma=gamma
            )
        else:
            found = pgd(
                model,
                image[None],
                labels,
                noise,
                epsilon=radius,
                steps=self.steps,
                generator=generator,
                gradient_free=self.name == "stein",
            )
        return found[0]


def towards_original(adversarial: Tensor, image: Tensor) -> Tensor:
    """The 8-bit image nearest to an adversarial one that is in no pixel farther from the (8-bit) original."""
    steps = ((adversarial - unit_range(image)) * 255.0).trunc()
    return (image.float() + steps).to(torch.uint8)


def attack_dataset(
    model: nn.Module,
    dataset: Dataset | ImageFolder,
    out: Path | str,
    *,
    sigma: float,
    radii: Sequence[float],
    attack: Attack | None = None,
    n: int = 10_000,
    alpha: float = 0.001,
    noise_mode: NoiseMode = "quantised",
    seed: int = 0,
    selection: Selection | None = None,
    certificates: CertificateStore | None = None,
    device: str | torch.device | None = None,
    quiet: bool = False,
) -> CertificateStore:
    """Attack the selected inputs at each radius, then PREDICT with n samples; resumable rows in the store at `out`."""
    chosen, attack = selection or Selection(), attack or Attack()
    if noise_mode in ("uniform", "laplace"):
        raise ConfigError(f"these attacks are about l2 changes, and {noise_mode} noise certifies l1: use another noise")
    bounds.check_alpha(alpha)
    if not radii or min(radii) <= 0:
        raise ConfigError(f"an attack needs radii above 0, found {list(radii)}")
    smoothed = SmoothedClassifier(model, sigma, dataset.classes, noise=noise_mode, seed=seed, device=device)
    indices = chosen.indices(len(dataset))
    if not indices:
        raise ConfigError(f"start={chosen.start} leaves no input: {dataset.name} ({dataset.split}) has {len(dataset)}")
    known = certificates.manifest().identity if certificates is not None else {}
    if known.get("device_type") == device_kind(smoothed.device) and known.get("precision") in get_args(Precision):
        smoothed.precision = known["precision"]  # the network that was certified, not another precision of it
    prepared = smoothed.prepare(dataset.image(indices[0]).shape)
    identity = {
        "attack": attack.name,
        "noises": attack.noises,
        "steps": attack.steps,
        "radii": sorted(radii),
        "sigma": sigma,
        "n": n,
        "alpha": alpha,
        "seed": seed,
        "noise": noise_mode,
        "device_type": device_kind(smoothed.device),
        "noise_stream": stream(noise_mode, smoothed.device),
        "precision": prepared.precision,
        "prepared": list(prepared.steps),
        **subject(model, dataset, chosen),
    }
    store = CertificateStore(Path(out), COLUMNS)
    store.claim(Manifest(identity, len(indices) * len(radii), environment(smoothed.device)))
    proved = {} if certificates is None else _certified(certificates)
    todo = [(index, radius) for index in indices[chosen.shard :: chosen.shards] for radius in sorted(radii)]
    with store.writer(chosen.shard, chosen.shards) as part:
        done = {(int(cells[0]), float(cells[2])) for cells in store.rows()}
        missing = [case for case in todo if case not in done]
        with Progress(
            f"attack {dataset.name}", len(todo), "attacks", done=len(todo) - len(missing), quiet=quiet
        ) as bar:
            for index, radius in missing:
                started = time.perf_counter()
                image, label = torch.from_numpy(dataset.image(index)).to(smoothed.device), int(dataset.labels[index])
                key = derive(seed, "attack", index)
                smoothed.model.eval()
                found = attack(smoothed.model, unit_range(image), label, sigma, radius, key).detach()
                if noise_mode != "float":
                    found = towards_original(found, image)
                distance = float((unit_range(found).double() - unit_range(image).double()).norm())
                answer = smoothed.predict(found, n=n, alpha=alpha, index=index)
                cells = (index, label, radius, distance, answer, int(answer == label), *proved.get(index, ("", "")))
                took = clock(time.perf_counter() - started)
                part.add("\t".join(map(str, (*cells, took))) + "\n")
                bar.advance()
    return store


@dataclass(frozen=True)
class EmpiricalRow:
    """What an attack at one radius left standing, on the same inputs for both accuracies."""

    radius: float
    inputs: int
    empirical: float
    abstained: float
    certified: float | None
    alarms: tuple[int, ...]
    """Inputs that answered with another class within their certified radius: each contradicts a certificate."""


def summarise(store: CertificateStore) -> list[EmpiricalRow]:
    rows = [dict(zip(COLUMNS, cells, strict=True)) for cells in store.rows()]
    found = []
    for radius in sorted({float(row["radius"]) for row in rows}):
        here = [row for row in rows if float(row["radius"]) == radius]
        known = [row for row in here if row["certified_radius"]]
        proved = [
            row["certified_predict"] == row["label"] and float(row["certified_radius"]) >= radius for row in known
        ]
        found.append(
            EmpiricalRow(
                radius,
                len(here),
                sum(row["correct"] == "1" for row in here) / len(here),
                sum(row["predict"] == str(ABSTAIN) for row in here) / len(here),
                sum(proved) / len(known) if len(known) == len(here) else None,
                tuple(int(row["idx"]) for row in known if _contradicts(row)),
            )
        )
    return found


def _contradicts(row: dict[str, str]) -> bool:
    inside = float(row["distance"]) < float(row["certified_radius"])
    return inside and row["predict"] not in (str(ABSTAIN), row["certified_predict"])


def _certified(store: CertificateStore) -> dict[int, tuple[str, str]]:
    """idx -> (predict, radius) of a certificate store, as stored."""
    place = [CERTIFICATE_COLUMNS.index(name) for name in ("predict", "radius")]
    return {int(cells[0]): (cells[place[0]], cells[place[1]]) for cells in store.rows()}
