"""A certificate as people read it: a claim in one sentence, lines for a terminal, HTML for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.png import data_uri
from smoothcert.statistics.printed import at_least, doubt, settings

if TYPE_CHECKING:
    from smoothcert.statistics.procedure import Certificate

_KINDS = {"uniform": "uniform", "laplace": "Laplace"}  # all other modes draw Gaussian noise
_BAR = 30  # characters


def claim(sigma: float, noise: str, answer: str, closer: str) -> str:
    """What a certificate guarantees about the smoothed classifier, whichever words stand for answer and distance."""
    images = "image" if noise == "float" else "8-bit image"
    unsound = f" ({doubt(noise)})" if doubt(noise) else ""
    return (
        f"the classifier smoothed by {_KINDS.get(noise, 'Gaussian')} noise of standard deviation "
        f"{sigma:g} answers {answer} to every {images} {closer}, where pixels lie in [0, 1]{unsound}"
    )


def sentence(c: Certificate) -> str:
    n = int(c.counts.sum())
    if c.abstained:
        return (
            f"The classifier smoothed by {_KINDS.get(c.noise, 'Gaussian')} noise of standard deviation "
            f"{c.sigma:g} abstains on this image: {n:,} noisy copies name no class with certainty at "
            f"alpha = {c.alpha:g}, and nothing is guaranteed."
        )
    closer = f"whose {c.norm} distance from this image is below {at_least(c.radius, 4)}"
    return (
        f"With probability at least {1 - c.alpha:.10g} over the {n:,} noisy copies that were drawn "
        f"(alpha = {c.alpha:g}), {claim(c.sigma, c.noise, f'class {c.predict}', closer)}."
    )


def lines(c: Certificate) -> str:
    """The answer, its radius, and the votes of the most frequent classes."""
    n = int(c.counts.sum())
    answer = (
        "abstains"
        if c.abstained
        else f"class {c.predict}, certified {c.norm} radius {at_least(c.radius, 4)}"
    )
    made = settings(int(c.counts0.sum()), n, c.alpha, c.noise)
    found = [f"{answer} (sigma {c.sigma:g}, {made})", *([doubt(c.noise)] if doubt(c.noise) else [])]
    for label, votes in top(c):
        found.append(
            f"{label:>6}  {'#' * round(_BAR * votes / max(n, 1)):<{_BAR}} {votes:>7,} of {n:,}"
        )
    return "\n".join(found)


def top(c: Certificate, most: int = 3) -> list[tuple[int, int]]:
    """(class, votes) of the most frequent classes."""
    order = np.argsort(-c.counts, kind="stable")[:most]
    return [(int(label), int(c.counts[label])) for label in order if c.counts[label]]


def html(c: Certificate) -> str:
    """The image in its ball, the votes, and the claim; a page needs nothing else to show it."""
    n, largest = int(c.counts.sum()), max(c.radius, 3 * c.sigma)
    r = 32 + 56 * c.radius / largest
    inner = "" if c.image is None else _picture(data_uri(c.image))
    ball = (
        ""
        if c.abstained
        else f'<circle cx="90" cy="90" r="{r:.1f}" fill="#4a90d930" stroke="#4a90d9"/>'
    )
    words = "abstains" if c.abstained else f"radius {at_least(c.radius, 3)}"
    votes = "".join(
        f'<tr><td>{label}</td><td><div style="background:#4a90d9;height:.8em;width:{8 * share:.2f}em">'
        f"</div></td><td>{count:,}</td></tr>"
        for label, count in top(c)
        for share in [count / max(n, 1)]
    )
    return (
        '<div style="display:flex;gap:1.5em;align-items:center;flex-wrap:wrap;font:14px sans-serif">'
        f'<svg width="180" height="200" viewBox="0 0 180 200" role="img" aria-label="{escape(words)}">'
        f'{ball}{inner}<text x="90" y="196" text-anchor="middle" fill="currentColor">{words}</text></svg>'
        f"<div><table><tr><th>class</th><th>votes</th><th>of {n:,}</th></tr>{votes}</table></div>"
        f'<p style="max-width:26em">{escape(sentence(c))}</p></div>'
    )


def _picture(uri: str) -> str:
    return f'<image href="{uri}" x="68" y="68" width="44" height="44" style="image-rendering:pixelated"/>'
