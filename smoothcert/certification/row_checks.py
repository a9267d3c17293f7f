"""Does a network treat every row of a batch alone, and always alike? Certificates hold for no other.

The theorem is about a function of one image. A network that looks at other rows of its batch, or draws random numbers,
is none: its counts say nothing about images nearby. So rows are evaluated again, in other company, before anything is
certified; audit.py does so with a few while it is.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from smoothcert.devices.memory import is_out_of_memory
from smoothcert.errors import NoFunctionError
from smoothcert.kernels.comparing import comparable, distances
from smoothcert.kernels.prepare import Prepared, plain_network
from smoothcert.kernels.state import require_same, state_of

_AGAIN, _PAIRS = 4, 16  # chance that falls alike each time is not seen
_RANDOM = (
    "the model answers the same batch twice with other logits, so it has no fixed answer that could be certified. The "
    "usual causes are dropout that stays on (nn.functional.dropout without training=self.training), test-time "
    "augmentation, or other random numbers in its forward: take the chance out"
)
MIXED = (
    "the answer to an image depends on {}: a certificate is about a network that treats each image alone. The usual "
    "causes are BatchNorm with track_running_stats=False, a mean or softmax over the batch (dimension 0), and a "
    "network left in training mode"
)
_REMEMBERS = (
    "the answer to an image depends on the batches that the model has seen before: a certificate is about a network "
    "that never changes. The usual causes are statistics or scales that are taken from the first batch, and caches "
    "of answers: fix them before the network is given away, as buffers or constants"
)
_ROUNDINGS = 4  # units in the last place of a logit, by which a margin may differ in like batches


@torch.inference_mode()
def check_rows(network: Prepared, rows: Tensor, near: float) -> bool:
    """Raise a `NoFunctionError` if `rows` [b, C, H, W] are answered otherwise in other company.

    That is, if a score changes by more than `near`, or if a vote does, and not by rounding. False if it cannot answer
    them at all: that is left to the first real batch, where it is said in words.
    """
    expected = _logits(network, rows)
    if not comparable(expected) or len(expected) != len(rows):
        return False
    state = None if network.module is None else state_of(network.module)
    count, half = len(rows), len(rows) // 2
    strange = torch.cat([rows[:half], 2 - 3 * rows[half:]])  # negatives of high contrast
    variants = [
        *[(rows, range(count), None)] * _AGAIN,
        (rows.flip(0), range(count - 1, -1, -1), "the order of the images in its batch"),
        (strange, range(half), "the other images in its batch"),
        (rows[: half - 1], range(half - 1), "the number of images in its batch"),
        *[
            (rows[i : i + 1], range(i, i + 1), "the other images in its batch")
            for i in (0, half, count - 1)
        ],
        *[(rows[:2], range(2), "chance, or on the number of images in its batch")] * _PAIRS,
    ]
    for batch, same, reason in variants:
        found = _logits(network, batch)
        if found is None or found.shape != (len(batch), expected.shape[1]):
            continue  # a network may fail on a single image, and is never given one
        wanted = expected[list(same)]
        found = found[: len(same)]
        alike = distances(found, wanted).amax(1) <= near  # never so for NaN
        moved = alike & (found.argmax(1) != wanted.argmax(1))
        if not bool((alike | wanted.isnan().any(1)).all()) or any(
            mixes(
                network,
                batch[row],
                Sighting(wanted[row], count, same[row]),
                Sighting(found[row], len(batch), row),
            )
            for row in moved.nonzero().flatten().tolist()
        ):
            raise NoFunctionError(_RANDOM if reason is None else MIXED.format(reason))
    if network.module is not None and state is not None:
        require_same(state, state_of(network.module))
    return True


class Sighting(NamedTuple):
    """What was answered to an image that stood at some place of a batch of some size."""

    logits: Tensor
    size: int
    place: int


def mixes(network: Prepared, image: Tensor, first: Sighting, second: Sighting) -> bool:
    """Whether the companions had a part in two answers to one image that differ.

    They had none if the margin between the two classes is that among copies of the image alone, in a batch of the same
    size and at the same place. A margin is a difference within a row: what is added to all its logits does not count.
    """
    a, b = (int(seen.logits.argmax()) for seen in (first, second))
    if a == b:
        a, b = first.logits.topk(2).indices.tolist()
    for logits, size, place in (first, second):
        alone = [_logits(network, image.expand(size, *image.shape)) for _ in range(2)]
        rows = [logits, *(found[place] for found in alone if found is not None)]
        if len(rows) < 3:
            return True
        margin, *margins = (float(row[a].double() - row[b].double()) for row in rows)
        size_of = max(abs(float(row[label])) for row in rows for label in (a, b))
        eps = torch.finfo(logits.dtype).eps if logits.is_floating_point() else 0.0
        rounding = 8 * abs(margins[0] - margins[1]) + _ROUNDINGS * eps * size_of
        if margin != margins[0] and not abs(margin - margins[0]) <= rounding:
            return True
    return False


@torch.inference_mode()
def check_memory(model: nn.Module, rows: Tensor, strange: Tensor, near: float) -> None:
    """Raise a `NoFunctionError` if copies of `model` that saw other batches first answer `rows` otherwise.

    Lists and dictionaries of a model, which no fingerprint covers, may hold something of the first batch.
    """
    shape, device = tuple(rows.shape[1:]), rows.device
    expected: Tensor | None = None
    for before in ((), (rows.flip(0),), (strange, 2 - 3 * rows)):
        network = plain_network(deepcopy(model), shape, device)
        found = [_logits(network, batch) for batch in (*before, rows, rows)][-2:]
        first, again = found
        if not comparable(first) or not comparable(again) or len(first) != len(rows):
            return  # said in words by the first real batch
        expected = first if expected is None else expected
        known = ~expected.isnan().any(1)
        steady = first.argmax(1) == again.argmax(1)  # else it is for the checks of rows
        far = ~(distances(first, expected).amax(1) <= near)
        if bool((known & steady & (far | (first.argmax(1) != expected.argmax(1)))).any()):
            raise NoFunctionError(_REMEMBERS)


def _logits(network: Prepared, rows: Tensor) -> Tensor | None:
    try:
        x = network.inputs(len(rows))
        x.copy_(rows)
        found = network.forward(x)
    except Exception as error:  # a network of the user's may fail in any way
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        return None
    return found.clone() if isinstance(found, Tensor) else None
