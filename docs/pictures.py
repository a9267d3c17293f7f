"""`python docs/pictures.py` draws the pictures of the tutorial: what they show is computed when they are drawn.

The image is a test digit, the network is `mini`, and the certificate is that of the tutorial's settings.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from scipy.special import ndtri
from scipy.stats import beta

from smoothcert.evaluation.trial import Digit, Trial
from smoothcert.noise.streams import NoisyCopies
from smoothcert.statistics.printed import at_least

HERE = Path(__file__).parent
DIGIT, COPIES = 7, 8
BLUE, RED, SOFT = "#184396", "#b22400", "#5b636d"


def copies(trial: Trial, digit: Digit) -> Figure:
    """The digit, some of its noisy copies, and what the network answers to each."""
    image = torch.from_numpy(digit.image)
    place = {"seed": trial.config.seed, "index": DIGIT, "stage": "estimation"}
    noisy = NoisyCopies(image, trial.config.sigma, "exact", **place).take(0, COPIES)
    with torch.inference_mode():
        answers = trial.smoothed.model(torch.cat([image[None] / 255, noisy])).argmax(1).tolist()
    figure = Figure((9, 1.5), layout="constrained")
    titles = ["the digit", *["noisy copy"] * COPIES]
    for place, (pixels, title) in enumerate(zip([image / 255, *noisy], titles, strict=True)):
        axes = figure.add_subplot(1, COPIES + 1, place + 1)
        axes.imshow(pixels[0].clamp(0, 1).numpy(), cmap="gray", vmin=0, vmax=1)
        axes.set_title(title, fontsize=8, color=SOFT)
        axes.set_xlabel(f"answer {answers[place]}", fontsize=9)
        axes.set(xticks=[], yticks=[])
    return figure


def votes(digit: Digit) -> Figure:
    """How often each class is returned, and what that proves of the probability of the first."""
    c, figure = digit.certificate, Figure((9, 3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.3])
    colours = [BLUE if label == c.selected else SOFT for label in range(len(c.counts))]
    left.bar(range(len(c.counts)), c.counts, color=colours)
    left.set(xticks=range(len(c.counts)), xlabel="class", ylabel="votes")
    n = int(c.counts.sum())
    left.set_title(
        f"{c.counts[c.selected]:,} of {n:,} noisy copies: class {c.selected}", fontsize=10
    )
    p = np.linspace(0.5, 0.9995, 400)
    right.plot(p, c.sigma * ndtri(p), color=BLUE)
    right.plot([c.p_lower, c.p_lower, 0.5], [0, c.radius, c.radius], color=RED, linestyle="--")
    right.set(xlim=(0.5, 1), ylim=(0, None), xlabel="p, proved at least", ylabel="radius r")
    right.set_title(
        f"p >= {at_least(c.p_lower, 4)} proves r = {at_least(c.radius, 3)}", fontsize=10
    )
    return figure


def bounds(alpha: float = 0.001) -> Figure:
    """The radius that unanimous, and nearly unanimous, votes prove: more copies prove more."""
    figure = Figure((9, 3), layout="constrained")
    axes, n = figure.subplots(), np.unique(np.logspace(1.3, 5, 80).astype(int))
    for share, style in ((1.0, "-"), (0.99, "--"), (0.9, ":")):
        k = np.floor(share * n)
        p = beta.ppf(alpha, k, n - k + 1)
        axes.semilogx(n, 0.5 * ndtri(np.maximum(p, 0.5)), style, color=BLUE, label=f"{share:.0%}")
    axes.set(xlabel="noisy copies n", ylabel="radius r at sigma 0.5", ylim=(0, None))
    axes.legend(title="votes for the class", frameon=False)
    return figure


def ball(digit: Digit) -> Figure:
    """The digit in its ball, with what attacks have found inside and outside."""
    c, figure = digit.certificate, Figure((7, 3.6), layout="constrained")
    axes, r = figure.subplots(), c.radius
    axes.add_patch(Circle((0, 0), r, facecolor="#e1e7f2", edgecolor=BLUE))
    shown = [(digit.image, 0.0, 0.0, f"answer {c.predict}", BLUE)]
    for one, angle in ((digit.inside, 2.75), (digit.outside, 0.3)):
        x, y = one.distance * np.cos(angle), one.distance * np.sin(angle)
        colour = BLUE if one.predict == c.predict else RED
        axes.plot([x, 0.7 * x], [y, 0.7 * y], color=colour, linewidth=0.8)
        axes.plot([x], [y], "o", color=colour, markersize=5)
        text = f"changed by {one.distance:.2f}\nanswer {one.predict}"
        shown.append((one.image, 0.7 * x, 0.7 * y, text, colour))
    for image, x, y, text, colour in shown:
        half = r / 6
        extent = (x - half, x + half, y - half, y + half)
        axes.imshow(image[0], cmap="gray", vmin=0, vmax=255, extent=extent, zorder=3)
        axes.text(x, y - 1.1 * half, text, ha="center", va="top", fontsize=8, color=colour)
    right = max(1.1 * r, digit.outside.distance * 1.1)
    axes.set(xlim=(-1.3 * r, right), ylim=(-1.05 * r, 1.05 * r), aspect="equal")
    title = f"no change shorter than r = {at_least(r, 3)} alters the answer"
    axes.set_title(title, fontsize=10)
    axes.axis("off")
    return figure


def main(out: Path, n: int) -> None:
    trial = Trial(out / "trial", n)
    digit = trial.attacked([*trial.certified()])[DIGIT]
    drawn = {
        "copies": copies(trial, digit),
        "votes": votes(digit),
        "more-copies": bounds(),
        "ball": ball(digit),
    }
    for name, figure in drawn.items():
        figure.savefig(out / f"idea-{name}.png", dpi=110)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
        for path in Path(folder).glob("*.png"):
            (HERE / "images" / path.name).write_bytes(path.read_bytes())
