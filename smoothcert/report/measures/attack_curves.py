"""Curves of accuracy under attack over several models: at each radius the best certified model is the attacked one.

So SmoothAdv's figures choose it (arXiv:1906.04584, figures 1, 3 and 7 to 9): the curve is no maximum of accuracies
under attack, which would reward the attack that fails. Of several attacks of one kind on that model, an input must
withstand all: each bounds the accuracy from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import Floats, certified_curve, clean_accuracy
from smoothcert.report.measures.envelope import upper_envelope
from smoothcert.report.measures.shared_inputs import Indices, data_of, drawn_together
from smoothcert.report.read.attacks import Attacks, certificates_of
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import method_of
from smoothcert.report.read.names import labels_of, one_line


@dataclass(frozen=True, eq=False)
class AttackCurve:
    """Accuracy that one kind of attack leaves, from radius 0 on; `label` says what tells it from the others.

    `attacked` are the radii that were attacked: at 0 the accuracy may be that of the certificates.
    """

    label: str
    radii: Floats
    accuracy: Floats
    attacked: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Family:
    """The attacked models of one method, on the inputs that all attacks on their data set share."""

    name: str
    models: tuple[Certificates, ...]
    curves: tuple[AttackCurve, ...]
    notes: tuple[str, ...] = ()

    @property
    def certified(self) -> tuple[Floats, Floats]:
        """The largest certified accuracy of the models, as `certified_curve` has it: from below and without gaps.

        Where each model tested chosen radii alone, there is no curve, but a point at each of them.
        """
        measured = [c for c in self.models if c.tested_radii is None]
        curves = [certified_curve(c)[0] for c in measured] or [
            np.array(c.tested_radii) for c in self.models
        ]
        best = upper_envelope(measured or self.models, np.unique(np.concatenate(curves)).tolist())
        return np.array([w.radius for w in best]), np.array([w.accuracy for w in best])

    @property
    def dots(self) -> bool:
        return all(c.tested_radii is not None for c in self.models)


def attack_families(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> list[Family]:
    """The curves of all attacks whose certificates are among the results, one family per method and data set.

    The curves are about the inputs that all stores of a data set share. Stores that are still being made are left out
    as long as others are complete, since these inputs would be few. Stores that share none with the others are left out
    too, and the notes of the first family name them, and those that make the inputs few.
    """
    attacks = [a for a in attacks if not a.partial] or attacks
    found = [(a, c) for a in attacks if (c := certificates_of(a, results)) is not None]
    if not found:
        raise ConfigError(
            "curves of attacks need l2 certificates of the attacked networks, with the same sigma and images, found "
            + (
                "none for these attacks: certify the run too"
                if attacks
                else "no attack: `smoothcert attack` makes one"
            )
        )
    labels = {id(c): label for c, label in zip(results, labels_of(results), strict=True)}
    found, shared, left_out = drawn_together(found, labels)
    methods = {id(c): (method_of(c) or labels[id(c)], data_of(c)) for _, c in found}
    several = len({data for _, data in methods.values()}) > 1
    told = dict(
        zip(
            [setting_of(a) for a, _ in found],
            setting_labels([setting_of(a) for a, _ in found]),
            strict=True,
        )
    )
    families: list[Family] = []
    for method, data in dict.fromkeys(methods.values()):
        own = [(a, c) for a, c in found if methods[id(c)] == (method, data)]
        models = {id(c): c.where(np.isin(c.idx, shared[data])) for _, c in own}
        name = " ".join(
            [method if len(models) > 1 else labels[next(iter(models))], *(data if several else ())]
        )
        curves, notes = [], []
        for setting in dict.fromkeys(setting_of(a) for a, _ in own):
            stores = [(list(models).index(id(c)), a) for a, c in own if setting_of(a) == setting]
            curve, gaps, joined = _curve(told[setting], stores, list(models.values()), shared[data])
            curves += [curve] if len(curve.radii) else []
            notes += [
                f"{name}: {curve.label} counts an input as right where it withstands all of the stores {names}"
                for names in joined
            ]
            notes += [
                f"{name}: the best certified run at r = {r:g} was not attacked there by {curve.label}"
                for r in gaps
            ]
        notes = notes if families else [*left_out, *notes]
        families.append(Family(name, tuple(models.values()), tuple(curves), tuple(notes)))
    return families


def _curve(
    label: str,
    stores: Sequence[tuple[int, Attacks]],
    models: Sequence[Certificates],
    shared: Indices,
) -> tuple[AttackCurve, list[float], list[str]]:
    """The curve of one kind of attack, the radii where the best certified model was not attacked by it, and the names
    of stores that make one point together."""
    points, gaps, joined = {}, [], []
    for best in upper_envelope(models, sorted({radius for _, a in stores for radius in a.radii})):
        by_model = [
            [a for place, a in stores if place == model and best.radius in a.radii]
            for model in best.tied
        ]
        here = next(filter(None, by_model), [])
        if here:
            points[best.radius] = _accuracy(here, best.radius, shared)
            joined += (
                [" and ".join(sorted(one_line(a.name) for a in here))] if len(here) > 1 else []
            )
        else:
            gaps.append(best.radius)
    attacked = tuple(points)
    clean = max(
        [accuracy for c in models if not np.isnan(accuracy := clean_accuracy(c))], default=None
    )
    if points and clean is not None:
        points.setdefault(0.0, clean)  # PREDICT and CERTIFY answer alike there, but for abstentions
    radii = sorted(points)
    curve = AttackCurve(
        label, np.array(radii), np.array([points[radius] for radius in radii]), attacked
    )
    return curve, gaps, list(dict.fromkeys(joined))


def _accuracy(stores: Sequence[Attacks], radius: float, shared: Indices) -> float:
    """The share of the inputs that withstand every one of the attacks; each store has its inputs in rising order."""
    right = [a.correct[(a.radius == radius) & np.isin(a.idx, shared)] for a in stores]
    return float(np.min(right, axis=0).mean())


NO_ATTACK = "attack: none"
Setting = tuple[str, int | None, int | None, int, str, float]


def setting_of(a: Attacks) -> Setting:
    """What makes two attacks of one kind: attack, noises, steps, samples of PREDICT, their noise, and its alpha.

    The seed does not: by default it follows from the radii, and one kind of attack may be at radii of several stores.
    At radius 0 nothing is attacked: a store of it alone says what PREDICT answers, whatever attack it names.
    """
    attack = (a.kind, a.noises, a.steps) if any(a.radii) else (NO_ATTACK, None, None)
    return *attack, a.n, one_line(str(a.identity.get("noise")))[:40], float(a.identity["alpha"])


def setting_labels(settings: Sequence[Setting]) -> list[str]:
    """The attack of each, and what differs among them, by letters: m noises, T steps, n samples and α of PREDICT."""
    words = ("{}", "m={}", "T={}", "n={}", "{} noise", "α={}")
    varied = [
        place for place in range(1, len(words)) if len({s[place] for s in settings} - {None}) > 1
    ]
    told = (
        [words[place].format(s[place]) for place in varied if s[place] is not None]
        for s in settings
    )
    return [", ".join([s[0], *parts]) for s, parts in zip(settings, told, strict=True)]
