"""`smoothcert status`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options
from smoothcert.errors import SmoothcertError, StoreError

ABOUT = "What is done, what is missing, how fast, how long still."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")


def run(options: Options) -> None:
    from smoothcert.runs.status import status_lines

    failed = []
    for path in options.runs:
        try:
            print("\n".join(status_lines(path)))
        except SmoothcertError as error:
            failed.append(str(error))
    if failed:
        raise StoreError("; ".join(failed))
