"""`smoothcert pack`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, on_disk, option

ABOUT = (
    "One file of a certified run for others: weights, settings, certificates, report and a card."
)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run", type=on_disk, help="run folder with a finished model and complete certificates"
    )
    option(parser, "--out", Path, None, "file to write; default: the run folder's name with .zip")


def run(options: Options) -> None:
    from smoothcert.verification.pack import pack

    made = pack(options.run, options.out)
    print(f"wrote {made}; whoever has it can check it: smoothcert verify {made.name}")
