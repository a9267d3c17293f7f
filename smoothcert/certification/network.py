"""The network that is sampled from: prepared, checked, and looked at again while it works."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.certification.audit import Audit
from smoothcert.certification.row_checks import check_memory, check_rows
from smoothcert.config import CertifyConfig
from smoothcert.devices.memory import NO_MEMORY, SMALLEST, is_out_of_memory
from smoothcert.errors import ModelError
from smoothcert.kernels.comparing import synthetic_images
from smoothcert.kernels.prepare import Prepared, plain_network, prepare
from smoothcert.kernels.state import State, require_same, state_of
from smoothcert.keys import derive
from smoothcert.models.build import check_shape
from smoothcert.noise.streams import NoisyCopies

_EXAMPLES = SMALLEST // 2  # noisy copies of the first image, beside as many synthetic images


@dataclass(eq=False)
class Network:
    prepared: Prepared
    classes: int
    audit: Audit = field(repr=False)
    state: State | None = field(repr=False)  # of the module that is run, when it was ready

    def require_unchanged(self) -> None:
        """Raise a `NoFunctionError` if the module that is run has changed since it was ready."""
        module = self.prepared.module
        if module is not None and self.state is not None:
            require_same(self.state, state_of(module))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [b, classes] of a batch as `prepared.inputs` lays it out."""
        return check_shape(_answer(self.prepared, x), len(x), self.classes)

    def answer(self, x: Tensor, count: int) -> Tensor:
        """The same for the first `count` images, whose votes count: some of them may be looked at again."""
        chosen = self.audit.chosen(len(x), count)
        rows = x[chosen] if chosen else None  # a copy, since a forward may change its input
        logits = self.forward(x)[:count]
        if math.isinf(self.prepared.spread) and not bool(logits.isnan().any()):
            raise ModelError(
                f"the model answers a batch of {len(x)} images, but none of {SMALLEST} probe images, so that it cannot "
                "be checked whether it treats each image alone: let it take batches of any size, and values outside "
                "[0, 1], which noisy images have"
            )
        if rows is not None:
            logits = logits.clone()  # kernels may reuse the memory
            self.audit.take(rows, logits[chosen], chosen, len(x))
        return logits


def _answer(prepared: Prepared, x: Tensor) -> object:
    """What a network returns for a batch."""
    try:
        return prepared.forward(x)
    except Exception as error:  # a network of the user's may fail in any way
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        kind = str(x.dtype).removeprefix("torch.")
        raise ModelError(
            f"the model could not take a {kind} batch of shape {list(x.shape)}: check the image's size, the "
            f"channel count and the type of the weights. It says: {error}"
        ) from error


def _count_classes(plain: Prepared, x: Tensor) -> int:
    """How many classes a network tells apart in images like these."""
    with torch.inference_mode():
        logits = _answer(plain, x)
    classes = logits.shape[-1] if isinstance(logits, Tensor) and logits.ndim else 2
    return check_shape(logits, len(x), max(classes, 2)).shape[1]


def ready_network(
    model: nn.Module, image: Tensor, config: CertifyConfig, seed: int, classes: int | None = None
) -> Network:
    """The model, on the device of `image` [C, H, W], made ready for images like it; refused if it mixes rows."""
    shape, device = tuple(image.shape), image.device
    # a seed of their own: what the checks have seen must not decide about the samples that count
    where: dict[str, Any] = {"seed": derive(seed, "examples"), "index": 0, "stage": "selection"}
    examples = NoisyCopies(image, config.sigma, config.noise, **where).take(0, _EXAMPLES)
    synthetic = synthetic_images(shape, device)
    rows = torch.cat([synthetic[::2], examples])
    try:
        fresh, company = deepcopy(model), deepcopy(model)  # they have seen no batch yet
    except Exception:  # it may hold anything
        fresh, company = None, model
    plain = plain_network(company, shape, device)
    try:
        ready = prepare(model, shape, device, config.precision, config.kernels, examples)
        state = None if ready.module is None else state_of(ready.module)
        for network, near in ((plain, ready.near("float32")), (ready, ready.near())):
            if not check_rows(network, rows, near):
                check_rows(network, torch.cat([examples, examples]), near)
        if fresh is not None:
            check_memory(fresh, examples, synthetic[::2], ready.near("float32"))
        if classes is None:
            classes = _count_classes(plain, torch.cat([examples, examples]))
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise ModelError(NO_MEMORY) from error
        raise
    return Network(ready, classes, Audit(ready, plain, synthetic), state)
