"""`smoothcert verify`."""

from __future__ import annotations

import sys

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_json,
    add_machine,
    add_trust,
    option,
    place,
    print_json,
)
from smoothcert.errors import ConfigError
from smoothcert.progress import printable

ABOUT = "Check stored certificates: nothing lost or edited, every bound and radius recomputed by other code."

_SHOWN = 20  # problems and notes of a store


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("place", type=place, help="run folder, certificate store or pack")
    option(
        parser,
        "--resample",
        str,
        None,
        "also certify this share (1%%) or number of the inputs again",
    )
    option(
        parser,
        "--seed",
        int,
        None,
        "seed of the choice of these inputs; default: the system's randomness",
    )
    add_trust(parser)
    add_json(parser)
    add_machine(parser)


def run(options: Options) -> None:
    """Exit status: 0 verified, 1 something differs or is damaged, 3 nothing is wrong but inputs are missing."""
    from smoothcert.runs.remote import local, shown
    from smoothcert.verification.resample import Resampling
    from smoothcert.verification.verdict import STATUS
    from smoothcert.verification.verify import verify

    if options.seed is not None and options.resample is None:
        raise ConfigError(
            "--seed chooses the inputs of --resample, which is not given: add --resample 1%, for example"
        )
    again = None
    if options.resample is not None:
        again = Resampling(
            options.resample, options.seed, options.device, options.json, options.trust_code
        )
    verdicts = verify(
        local(options.place, weights=True), data_dir=options.data_dir, resampling=again
    )
    if options.json:
        print_json({"stores": [verdict.values() for verdict in verdicts]})
    else:
        for verdict in verdicts:
            missing = [f"input {index}" for index in verdict.missing]
            for kind, texts in (
                ("problem", verdict.problems),
                ("missing", missing),
                ("note", verdict.notes),
            ):
                for text in texts[:_SHOWN]:
                    print(f"  {kind}: {printable(shown(text))}")
                if len(texts) > _SHOWN:
                    print(f"  ... and {len(texts) - _SHOWN} more: --json prints them all")
            print(f"{printable(shown(verdict.name))}: {verdict.text}")
    answers = {verdict.answer for verdict in verdicts}
    status = next((STATUS[answer] for answer in ("differs", "incomplete") if answer in answers), 0)
    if status:
        sys.exit(status)
