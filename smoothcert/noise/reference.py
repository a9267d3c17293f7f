"""Integer noise by its definition, word for word: for CUDA where Triton does not run, and for checks.

Both words of every coordinate are computed, and u is sought among all thresholds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothcert.noise.exact import SECOND, Place, check_samples, key_of
from smoothcert.noise.philox import philox4x32
from smoothcert.noise.thresholds import thresholds
from smoothcert.statistics.laws import Law


class ReferenceNoise:
    """The integer noise T of one place: ``draw(a, b)`` gives samples a to b-1, float32 [b-a, values]."""

    def __init__(
        self,
        law: Law,
        sigma: float,
        values: int,
        device: torch.device,
        *,
        seed: int,
        place: Place,
    ) -> None:
        self._values, self._place, self._key = values, place, key_of(seed, law)
        self._thresholds = torch.tensor(thresholds(law, sigma), dtype=torch.int64, device=device)

    def draw(self, first: int, last: int) -> Tensor:
        found = torch.searchsorted(
            self._thresholds, self.uniform(first, last), right=True, out_int32=True
        )
        return found.float().sub_(len(self._thresholds) // 2)

    def uniform(self, first: int, last: int) -> Tensor:
        """u, uniform on 0 ... 2^62 - 1: int64 [last-first, values]."""
        third, fourth = self._place
        check_samples(last)
        device = self._thresholds.device
        group = torch.arange(-(-self._values // 4), device=device)[None, :]
        sample = torch.arange(first, last, device=device)[:, None]

        def words(fourth: int) -> Tensor:
            c2, c3 = (torch.full((1, 1), word, device=device) for word in (third, fourth))
            return torch.stack(philox4x32((group, sample, c2, c3), self._key), dim=2)

        u = words(fourth) << 30 | words(fourth + SECOND) >> 2
        return u.flatten(1)[:, : self._values].contiguous()
