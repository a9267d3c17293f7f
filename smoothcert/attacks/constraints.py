"""Where an attack may go: balls around images, the range of pixels, noise of unchanged mean and scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Clamp = Literal["first", "last", "never"]  # of images to [0,1]: before or after the ball


def norms(v: Tensor) -> Tensor:
    """l2 norm of each sample, [B, 1, 1, ...]."""
    length: Tensor = torch.linalg.vector_norm(v, dim=tuple(range(1, v.ndim)), keepdim=True)
    return length


def project(point: Tensor, centre: Tensor, radius: float) -> Tensor:
    """Each point, or the nearest to it on the sphere of that radius around its centre if it lies outside."""
    d = point - centre
    return centre + d * (radius / norms(d).clamp(min=1e-30)).clamp(max=1.0)


@dataclass(frozen=True)
class Within:
    """The l2 ball around each centre (no ball where `radius` is None), and images kept in [0,1] before or after."""

    centre: Tensor
    radius: float | None
    clamp: Clamp = "last"

    def __call__(self, point: Tensor) -> Tensor:
        if self.clamp == "first":
            point = point.clamp(0.0, 1.0)
        if self.radius is not None:
            point = project(point, self.centre, self.radius)
        return point.clamp(0.0, 1.0) if self.clamp == "last" else point


@dataclass(frozen=True)
class GaussianLike:
    """For attacks on the noise itself (CAT-RS): within the ball around it, then with its mean and its scale again.

    As in the published code the scale is the root mean square about 0, and the point is centred before it is scaled.
    """

    noise: Tensor
    radius: float

    def __call__(self, point: Tensor) -> Tensor:
        point = project(point, self.noise, self.radius)
        (mean, scale), (point_mean, point_scale) = _moments(self.noise), _moments(point)
        return mean + scale * (point - point_mean) / point_scale


def with_moments_of(noise: Tensor, point: Tensor) -> Tensor:
    """Each point with the mean and the standard deviation of its noise: CAT-RS as printed."""
    (scale, mean), (point_scale, point_mean) = (
        torch.std_mean(v, tuple(range(1, v.ndim)), correction=0, keepdim=True)
        for v in (noise, point)
    )
    return mean + scale * (point - point_mean) / point_scale


def _moments(v: Tensor) -> tuple[Tensor, Tensor]:
    dims = tuple(range(1, v.ndim))
    return v.mean(dims, keepdim=True), v.square().mean(dims, keepdim=True).sqrt()
