"""How the certificates of a store are proved, from its manifest: samples, level, noise and stopping rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from smoothcert.errors import ConfigError, StoreError
from smoothcert.recipes.published import budget
from smoothcert.report.read.certificates import law_of
from smoothcert.runs.store import Manifest
from smoothcert.statistics import bounds
from smoothcert.statistics.saturation import saturation_radius
from smoothcert.statistics.sequential import Procedure, procedure

_MOST_SAMPLES = 10**8  # a manifest from anyone must not make a report endless
_OURS = (
    "noise_stream",
    "behaviour",
    "noise_seed",
)  # of an identity that a certification of ours has written


@dataclass(frozen=True)
class Proof:
    sigma: float
    n0: int
    n: int
    alpha: float  # of one input
    split: float  # share of alpha that the two-class radius spends on the top class
    slack: float  # how far the law of the samples may be from `law`, in total variation
    law: bounds.Law
    skip_wrong: bool
    test: Procedure | None  # None: a number of samples fixed in advance

    @property
    def limit(self) -> float:
        """The largest radius that it can give: all n samples agree."""
        return float(
            bounds.radius(
                bounds.lower_bound(self.n, self.n, self.alpha, self.slack), self.sigma, self.law
            )
        )


def proof_of(manifest: Manifest, folder: Path) -> Proof | str:
    """The proof that a manifest describes, or why it describes none that is known here."""
    identity = manifest.identity
    try:
        sigma, n0, n, alpha = (identity[name] for name in ("sigma", "n0", "n", "alpha"))
        alpha_each = alpha / manifest.inputs if identity.get("simultaneous") else alpha
        bounds.check_sigma(sigma)
        bounds.check_samples(n0, n, alpha_each)
        split, slack = (
            float(identity.get("split_alpha", bounds.DEFAULT_SPLIT)),
            float(identity.get("tau", 0.0)),
        )
        if not (n <= _MOST_SAMPLES and 0 < split < 1 and 0 <= slack < 1):
            raise ValueError(f"n {n}, split_alpha {split}, tau {slack}")
        law, skip_wrong = law_of(identity.get("noise")), bool(identity.get("skip_wrong"))
        wanted = {name: identity.get(name) for name in ("radii", "tolerance")}
        test = procedure(n, alpha_each, sigma, slack=slack, law=law, **wanted)
    except KeyError as error:
        return f"the manifest does not say {error.args[0]}"
    except (ConfigError, TypeError, ValueError, ArithmeticError) as error:
        return f"the settings of the manifest cannot be used ({error})"
    if not math.isclose(identity.get("alpha_each", alpha_each), alpha_each, rel_tol=1e-9):
        raise _contradiction(folder, "alpha_each", alpha_each, identity["alpha_each"])
    if identity.get("norm", "l2") != bounds.NORMS[law]:
        raise _contradiction(folder, "norm", bounds.NORMS[law], identity.get("norm"))
    for name, rule in ({"procedure": "fixed"} if test is None else test.describe()).items():
        if identity.get(name, "fixed") != rule:
            return f"it was certified by a procedure with {name} {identity.get(name)}, here it is {rule}"
    return Proof(sigma, n0, n, alpha_each, split, slack, law, skip_wrong, test)


def possible_radius(manifest: Manifest, proof: str, folder: Path, counted: bool) -> float | None:
    """The largest radius of a store made elsewhere, by what is known of it and otherwise as the field certifies.

    A store of ours says how it was certified, and one with counts must: refused, since then nothing could be checked.
    """
    identity = manifest.identity
    if counted or "smoothcert" in manifest.environment or any(name in identity for name in _OURS):
        raise StoreError(
            f"{folder / 'manifest.json'}: no radius of this store can be checked: {proof}. Restore it, or read it with "
            "the version of smoothcert that made it"
        )
    n, alpha = identity.get("n", budget().n), identity.get("alpha", budget().alpha)
    n = min(max(n, 1), _MOST_SAMPLES)
    try:
        return saturation_radius(
            bounds.check_sigma(identity.get("sigma", 0)),
            n,
            bounds.check_alpha(alpha),
            law_of(identity.get("noise")),
        )
    except ConfigError:
        return None


def _contradiction(folder: Path, name: str, expected: object, found: object) -> StoreError:
    return StoreError(
        f"{folder / 'manifest.json'} contradicts itself: by its other settings, expected {name} {expected}, found "
        f"{found}; restore it, or certify again under another --name"
    )
