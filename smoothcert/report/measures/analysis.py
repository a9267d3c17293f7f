"""The field's measures of a certified classifier; NumPy only.

Throughout, input i of N has radius R_i and is *correct* if the smoothed classifier answers with its label (an
abstention is not correct). A tie counts: radius >= r is certified at r. Inputs without labels have no accuracy and no
ACR (nan), but shares of certified answers, whether right or wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import ConfigError
from smoothcert.report.read.certificates import Certificates

Floats = NDArray[np.float64]


def published_rounding(radius: ArrayLike) -> Floats:
    """Radii as the field's logs print them: 3 significant digits, `format(radius, ".3")`."""
    values, place = np.unique(np.asarray(radius, dtype=np.float64), return_inverse=True)
    rounded = np.array([float(format(value, ".3")) for value in values.tolist()], dtype=np.float64)
    return rounded[place]


def is_rounded(c: Certificates) -> bool:
    """Whether it is a log with radii of 3 digits; the radii of a store are exact, however few digits they have."""
    return c.manifest is None and np.array_equal(input_radii(c, rounded=True), c.radius)


def proved(results: Sequence[Certificates], rounded: bool = False) -> bool:
    """Whether numbers of the runs that stand together are rounded down, since stores prove them.

    Logs by themselves, and radii that are `rounded` first, are printed as papers print theirs: by the nearest digit.
    """
    return not rounded and any(c.manifest is not None for c in results)


def input_radii(c: Certificates, rounded: bool = False) -> Floats:
    """The radii of all inputs; radii that a store was asked to test are exact, and never rounded.

    What logs round are l2 radii: l-infinity radii become those of the rounded l2 radii that they were made of.
    """
    if not rounded or c.tested_radii is not None:
        return c.radius
    if c.dimension is None:
        return published_rounding(c.radius)
    return linf_radius(published_rounding(c.radius * np.sqrt(c.dimension)), c.dimension)


def correct_radii(c: Certificates, rounded: bool = False) -> Floats:
    """The radii of the correct inputs, ascending."""
    return np.sort(input_radii(c, rounded)[c.correct])


def certified_accuracy(c: Certificates, radii: ArrayLike, rounded: bool = False) -> Floats:
    """CA(r) = (1/N) #{i : correct_i and R_i >= r}, as a fraction, for each r; nan where r was not tested.

    `rounded` rounds the radii first, as published logs do: published tables need it to the last digit.

    >>> from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_model
    >>> model, test, config = load_model("mini"), load_dataset("mnist-mini"), CertifyConfig(sigma=0.5, n=100)
    >>> store = certify_dataset(model, test, "mini/test", config, selection=Selection(max=2), quiet=True)
    >>> from smoothcert import certified_accuracy, read_results
    >>> certified_accuracy(read_results("mini")[0], [0.0, 10.0]).tolist()
    [1.0, 0.0]
    """
    return (
        _share(c, correct_radii(c, rounded), radii)
        if c.labelled
        else np.full(np.shape(radii), np.nan)
    )


def certified_share(c: Certificates, radii: ArrayLike, rounded: bool = False) -> Floats:
    """(1/N) #{i : no abstention and R_i >= r}: the answers that are certified at r, whether right or wrong."""
    return _share(c, np.sort(input_radii(c, rounded)[~c.abstained]), radii)


def curve_values(c: Certificates, radii: ArrayLike, rounded: bool = False) -> Floats:
    """What the curve of a run shows: certified accuracy, or certified share where there are no labels."""
    return (
        certified_accuracy(c, radii, rounded) if c.labelled else certified_share(c, radii, rounded)
    )


def _share(c: Certificates, own: Floats, radii: ArrayLike) -> Floats:
    below = np.searchsorted(own, np.asarray(radii, dtype=np.float64), side="left")
    return np.where(c.tested_at(radii), (len(own) - below) / c.rows, np.nan)


def certified_accuracy_whp(
    c: Certificates,
    radii: ArrayLike,
    *,
    alpha: float | None = None,
    rho: float = 0.001,
    rounded: bool = False,
) -> Floats:
    """A lower bound of the share of inputs that truly are robust at r, valid with probability 1 - rho.

    Each certificate may fail with probability alpha; by Bernstein's inequality, with probability at least 1 - rho no
    more than alpha N + sqrt(2 alpha (1 - alpha) N ln(1/rho)) + ln(1/rho)/3 of them do:
    CA(r) - alpha - sqrt(2 alpha (1 - alpha) ln(1/rho) / N) - ln(1/rho) / (3 N), at least 0.
    Cohen et al. (2019, appendix) and code that follows them have no 2 under the root. That does not hold at rho, so
    their values are larger: by 0.0015 for 500 inputs and alpha = rho = 0.001.
    """
    alpha = c.alpha_each if alpha is None else alpha
    if alpha is None:
        raise ConfigError(
            f"{c.name}: alpha is not recorded in this log; give alpha (the field's tables use 0.001)"
        )
    if not (0 < alpha < 1 and 0 < rho < 1):
        raise ConfigError(f"expected alpha and rho between 0 and 1, found {alpha} and {rho}")
    doubt = np.log(1 / rho)
    loss = alpha + np.sqrt(2 * alpha * (1 - alpha) * doubt / c.rows) + doubt / (3 * c.rows)
    return np.asarray(np.maximum(certified_accuracy(c, radii, rounded) - loss, 0.0))


