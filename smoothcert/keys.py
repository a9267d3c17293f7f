"""Keys for random streams: every random number of a run is a function of the seed and of what it is for."""

from __future__ import annotations

import operator
from hashlib import blake2b


def derive(seed: int, *purpose: str | int, bits: int = 63) -> int:
    """A key of `bits` bits for one purpose, e.g. ``derive(seed, "shuffle", epoch)``.

    A hash, so that neighbouring seeds or epochs give unrelated keys; 63 bits fit ``torch.Generator.manual_seed``.
    """
    words = [
        part if isinstance(part, str) else operator.index(part) for part in (seed, *purpose)
    ]  # NumPy's ints too
    text = repr(tuple(words)).encode()
    return int.from_bytes(blake2b(text, digest_size=16).digest(), "big") >> (128 - bits)
