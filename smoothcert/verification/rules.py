"""The settings by which a store must be judged, from its manifest alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.runs.identity import written_out
from smoothcert.runs.store import Manifest

_NOISES = ("exact", "uniform", "laplace", "float", "quantised")  # the last was there before `exact`

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
    def law(self) -> str:
        return self.noise if self.noise in ("uniform", "laplace") else "gaussian"

    @property
    def levels(self) -> tuple[float, ...]:
        """The alpha of each look of the procedure `tolerance`."""
        before = len(self.looks) - 1
        return (
            *[self.early * self.alpha / max(before, 1)] * before,
            self.alpha * (1 - self.early * (before > 0)),
        )


def read_rules(manifest: Manifest) -> Rules:
    """Raises an error if the manifest lacks something, or says what cannot be."""
    unsaid: dict[str, Any] = {"split_alpha": 0.9, "start": 0, "every": 1}
    said = {**unsaid, **written_out(manifest.identity), **manifest.identity}
    try:
        alpha, start, every = float(said["alpha"]), int(said["start"]), int(said["every"])
        most = _MOST_INPUTS if said.get("max") is None else min(_MOST_INPUTS, said["max"])
        each = alpha / manifest.inputs if said["simultaneous"] else alpha
        rules = Rules(
            procedure=str(said["procedure"]),
            sigma=float(said["sigma"]),
            n0=int(said["n0"]),
            n=int(said["n"]),
            alpha=each,
            split=float(said["split_alpha"]),
            tau=float(said["tau"]),
            noise=str(said["noise"]),
            seed=int(said["noise_seed"]),
            classes=int(said["classes"]),
            skip_wrong=bool(said["skip_wrong"]),
            inputs=range(start, start + every * manifest.inputs, every),
            radii=tuple(float(r) for r in said.get("radii") or ()),
            looks=tuple(int(look) for look in said["looks"])
            if said["procedure"] == "tolerance"
            else (),
            early=float(said.get("early_alpha", 0.0)),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise StoreError(
            f"manifest.json: expected all settings of a certification, found {error!r}"
        ) from error
    for name, fine in (
        ("procedure", rules.procedure in ("fixed", "radius", "tolerance")),
        ("sigma", 0 < rules.sigma < math.inf),
        ("alpha", 0 < rules.alpha < 1),
        (
            "alpha_each",
            math.isclose(manifest.identity.get("alpha_each", each), each, rel_tol=1e-12),
        ),
        ("split_alpha", 0 < rules.split < 1),
        ("tau", _least_tau(rules, manifest) <= rules.tau < 1),
        ("norm", said["norm"] == ("l2" if rules.law == "gaussian" else "l1")),
        ("n", rules.n0 >= 1 and 1 <= rules.n <= _MOST_SAMPLES),
        ("inputs", 1 <= manifest.inputs <= most),
        ("start", start >= 0),
        ("every", every >= 1),
        ("noise", rules.noise in _NOISES),
        (
            "looks",
            rules.procedure != "tolerance"
            or (rules.looks[-1:] == (rules.n,) and _rising(rules.looks)),
        ),
        ("radii", rules.procedure != "radius" or (bool(rules.radii) and _rising(rules.radii))),
        ("early_alpha", 0 <= rules.early < 1),
    ):
        if not fine:
            found = manifest.inputs if name == "inputs" else manifest.identity.get(name)
            raise StoreError(f"manifest.json: no certification can have {name} {found!r} here")
    return rules


def _least_tau(rules: Rules, manifest: Manifest) -> float:
    """The distance of integer noise from its law, d (2M + 1) / 2^62 for d values (docs/soundness.md)."""
    values = manifest.environment.get("values")
    if not isinstance(values, int) or rules.noise not in ("exact", "uniform", "laplace"):
        return 0.0
    reach = 255 * (math.ceil(6 * rules.sigma) + 1)
    return values * (2 * reach + 1) / 2.0**62 * (1 - 1e-9)


def _rising(values: tuple[float, ...]) -> bool:
    return all(a < b for a, b in pairwise(values)) and values[0] >= 0
