"""`smoothcert selftest-noise`."""

from __future__ import annotations

from typing import get_args

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_machine, option
from smoothcert.config import NoiseMode
from smoothcert.errors import SmoothcertError

ABOUT = "Statistical tests of the very noise that certification uses."


def add_options(parser: ArgumentParser) -> None:
    option(parser, "--noise", NoiseMode, None, "one noise mode; default: all")
    option(parser, "--sigma", float, 0.5, "noise level")
    option(parser, "--samples", int, 2**22, "how many values of each stream to test")
    add_machine(parser, data=False)


def run(options: Options) -> None:
    from smoothcert.devices.pick import pick_device
    from smoothcert.noise.selftest import selftest_noise

    device = pick_device(options.device)
    failed = 0
    for mode in [options.noise] if options.noise else get_args(NoiseMode):
        print(f"{mode} noise on {device}, {options.samples} values")
        for check in selftest_noise(
            mode, device=device, sigma=options.sigma, values=options.samples
        ):
            print(f"  {check}")
            failed += not check.ok
    if failed:
        raise SmoothcertError(
            f"{failed} tests failed: certificates made with this noise on this device are not valid"
        )
