"""What decides a network's answers: a prepared copy is thrown away when any of it has changed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_PIECE = 2**20


def state_of(model: nn.Module) -> object:
    """A value that differs after a change of weights, buffers, hooks or plain attributes of any module.

    Contents are looked at, since versions of tensors are not enough: writing through ``.data``, replaying a CUDA graph
    or a kernel of one's own leaves them as they were.
    """
    tensors = [t for t in (*model.parameters(), *model.buffers()) if not nn.parameter.is_lazy(t)]
    places = tuple((id(t), t.data_ptr(), tuple(t.shape)) for t in tensors)
    return places, _checksum(tensors), tuple(_plain(module) for module in model.modules())


def _plain(module: nn.Module) -> object:
    hooks = (len(module._forward_hooks), len(module._forward_pre_hooks), id(vars(module).get("forward")))
    values = tuple(
        (k, v) for k, v in vars(module).items() if isinstance(v, bool | int | float | str) and k != "training"
    )
    return type(module), hooks, values


@torch.no_grad()
def _checksum(tensors: list[Tensor]) -> tuple[float, ...]:
    """Of each device's tensors: the sum of all values, each with a weight of its own."""
    sums = []
    for device in sorted({str(t.device) for t in tensors if t.device.type != "meta"}):
        flat = torch.cat([t.detach().flatten().float() for t in tensors if str(t.device) == device])
        weight = torch.linspace(1.0, 2.0, min(_PIECE, max(1, len(flat))), dtype=torch.float64, device=device)
        total = torch.zeros((), dtype=torch.float64, device=device)
        for place, piece in enumerate(torch.split(flat, _PIECE)):
            total += (place + 1) * torch.dot(piece.double(), weight[: len(piece)])
        sums.append(float(total))
    return tuple(sums)
