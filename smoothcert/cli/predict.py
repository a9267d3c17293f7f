"""`smoothcert predict`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_machine, add_run, add_settings, read_settings
from smoothcert.config import CertifyConfig
from smoothcert.errors import DataError

ABOUT = "Class (or abstention) and certified radius of image files."


def add_options(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("images", type=Path, nargs="+", help="image files (PNG, JPEG, ...) or .npy arrays")
    names = ("n0", "n", "alpha", "noise", "seed", "beacon", "precision", "kernels")
    add_settings(parser, CertifyConfig, names, n=10_000)
    add_machine(parser, data=False)


def run(options: Options) -> None:
    from smoothcert.certification.smoothed import SmoothedClassifier
    from smoothcert.data.image_file import read_image
    from smoothcert.devices.pick import pick_device
    from smoothcert.runs.folder import RunFolder
    from smoothcert.statistics.printed import at_least, doubt

    model, spec = RunFolder(options.run).load_model(trust_code=options.trust_code)
    config = read_settings(options, CertifyConfig, sigma=spec.sigma)
    smoothed = SmoothedClassifier.of(model, spec.classes, config, device=pick_device(options.device))
    images = [read_image(path, spec.shape) for path in options.images]  # all readable before the first is certified
    for index, (path, image) in enumerate(zip(options.images, images, strict=True)):
        try:
            certificate = smoothed.certify(image, n0=config.n0, n=config.n, alpha=config.alpha, index=index)
        except DataError as error:  # of the image's values
            raise DataError(f"{path}: {error}") from error
        if certificate.abstained:
            print(f"{path}: abstains (no class is certain at alpha {config.alpha:g} with {config.n} samples)")
            continue
        label = spec.class_names[certificate.predict] if spec.class_names else str(certificate.predict)
        kind = "radius" if certificate.norm == "l2" else f"{certificate.norm} radius"
        radius, p = at_least(certificate.radius, 4), at_least(certificate.p_lower, 6)
        print(f"{path}: {label}, certified {kind} {radius} (p >= {p})")
    if doubt(config.noise):
        print(f"note: {doubt(config.noise)}")