def linf_radius(radius: ArrayLike, dimension: int) -> Floats:
    """The l-infinity radius within an l2 radius: R / sqrt(d), d the number of an input's pixel values, rounded down."""
    from smoothcert.statistics import bounds

    return bounds.linf_radius(radius, dimension)


def certified_accuracy_linf(
    c: Certificates, epsilons: ArrayLike, dimension: int, rounded: bool = False
) -> Floats:
    """CA in l-infinity norm: (1/N) #{i : correct_i and R_i / sqrt(d) >= epsilon}, for each epsilon."""
    if not c.labelled:
        return np.full(np.shape(epsilons), np.nan)
    own = linf_radius(correct_radii(c, rounded), dimension)
    below = np.searchsorted(own, np.asarray(epsilons, dtype=np.float64), side="left")
    return np.asarray((len(own) - below) / c.rows)


def average_certified_radius(c: Certificates, rounded: bool = False) -> float:
    """ACR = (1/N) sum_i correct_i R_i: errors and abstentions count as 0. nan if only some radii were tested.

    >>> from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_model
    >>> model, test, config = load_model("mini"), load_dataset("mnist-mini"), CertifyConfig(sigma=0.5, n=100)
    >>> store = certify_dataset(model, test, "mini/test", config, selection=Selection(max=2), quiet=True)
    >>> from smoothcert import average_certified_radius, read_results
    >>> 0.5 < average_certified_radius(read_results("mini")[0]) < 0.8
    True
    """
    known = c.tested_radii is None and c.labelled
    return float(correct_radii(c, rounded).sum() / c.rows) if known else float("nan")


def average_radius(c: Certificates, rounded: bool = False) -> float:
    """(1/N) sum_i R_i: answers count, right or wrong, and abstentions are 0. nan if only some radii were tested."""
    return float(input_radii(c, rounded).sum() / c.rows) if c.tested_radii is None else float("nan")


def clean_accuracy(c: Certificates) -> float:
    """CA(0): the share of inputs answered correctly, without abstention; nan if radius 0 was not tested."""
    return float(certified_accuracy(c, 0.0))


def abstention_rate(c: Certificates) -> float:
    """(1/N) #{i : predict_i = -1}; nan if radius 0 was not tested: then -1 only means that no tested radius holds."""
    return float(c.abstained.mean()) if c.tested_at(0.0) else float("nan")


def median_radius(c: Certificates) -> float:
    """The median of R_i over the correct inputs; nan if there is none, or if only some radii were tested."""
    own = correct_radii(c)
    return float(np.median(own)) if len(own) and c.tested_radii is None else float("nan")


def certified_curve(c: Certificates, rounded: bool = False) -> tuple[Floats, Floats]:
    """CA (`curve_values`) as the exact step function: `radii` ascending from 0, and CA on (radii[i-1], radii[i]].

    Beyond the last radius it is 0. The area under it is the ACR: sum_i CA(radii[i]) (radii[i] - radii[i-1]).
    """
    radii = np.union1d([0.0], input_radii(c, rounded)[c.counted])
    return radii, curve_values(c, radii, rounded)


def default_radii(results: Sequence[Certificates], columns: int = 10) -> list[float]:
    """Multiples of 0.25, or of another step if these are too many or none, up to the largest certified radius.

    Halving and doubling keeps every radius exact in binary, so that ties fall as in the published tables. Radii
    that runs were asked to test are always among them, and alone if no run measured others. L-infinity radii are
    multiples of 1/255.
    """
    tested = {r for c in results for r in c.tested_radii or ()}
    if tested and all(c.tested_radii is not None for c in results):
        return sorted(tested)
    top = max(
        (float(c.radius[c.counted].max(initial=0.0)) for c in results if c.tested_radii is None),
        default=0.0,
    )
    linf = {c.norm for c in results} == {"linf"}
    unit, step = (1 / 255, 1.0) if linf else (1.0, 0.25)
    while top / unit // step + 1 > columns:
        step *= 2
    while 0 < top / unit < step and step > 1e-3:
        step /= 2
    # divided, not multiplied by 1/255: 2/255 must be the double that a user's 2/255 is
    return sorted(
        {i * step / (255 if linf else 1) for i in range(int(top / unit // step) + 1)} | tested
    )
