"""What `smoothcert doctor` says of a machine, where it is not asked about a model."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from smoothcert.cli.output import aligned, print_json
from smoothcert.config import NoiseMode
from smoothcert.errors import SmoothcertError

_PACKAGES = ("smoothcert", "torch", "numpy", "scipy")


def examine_machine(
    device: str, samples: int, settings: dict[str, Any], data_dir: Path | None, json: bool
) -> None:
    """Versions, the device and its kernels, the data that is here, and tests of the noise on that device."""
    import torch

    from smoothcert.data import DATASETS
    from smoothcert.data.catalogue import locate
    from smoothcert.devices.launching import runs_triton
    from smoothcert.devices.pick import pick_device
    from smoothcert.noise.selftest import selftest_noise

    chosen, sigma = pick_device(device), settings.get("sigma", 0.5)
    named = torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else platform.machine()
    threads = "" if chosen.type == "cuda" else f", {torch.get_num_threads()} threads"
    places = {name: locate(name, data_dir) for name in DATASETS}
    here = {name: str(place) for name, place in places.items() if place is not None}
    about = {
        "versions": ", ".join(f"{package} {version(package)}" for package in _PACKAGES),
        "python": platform.python_version(),
        "device": f"{chosen}, {named}{threads}",
        "kernels": "of our own, by Triton"
        if runs_triton(chosen)
        else "PyTorch's: Triton needs a GPU",
        "data": ", ".join(here) or "none of the known sets",
    }
    if not json:
        print(aligned(list(about.items())))
    noises = [settings["noise"]] if "noise" in settings else get_args(NoiseMode)
    tests: dict[str, list[dict[str, Any]]] = {}
    for noise in noises:
        checks = selftest_noise(noise, device=chosen, sigma=sigma, values=samples)
        tests[noise] = [{**asdict(check), "ok": check.ok} for check in checks]
        if not json:
            print(f"\n{noise} noise, {samples} values", *checks, sep="\n  ")
    if json:
        print_json({**about, "data": here, "noise": tests})
    failed = sum(not check["ok"] for checks in tests.values() for check in checks)
    if failed:
        raise SmoothcertError(
            f"{failed} tests failed: certificates made with this noise on this device are not valid"
        )
