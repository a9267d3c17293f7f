"""The settings by which a store must be judged, from its manifest alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

from smoothcert.config.choices import Law, NoiseMode, law_of
from smoothcert.errors import StoreError
from smoothcert.runs.rows import OPTIONAL, Lines
from smoothcert.runs.seeds import seed_of_store
from smoothcert.runs.store import Manifest
from smoothcert.statistics.laws import law_named

_NEEDED = ("procedure", "sigma", "n0", "n", "alpha", "alpha_each", "split_alpha", "tau", "norm", "noise", "noise_seed",
           "classes", "start", "every", "simultaneous", "skip_wrong")  # fmt: skip
_ALSO = {"radius": ("radii",), "tolerance": ("tolerance", "looks", "early_alpha")}

_MOST_SAMPLES, _MOST_INPUTS = (
    10**8,
    10**7,
)  # a manifest from anyone must not make a verification endless


@dataclass(frozen=True)
class Rules:
    """What a manifest says, with its types checked, and alpha as each input has it."""

    procedure: str
    sigma: float
    n0: int
    n: int
    alpha: float
    split: float
    tau: float
    noise: str
    seed: int
    classes: int
    skip_wrong: bool
    inputs: range
    radii: tuple[float, ...]
    looks: tuple[int, ...]  # of the procedure `tolerance`
    early: float

    @property
    def law(self) -> Law:
        return law_of(self.noise)

    @property
    def levels(self) -> tuple[float, ...]:
        """The alpha of each look of the procedure `tolerance`."""
        before = len(self.looks) - 1
        return (
            *[self.early * self.alpha / max(before, 1)] * before,
            self.alpha * (1 - self.early * (before > 0)),
        )


def read_rules(manifest: Manifest, name: str = "manifest.json") -> Rules:
    """Raises an error, which calls the manifest by its name, if it lacks something or says what cannot be."""
    said, inputs = manifest.identity, manifest.inputs
    needed = (*_NEEDED, *_ALSO.get(said.get("procedure", ""), ()))
    if lost := [entry for entry in needed if said.get(entry) is None]:
        raise StoreError(
            f"{name} lacks settings of a certification ({', '.join(lost)}); restore it from a copy"
        )
    sigma, noise, tau = said["sigma"], said["noise"], said["tau"]
    alpha, start, every = said["alpha"], said["start"], said["every"]
    each = alpha / max(inputs, 1) if said["simultaneous"] else alpha
    looks = said["looks"] if said["procedure"] == "tolerance" else []
    values, early = manifest.environment.get("values", 0), said.get("early_alpha", 0.0)
    for entry, fine in (
        ("procedure", said["procedure"] in ("fixed", "radius", "tolerance")),
        ("noise", noise in get_args(NoiseMode)),
        ("sigma", 0 < sigma < math.inf),
        ("alpha", 0 < alpha < 1),
        ("alpha_each", math.isclose(said["alpha_each"], each, rel_tol=1e-12)),
        ("split_alpha", 0 < said["split_alpha"] < 1),
        ("values", values >= 1),
        ("tau", _least_tau(noise, sigma, values) <= tau < 1),
        ("norm", noise in get_args(NoiseMode) and said["norm"] == law_named(law_of(noise)).norm),
        ("n", said["n0"] >= 1 and 1 <= said["n"] <= _MOST_SAMPLES),
        ("inputs", 1 <= inputs <= min(_MOST_INPUTS, said.get("max") or _MOST_INPUTS)),
        ("start", start >= 0),
        ("every", every >= 1),
        (
            "looks",
            said["procedure"] != "tolerance"
            or (isinstance(looks, list) and looks[-1:] == [said["n"]] and _rising(looks)),
        ),
        ("radii", said["procedure"] != "radius" or _rising(said["radii"])),
        ("early_alpha", 0 <= early < 1),
        (
            "noise_seed",
            said["noise_seed"]
            == seed_of_store(said, str(said.get("model")), str(said.get("data"))),
        ),
    ):
        if not fine:
            found = {"inputs": inputs, "values": values}.get(entry, said.get(entry))
            raise StoreError(
                f"{name}: no certification can have {entry} {found!r} here; restore it from a copy"
            )
    return Rules(
        procedure=said["procedure"],
        sigma=sigma,
        n0=said["n0"],
        n=said["n"],
        alpha=each,
        split=said["split_alpha"],
        tau=tau,
        noise=noise,
        seed=said["noise_seed"],
        classes=said["classes"],
        skip_wrong=said["skip_wrong"],
        inputs=range(start, start + every * inputs, every),
        radii=tuple(said.get("radii") or ()),
        looks=tuple(looks),
        early=early,
    )


def require_columns(lines: Lines) -> None:
    """Refuse a part that cannot be recomputed."""
    if missing := [name for name in OPTIONAL if name not in lines.header]:
        raise StoreError(
            f"{lines.path.name}: the columns {' '.join(missing)} are missing: nothing can be recomputed"
        )


def _least_tau(noise: str, sigma: float, values: int) -> float:
    """The distance of integer noise from its law, d (2M + 1) / 2^62 for d values (docs/soundness.md)."""
    reach = 255 * (math.ceil(6 * sigma) + 1)
    return 0.0 if noise == "float" else values * (2 * reach + 1) / 2.0**62 * (1 - 1e-9)


def _rising(values: list[float]) -> bool:
    return bool(values) and all(a < b for a, b in pairwise(values)) and values[0] >= 0
