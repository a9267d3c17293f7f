"""`smoothcert unpack`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, option

ABOUT = "The run folder of a pack."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("pack", type=Path, help="file made by `smoothcert pack`")
    option(parser, "--out", Path, Path(), "folder to unpack into")


def run(options: Options) -> None:
    from smoothcert.verification.unpack import unpack

    made = unpack(options.pack, options.out)
    print(f"{made}: check it with `smoothcert verify {made}`")
