"""`smoothcert demo`: the whole story on embedded MNIST images, in minutes on two CPU cores."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, option
from smoothcert.config import ALPHA, N0, CertifyConfig
from smoothcert.errors import ConfigError
from smoothcert.progress import styled
from smoothcert.recipes import load_recipe

ABOUT = "The whole story on embedded data: train two models, certify, report. Minutes on a laptop."

RECIPES = ("mnist-mini/gaussian-0.50", "mnist-mini/consistency-0.50")


def add_options(parser: ArgumentParser) -> None:
    option(parser, "--out", Path, Path("smoothcert-demo"), "folder for runs and report.html")
    option(parser, "--images", int, 100, "test images to certify with each model")
    option(parser, "--n", int, 2000, "noise samples per image (the field's tables use 100000)")
    option(parser, "--epochs", int, None, "training epochs; default: the recipes'")


def run(options: Options) -> None:
    run_demo(options.out, images=options.images, n=options.n, epochs=options.epochs)


def run_demo(
    out: Path, *, images: int = 100, n: int = 2000, epochs: int | None = None, quiet: bool = False
) -> Path:
    """Train two LeNets, certify `images` test images of each, print the table, write report.html; returns its path."""
    from smoothcert.certification.certify import certify_dataset
    from smoothcert.data import load_dataset
    from smoothcert.report import Report, Training, read_results
    from smoothcert.runs.selection import Selection
    from smoothcert.statistics.bounds import check_samples
    from smoothcert.training.fit import fit

    started = time.monotonic()
    test = load_dataset("mnist-mini", "test")
    if not 1 <= images <= len(test):
        raise ConfigError(f"the demo can certify 1 to {len(test)} images, found {images}")
    check_samples(N0, n, ALPHA)  # certification would refuse it too, but after a training
    changes = {} if epochs is None else {"epochs": epochs}
    stores, training = [], []
    for name in RECIPES:
        config = load_recipe(name, changes).config
        trained = fit(config, out / config.method["name"], quiet=quiet)
        model, spec = trained.load_model()
        store = certify_dataset(
            model,
            test,
            trained.path / "certify" / f"demo-{images}-{n}",
            CertifyConfig(sigma=spec.sigma, n=n),
            selection=Selection(every=len(test) // images, max=images),
            quiet=quiet,
        )
        stores.append(store.folder)
        training.append(trained.records("metrics.jsonl"))
    results = read_results(*stores)
    report = Report(
        results,
        trainings=[
            Training(c.name, c.name, epochs) for c, epochs in zip(results, training, strict=True)
        ],
        images={c.name: test for c in results},
    )
    print(report.table().to_text(), file=styled(sys.stdout))
    report.write(page := out / "report.html", "smoothcert demo")
    print(
        "\nEach number is proved: with probability 99.9 % per image, no l2 change smaller than r alters the answer."
    )
    print(f"wrote {page} in {time.monotonic() - started:.0f} s")
    return page
