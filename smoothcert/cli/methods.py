"""`smoothcert methods`."""

from __future__ import annotations

import dataclasses

from smoothcert.cli.options import Options, no_options

ABOUT = "The training methods and their hyperparameters."
add_options = no_options


def run(options: Options) -> None:
    from smoothcert.methods import DENOISING, METHODS, method_class

    for name in (*METHODS, *DENOISING):
        found = method_class(name)
        about = (found.__doc__ or "").strip().splitlines()[0]
        values = ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(found))
        print(f"{name}\n    {about}\n    hyperparameters: {values or 'none'}")
    print(
        "\nA method of yours: --method.name mypackage.MyMethod, a dataclass derived from smoothcert.Method"
    )
