"""What decides a network's answers: a prepared copy is thrown away when any of it has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.errors import NoFunctionError

_PIECE = {"cpu": 2**20, "cuda": 2**24}  # that fits caches, or keeps a GPU busy
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ODD = 0x5851F42D4C957F2D  # multiplied by an odd number, a sum modulo 2^64 keeps every bit


@dataclass(frozen=True)
class State:
    """All that decides the answers of a network, as far as it lies in its modules."""

    places: tuple[tuple[int, int, tuple[int, ...]], ...]  # of tensors
    checksums: tuple[int, ...]
    modules: tuple[object, ...]
    tensors: tuple[tuple[str, int], ...] = field(compare=False)  # name and version of each
    names: tuple[str, ...] = field(compare=False)  # of modules

    def changed(self, now: State) -> str | None:
        """What is another thing now, by name as far as that can be told; None if nothing is."""
        if self == now:
            return None
        found = [
            f"{name or 'the network'}.{key}"
            for name, before, after in zip(self.names, self.modules, now.modules, strict=False)
            for key, value in _entries(before)
            if dict(_entries(after)).get(key) != value
        ]
        found += [
            name
            for (name, version), place, (_, then), there in zip(
                self.tensors, self.places, now.tensors, now.places, strict=False
            )
            if (version, place) != (then, there)
        ]
        return ", ".join(found[:3]) or "its weights, buffers, hooks or modules"


def require_same(state: State, now: State) -> None:
    if changed := state.changed(now):
        raise NoFunctionError(
            f"the model has changed while it was certified ({changed}): a certificate is about a network that stays as "
            "it is. Do not train it or move its weights meanwhile, and let its forward write to no buffer, weight or "
            "attribute"
        )


def state_of(model: nn.Module) -> State:
    """A value that differs after a change of weights, buffers, hooks, forwards or plain attributes of any module.

    Contents are looked at, since versions of tensors are not enough: writing through ``.data``, replaying a CUDA graph
    or a kernel of one's own leaves them as they were.
    """
    modules = dict(model.named_modules())
    named = [
        (name, t)
        for name, t in (*model.named_parameters(), *model.named_buffers(), *_loose(modules))
        if not nn.parameter.is_lazy(t)
    ]
    return State(
        tuple((id(t), t.data_ptr(), tuple(t.shape)) for _, t in named),
        _checksums([t for _, t in named]),
        tuple(_plain(module) for module in modules.values()),
        tuple((name, 0 if t.is_inference() else t._version) for name, t in named),
        tuple(modules),
    )


def _loose(modules: dict[str, nn.Module]) -> list[tuple[str, Tensor]]:
    """Tensors that are attributes of a module, but not registered as its buffers."""
    return [
        (f"{name}.{key}".lstrip("."), value)
        for name, module in modules.items()
        for key, value in vars(module).items()
        if isinstance(value, Tensor)
    ]


def _entries(plain: object) -> tuple[tuple[str, object], ...]:
    return plain[-1] if isinstance(plain, tuple) else ()


def _plain(module: nn.Module) -> object:
    # hooks and forwards themselves, not their ids: an id may come again, for another function
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    # scripted ones have none
    forwards = vars(module).get("forward"), getattr(type(module), "forward", None)
    values = tuple(
        (k, v)
        for k, v in vars(module).items()
        if isinstance(v, bool | int | float | str) and k != "training"
    )
    return type(module), hooks, forwards, values


@torch.no_grad()
def _checksums(tensors: list[Tensor]) -> tuple[int, ...]:
    """Of the tensors of each device and width: the sum of their bits as integers modulo 2^64, each with an odd weight.

    Not a sum of floats, in which an infinite or very large value hides every other.
    """
    groups: dict[tuple[str, torch.dtype], list[Tensor]] = {}
    for bits in (_bits(t) for t in tensors if t.device.type != "meta"):
        groups.setdefault((str(bits.device), bits.dtype), []).append(bits)
    return tuple(_weighted_sum(torch.cat(group)) for group in groups.values())


def _weighted_sum(bits: Tensor) -> int:
    total = torch.zeros((), dtype=torch.int64, device=bits.device)
    size = _PIECE.get(bits.device.type, 2**20)
    for place, piece in enumerate(torch.split(bits, size)):
        number = torch.arange(place * size, place * size + len(piece), device=bits.device)
        total += (piece * ((2 * number + 1) * _ODD)).sum()
    return int(total)


def _bits(tensor: Tensor) -> Tensor:
    """The bits of each number as an integer, flat; a complex number is two."""
    flat: Any = tensor.detach().contiguous().flatten()
    if flat.is_complex():
        flat = torch.view_as_real(flat).flatten()
    integers: Tensor = flat.view(_INTEGERS[flat.element_size()])
    return integers
