"""`smoothcert models`."""

from __future__ import annotations

from smoothcert.cli.options import Options, aligned, no_options

ABOUT = "The networks that a recipe or --model can name."
add_options = no_options


def run(options: Options) -> None:
    from smoothcert.models import MODELS

    print(aligned(list(MODELS.items())))
