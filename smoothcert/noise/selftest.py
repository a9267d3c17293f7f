"""Is the noise what it claims to be? Statistical tests on the very streams that certification draws from.

The noise of a black image is sorted into cells whose exact probabilities are known: the integer steps themselves, or,
for float noise, cells of a hundredth of sigma. Moments, distribution, tails and bits are all tested on this one
table of counts; what it cannot show (repeats, dependence) is tested on the values in order. Keys are fixed, so a
check that passes today passes tomorrow: run it after changing the device, the driver or PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, kolmogorov, ndtr
from torch import Tensor

from smoothcert.config import CertifyConfig, NoiseMode
from smoothcert.config.choices import law_of
from smoothcert.errors import ConfigError
from smoothcert.noise.exact import Stage, place_of
from smoothcert.noise.reference import ReferenceNoise
from smoothcert.noise.streams import NoisyCopies
from smoothcert.noise.thresholds import BITS, padding
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import law_named

Array = NDArray[np.float64]

FALSE_ALARM = 1e-4
"""Chance that a perfect stream fails any of the checks of one run; shared evenly among them."""

_CDF: dict[str, Callable[[Any], Any]] = {  # of variance 1
    "gaussian": ndtr,
    "uniform": lambda x: np.clip(0.5 + x / np.sqrt(12), 0.0, 1.0),
    "laplace": lambda x: np.where(
        x < 0, 0.5 * np.exp(-abs(x) * 2**0.5), 1 - 0.5 * np.exp(-abs(x) * 2**0.5)
    ),
}
_SHAPE = (1, 28, 28)
_CHUNK = 512
_FINE = 100  # cells per sigma of float noise
_SOURCES: tuple[tuple[Stage, int], ...] = tuple(
    (stage, index) for index in (0, 1, 7) for stage in get_args(Stage)
)


@dataclass(frozen=True)
class Check:
    """`p_value` is the chance that a perfect stream looks at least this bad; the check fails if it is below `bound`."""

    name: str
    statistic: float
    p_value: float
    bound: float

    @property
    def ok(self) -> bool:
        return self.p_value >= self.bound

    def __str__(self) -> str:
        answer = "ok" if self.ok else "FAILED"
        return f"{answer:6} {self.name:38} {self.statistic:12.5g}   p {self.p_value:.3g} (at least {self.bound:.1g})"


def selftest_noise(
    mode: NoiseMode = CertifyConfig.noise,
    *,
    device: str | torch.device = "cpu",
    sigma: float = 0.5,
    values: int = 2**25,
    seed: int = 0,
    copies: Callable[..., NoisyCopies] = NoisyCopies,
) -> list[Check]:
    """All checks of one noise mode on one device, on about `values` numbers; `copies` makes the stream under test."""
    bounds.check_sigma(sigma)
    each = values // (len(_SOURCES) * int(np.prod(_SHAPE)))
    if each < 2:
        raise ConfigError(
            f"the self-test needs at least {len(_SOURCES) * 2 * 784} values, found values={values}"
        )
    image = torch.zeros(_SHAPE, dtype=torch.uint8, device=device)
    scale = _FINE if mode == "float" else 255.0 * sigma  # cells per sigma
    # integer noise is clipped there, on both sides of a black image's 0
    reach = padding(sigma) / sigma
    # cell k holds [k - 1/2, k + 1/2) / scale, in units of sigma; the outermost ones hold all that is beyond
    last = round(reach * scale)
    observed = np.zeros(2 * last + 1)
    seen: list[bytes] = []
    dependence = {"neighbouring values": _Correlation(), "successive samples": _Correlation()}
    stages = _Correlation()
    before: dict[Stage, Tensor] = {}
    for stage, index in _SOURCES:
        stream = copies(image, sigma, mode, seed=seed, index=index, stage=stage)
        for z in _chunks(stream, each, sigma):
            cells = (z * scale).round().clamp(-last, last).long() + last
            observed += torch.bincount(cells.flatten(), minlength=2 * last + 1).cpu().numpy()
            seen += [
                blake2b(row.tobytes(), digest_size=16).digest() for row in z[:, :64].cpu().numpy()
            ]
            dependence["neighbouring values"].add(z[:, :-1], z[:, 1:])
            dependence["successive samples"].add(z[:-1], z[1:])
            for other in before.values():
                stages.add(z[: len(other)], other[: len(z)])
            before = {**before, stage: z}
    checks = [
        *_from_cells(observed, scale, law_of(mode)),
        *(value.check(name) for name, value in dependence.items()),
    ]
    checks += [stages.check("stages and inputs"), _repeats(seen)]
    if mode != "float":
        checks.append(_bits_of_u(law_of(mode), sigma, seed, device, each))
    return [Check(name, statistic, p, FALSE_ALARM / len(checks)) for name, statistic, p in checks]


Result = tuple[str, float, float]  # name, statistic, p-value


def _chunks(stream: NoisyCopies, samples: int, sigma: float) -> Iterator[Tensor]:
    for first in range(0, samples, _CHUNK):
        yield stream.take(first, min(first + _CHUNK, samples)).flatten(1) / sigma


def _from_cells(observed: Array, scale: float, law: str) -> Iterator[Result]:
    n, last = observed.sum(), len(observed) // 2
    cell = np.arange(-last, last + 1)
    below = _CDF[law]((cell[:-1] + 0.5) / scale)  # P(cell <= k)
    p = np.diff(below, prepend=0.0, append=1.0)
    x = cell / scale
    for power, name in enumerate(("mean", "variance", "third moment", "fourth moment"), start=1):
        expected, spread = (p * x**power).sum(), (p * x ** (2 * power)).sum()
        deviation = ((observed / n * x**power).sum() - expected) / np.sqrt(
            (spread - expected**2) / n
        )
        yield name, deviation, _two_sided(deviation)
    distance = np.abs(np.cumsum(observed)[:-1] / n - below).max()
    yield "Kolmogorov-Smirnov", distance, float(kolmogorov(np.sqrt(n) * distance))
    for sigmas in (4, 5):
        beyond = np.abs(x) >= sigmas
        yield (
            f"beyond {sigmas} sigma",
            observed[beyond].sum(),
            _binomial(observed[beyond].sum(), n, p[beyond].sum()),
        )
    # bits of the cell's number, low ones first: a stuck or leaning bit shows in one of them
    deviations = []
    for bit in range(8):
        is_set = (cell + 2**20) >> bit & 1 == 1
        share = p[is_set].sum()
        deviations.append((observed[is_set].sum() / n - share) / np.sqrt(share * (1 - share) / n))
    yield _worst("bits of the noise", np.array(deviations))


def _bits_of_u(
    law: str, sigma: float, seed: int, device: str | torch.device, samples: int
) -> Result:
    """The uniform integers behind integer noise, bit by bit."""
    ones, total = torch.zeros(BITS, dtype=torch.int64, device=device), 0
    for stage, index in _SOURCES:
        place = place_of(torch.zeros(_SHAPE, dtype=torch.uint8), index, stage)
        source = ReferenceNoise(
            law_named(law), sigma, 784, torch.device(device), seed=seed, place=place
        )
        u = source.uniform(0, min(_CHUNK, samples))
        ones += torch.stack([(u >> bit & 1).sum() for bit in range(BITS)])
        total += u.numel()
    return _worst(
        "bits of the uniform integers", (ones.cpu().numpy() / total - 0.5) * 2 * np.sqrt(total)
    )


def _repeats(seen: list[bytes]) -> Result:
    """Samples whose first 64 values come twice: with hundreds of noise levels, that never happens by chance."""
    repeated = len(seen) - len(set(seen))
    return "repeated samples", repeated, float(repeated == 0)


class _Correlation:
    """Of pairs of values with mean 0 and variance 1; over n independent pairs, its sum is normal with variance n."""

    def __init__(self) -> None:
        self._sum, self._pairs = 0.0, 0

    def add(self, a: Tensor, b: Tensor) -> None:
        self._sum += float((a * b).sum(dtype=torch.float64))
        self._pairs += a.numel()

    def check(self, name: str) -> Result:
        deviation = self._sum / np.sqrt(self._pairs)
        return f"correlation of {name}", deviation, _two_sided(deviation)


def _worst(name: str, deviations: Array) -> Result:
    """The largest of several normal deviations, its p-value corrected for their number."""
    largest = float(deviations[np.abs(deviations).argmax()])
    return name, largest, min(1.0, len(deviations) * _two_sided(largest))


def _two_sided(deviation: float) -> float:
    return float(2 * ndtr(-abs(deviation)))


def _binomial(count: float, n: float, p: float) -> float:
    return float(
        min(1.0, 2 * min(bdtr(count, int(n), p), bdtrc(count - 1, int(n), p) if count else 1.0))
    )
