"""Ensemble: several classifiers that answer together."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from smoothcert.errors import ConfigError


class Ensemble(nn.Module):
    """The mean of the members' logits, before any softmax (Horvath et al. 2022, arXiv:2106.06946).

    All members see the same noisy image, and the largest mean logit is one vote. So the ensemble is a base classifier
    like any other, and CERTIFY's guarantee holds for it unchanged. Logits vary less under noise when they are averaged,
    which is why its votes agree more often than those of a member.
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ConfigError("an ensemble has at least one member, found none")

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([member(x) for member in self.members]).mean(0)
