"""Philox and integer noise written out."""

from bisect import bisect_right

from smoothcert.keys import derive


def plain(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b % 2**32, a >> 32 ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def plain_uniform(law, values, sample, *, seed, index, stage):
    """u of every coordinate: both words of each, from Philox at two counters."""
    key = derive(seed, f"{law} noise", bits=64)
    stage = ["selection", "estimation", "prediction"].index(stage)
    first, second = (
        [
            word
            for group in range(values)
            for word in plain((group, sample, index, top + stage), (key % 2**32, key >> 32))
        ]
        for top in (0, 2**31)
    )
    return [w * 2**30 + v // 4 for w, v in zip(first, second, strict=True)][:values]


def plain_noise(thresholds, u):
    """T of laws.py: the thresholds that are at most u are counted."""
    return bisect_right(thresholds, u) - len(thresholds) // 2
