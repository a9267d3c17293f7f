"""Any network as a GPU likes to train it: channels-last layout, and layers in bfloat16 where that was asked for."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def for_training(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """`model` in channels-last layout, or with bfloat16 a module around it. Parameters stay its own, in float32."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Autocast(model) if dtype == torch.bfloat16 else model


class Autocast(nn.Module):
    """Layers in bfloat16 where PyTorch deems it safe; logits in float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        # no cache of cast weights: a captured graph would keep those of the step that it was captured in
        with torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False):
            logits: Tensor = self.model(x)
        return logits.float()
