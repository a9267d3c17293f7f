"""Philox and integer noise written out."""

import hashlib
from bisect import bisect_right

from smoothcert.keys import derive


def plain(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b % 2**32, a >> 32 ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def plain_place(pixels, shape, index, stage):
    """The third and fourth word of the counters: 32 and 29 bits of a hash, and two bits of the stage."""
    text = f"({index}, ({', '.join(map(str, shape))}), 'uint8')".encode() + bytes(pixels)
    digest = hashlib.blake2b(text, digest_size=8).hexdigest()
    bits = f"{int(digest, 16):064b}"
    stages = {"selection": "00", "estimation": "01", "prediction": "10"}
    return int(bits[32:], 2), int(bits[:29] + stages[stage], 2)


def plain_uniform(law, values, sample, *, seed, place):
    """u of every coordinate: both words of each, from Philox at two counters."""
    key = derive(seed, f"{law} noise", bits=64)
    third, fourth = place
    first, second = (
        [
            word
            for group in range(values)
            for word in plain((group, sample, third, top + fourth), (key % 2**32, key >> 32))
        ]
        for top in (0, 2**31)
    )
    return [w * 2**30 + v // 4 for w, v in zip(first, second, strict=True)][:values]


def plain_noise(thresholds, u):
    """T of thresholds.py: the thresholds that are at most u are counted."""
    return bisect_right(thresholds, u) - len(thresholds) // 2
