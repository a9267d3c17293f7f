"""What each of several processes has for itself in state.pt: sums of losses, generators, BatchNorm statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from smoothcert.training.ranks import Ranks
from smoothcert.training.steps import Stepper

_SUMS = ("sums", "pseudo_labelled_sums")


def gathered(stepper: Stepper, model: nn.Module, ranks: Ranks) -> dict[str, Any]:
    """The main process's own state, with those of the others: all processes call this, and the main one saves it."""
    own: dict[str, Any] = {**stepper.state(), "rng": torch.get_rng_state()}
    if ranks.device.type == "cuda":
        own["cuda_rng"] = torch.cuda.get_rng_state(ranks.device)
    if not ranks.is_main:  # those of the main one are in its model
        own["buffers"] = {name: buffer.cpu() for name, buffer in model.named_buffers()}
    main, *others = ranks.gather(own)
    return main | ({"others": others} if others else {})


def restore(
    state: Mapping[str, Any], stepper: Stepper, model: nn.Module, ranks: Ranks, seed: int
) -> None:
    """Put this process's own state back.

    A state of another number of processes has no generators for these: they are then seeded by `seed`, their statistics
    are those of the model, and the main process takes over the sums of all.
    """
    states = [state, *state.get("others", [])]
    if len(states) != ranks.world_size:
        torch.manual_seed(seed)  # that of the GPU too
        stepper.load_state(
            {**state, **{key: _added([one.get(key, {}) for one in states], ranks) for key in _SUMS}}
        )
        return
    own = states[ranks.rank]
    stepper.load_state(own)
    torch.set_rng_state(own["rng"])
    if "cuda_rng" in own and ranks.device.type == "cuda":
        torch.cuda.set_rng_state(own["cuda_rng"], ranks.device)
    for name, buffer in model.named_buffers():
        if name in own.get("buffers", {}):
            buffer.copy_(own["buffers"][name])


def _added(sums: list[dict[str, Any]], ranks: Ranks) -> dict[str, Any]:
    return {name: sum(one[name] for one in sums) * float(ranks.is_main) for name in sums[0]}
