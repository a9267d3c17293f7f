"""`smoothcert demo`: the whole story on embedded MNIST images, in minutes on two CPU cores."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from smoothcert.cli.frame import command
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError
from smoothcert.progress import styled
from smoothcert.recipes import load_recipe

RECIPES = ("mnist-mini/gaussian-0.50", "mnist-mini/consistency-0.50")


@command("Start")
def demo(
    *,
    out: Path = Path("smoothcert-demo"),
    images: int = 100,
    n: int = 2000,
    epochs: int | None = None,
) -> None:
    """The whole story on embedded digits: train, certify, report, in minutes

    Args:
        out: folder for runs and report.html
        images: test images to certify with each model
        n: noise samples per image (the field's tables use 100000)
        epochs: training epochs; default: the recipes'
    """
    run_demo(out, images=images, n=n, epochs=epochs)


def run_demo(
    out: Path, *, images: int = 100, n: int = 2000, epochs: int | None = None, quiet: bool = False
) -> Path:
    """Train two LeNets, certify `images` test images of each, print the table, write report.html; returns its path."""
    from smoothcert.certification.certify import certify_dataset
    from smoothcert.data import load_dataset
    from smoothcert.report import certificate_table, read_results, write_report
    from smoothcert.runs.selection import Selection
    from smoothcert.statistics.bounds import check_samples
    from smoothcert.training.fit import fit

    started = time.monotonic()
    test = load_dataset("mnist-mini", "test")
    if not 1 <= images <= len(test):
        raise ConfigError(f"the demo can certify 1 to {len(test)} images, found {images}")
    check_samples(
        CertifyConfig.n0, n, CertifyConfig.alpha
    )  # certification would refuse it too, but after a training
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
    print(certificate_table(results).to_text(), file=styled(sys.stdout))
    page = out / "report.html"
    write_report(
        results,
        page,
        title="smoothcert demo",
        images={entry.name: test for entry in results},
        training={entry.name: epochs for entry, epochs in zip(results, training, strict=True)},
    )
    print(
        "\nEach number is proved: with probability 99.9 % per image, no l2 change smaller than r alters the answer."
    )
    print(f"wrote {page} in {time.monotonic() - started:.0f} s")
    return page
