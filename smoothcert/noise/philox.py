"""Philox4x32-10 in PyTorch integers: the same random words for the same counters on every device.

Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011). For a fixed key it permutes the
128-bit counters, so streams never overlap if no counter is used twice. Words are kept in int64, whose products wrap
around as the algorithm wants: only their 64 bits matter, not their sign.
"""

from __future__ import annotations

from torch import Tensor

Words = tuple[Tensor, Tensor, Tensor, Tensor]

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox4x32(counter: Words, key: tuple[int, int]) -> Words:
    """Four random 32-bit words (in int64) for each counter of four such words, which broadcast against each other."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        # words that do not vary along an axis yet stay small: the first rounds cost next to nothing
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = _high(b) ^ (c1 ^ k0), b & _WORD, _high(a) ^ (c3 ^ k1), a & _WORD
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0, c1, c2, c3


def _high(product: Tensor) -> Tensor:
    return (product >> 32) & _WORD  # masked, since shifting repeats the sign
