"""Does a network treat every row of a batch alone, and always alike? Certificates hold for no other.

The theorem is about a function of one image. A network that looks at other rows of its batch, or draws random numbers,
is none: its counts say nothing about images nearby. So rows are evaluated again, in other company, before anything is
certified; network.py does so with a few while it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothcert.devices.memory import is_out_of_memory
from smoothcert.errors import ModelError
from smoothcert.kernels.comparing import comparable, distances
from smoothcert.kernels.prepare import Prepared

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


@torch.inference_mode()
def check_rows(network: Prepared, rows: Tensor, near: float) -> bool:
    """Raise a `ModelError` if a score of `rows` [b, C, H, W] changes by more than `near` in other company.

    False if it cannot answer them at all: that is left to the first real batch, where it is said in words.
    """
    expected = _logits(network, rows)
    if not comparable(expected) or len(expected) != len(rows):
        return False
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
        alike = distances(found[: len(same)], wanted).amax(1) <= near  # never so for NaN
        if not bool((alike | wanted.isnan().any(1)).all()):
            raise ModelError(_RANDOM if reason is None else MIXED.format(reason))
    return True


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
