"""`smoothcert try`: what it prints. The work is in evaluation/trial.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from smoothcert.cli.frame import command
from smoothcert.config import CertifyConfig
from smoothcert.statistics.printed import at_least, at_most
from smoothcert.statistics.saturation import saturation_radius

if TYPE_CHECKING:
    from smoothcert.evaluation.trial import Attacked, Digit, Pixels

_GREYS, _BAR, _WIDE = " .:-=+*#%@", 30, 28
_START = """\
A small network for digits comes with smoothcert. It answers ten test digits, each with a proof:
Gaussian noise is added to the digit {n:,} times, the answer is the class that the network returns
most often, and how often it does proves a radius.

label  answer  votes for the answer                            certified radius"""
_MEANING = """
The line with radius {radius} says: no change that is smaller makes the answer another one.
The size of a change is the root of the sum of its squares, where pixels go from 0 to 1.
{n:,} copies can prove {largest} at most; more copies can prove more. One of them, and the claim:

{noisy}

{sentence}

Is it so? An attack has looked for the worst change of two sizes, inside the radius and outside:

{sizes}
{changed}
{answers}
"""
_INSIDE = "Inside of the radius no answer became another, as was proved."
_FALSE = "{false} of the certificates are false: each may be, with probability {alpha:g}."
_OUTSIDE = "Outside nothing is promised: {others} of {digits} digits got another answer there.\n"
_NEXT = {
    "smoothcert predict {run} PHOTO.jpg": "a digit of yours",
    "smoothcert verify {run} --resample 2": "the proofs, checked by other code",
    "smoothcert doctor --help": "is a network of yours ready?",
    "docs/tutorial.md": "from here to certificates of your network",
}


@command("Start")
def try_(*, out: Path = Path("smoothcert-try"), n: int = 1000) -> None:
    """Your first certificates: ten digits, before your eyes, in thirty seconds

    Args:
        out: folder for a run folder and report.html
        n: noisy copies of each digit that bound the probability of the answer
    """
    print(_START.format(n=n), flush=True)

    import torch

    from smoothcert.evaluation.trial import Trial

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for a network so small, threads that wait for each other only cost
    try:
        trial = Trial(out, n)
        certified = []
        for digit in trial.certified():
            certified.append(digit)
            print(_row(digit), flush=True)
        digits = trial.attacked(certified)
        print(_in_words(digits, trial.config), flush=True)
        trial.write_page(digits)
    finally:
        torch.set_num_threads(threads)
    print(f"wrote {trial.page}: all of this in pictures, and the report of the certificates\nNext:")
    words = {text.format(run=trial.run.path): what for text, what in _NEXT.items()}
    for text, what in words.items():
        print(f"  {text:<{max(map(len, words))}}  {what}")


def _row(digit: Digit) -> str:
    c = digit.certificate
    n, votes = int(c.counts.sum()), int(c.counts[c.selected])
    answer, radius = ("none", "-") if c.abstained else (str(c.predict), at_least(c.radius, 2))
    bar = "#" * round(_BAR * votes / n)
    return f"{digit.label:>5}  {answer:>6}  {bar:<{_BAR}} {votes:>6} of {n}  {radius:>8}"


def _in_words(digits: Sequence[Digit], config: CertifyConfig) -> str:
    """What a line means, and what attacks have found, for the digit that shows it best."""
    certified = [digit for digit in digits if digit.inside is not None]
    if not certified:
        return f"\n{config.n:,} noisy copies certify nothing here: draw more of them, by --n\n"
    digit = min(certified, key=lambda one: (one.outside is None, one.certificate.radius))
    c, found = digit.certificate, [one for one in (digit.inside, digit.outside) if one]
    text = _MEANING.format(
        radius=at_least(c.radius, 2),
        n=config.n,
        largest=at_most(saturation_radius(config.sigma, config.n, config.alpha, "gaussian"), 2),
        noisy=_pictures(digit.image, digit.noisy),
        sentence=fill(c.sentence(), 96),
        sizes=_columns(*(f"changed by {one.distance:.2f}" for one in found)),
        changed=_pictures(*(one.image for one in found)),
        answers=_columns(*(_answer(one, c.predict) for one in found)),
    )
    false = sum(one.contradicted for one in digits)
    text += _FALSE.format(false=false, alpha=config.alpha) if false else _INSIDE
    others = sum(one.outside is not None for one in digits)
    return f"{text}\n{_OUTSIDE.format(others=others, digits=len(digits))}"


def _answer(one: Attacked, certified: int) -> str:
    answer = "no answer" if one.predict < 0 else f"answer {one.predict}"
    return f"{answer}; {certified} has {one.votes:,} votes"


def _pictures(*images: Pixels) -> str:
    """Digits beside each other, in characters of every terminal; two rows of pixels make one of text."""
    shown = []
    for image in images:
        rows = image[0].reshape(14, 2, 28).mean(1) / 255
        shown.append(
            ["".join(_GREYS[round(9 * value)] for value in line) for line in rows.tolist()]
        )
    return "\n".join(_columns(*line) for line in zip(*shown, strict=True))


def _columns(*words: str) -> str:
    return "   ".join(word.ljust(_WIDE) for word in words).rstrip()
