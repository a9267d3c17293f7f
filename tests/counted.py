"""Certificates of given counts."""

import numpy as np

from smoothcert.statistics.laws import law_named
from smoothcert.statistics.procedure import Procedure, certificates


def procedure(law="gaussian", sigma=0.5, n0=100, n=1000, alpha=0.001, tau=0.0, **rules):
    return Procedure(law_named(law), sigma, n0, n, alpha, tau, **rules)


def certified(counts0, counts, sigma=0.5, alpha=0.001, **settings):
    """Of counts [inputs, classes] for a number of samples that was fixed in advance."""
    counts0, counts = np.atleast_2d(counts0), np.atleast_2d(counts)
    sizes = {"n0": int(counts0[0].sum()), "n": int(counts[0].sum())}
    path = counts[np.arange(len(counts)), counts0.argmax(1)][:, None]
    return certificates(
        procedure(sigma=sigma, alpha=alpha, **sizes, **settings), counts0, counts, path
    )


def sampled(rules, counts0, counts_at):
    """The certificate of one input whose counts at so many samples are `counts_at(samples)`."""
    selected, path = int(np.argmax(counts0)), np.full((1, len(rules.stopping.looks)), -1)
    for look, seen in enumerate(rules.stopping.looks):
        counts = counts_at(seen)
        path[0, look] = counts[selected]
        if rules.stopping.judge(path[:, : look + 1]).finished[0]:
            break
    (found,) = certificates(rules, np.array([counts0]), np.array([counts]), path)
    return found
