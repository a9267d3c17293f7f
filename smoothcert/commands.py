"""What each command of the command line does, in a few calls of the library."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from smoothcert.config import TrainConfig, load_recipe, recipe_names
from smoothcert.errors import ConfigError, StoreError

Options = Any  # jsonargparse's Namespace


def demo(options: Options) -> None:
    from smoothcert.demo import run_demo

    run_demo(options.out, images=options.images, n=options.n, epochs=options.epochs)


def train(options: Options) -> None:
    from smoothcert.training import fit

    given = {field.name: options[field.name] for field in dataclasses.fields(TrainConfig)}
    recipe = load_recipe(options.recipe, {name: value for name, value in given.items() if value is not None})
    run = fit(
        recipe.config,
        options.out,
        data_dir=options.data_dir,
        device=options.device,
        track=options.track or (),
    )
    metrics = run.records("metrics.jsonl")
    last = ", ".join(f"{name} {value:.4g}" for name, value in metrics[-1].items() if name not in ("epoch", "lr"))
    print(f"{run.path}: {len(metrics)} epochs done; {last}")


def certify(options: Options) -> None:
    from smoothcert.certification import Selection, certify_dataset
    from smoothcert.data import load_dataset
    from smoothcert.report import certificate_table, read_store
    from smoothcert.run import RunFolder
    from smoothcert.runtime import pick_device

    shard, shards = parse_shard(options.shard)
    selection = Selection(options.start, options.every, options.max, shard, shards)
    run = RunFolder(options.run)
    model, spec = run.load_model()
    store = certify_dataset(
        model,
        load_dataset(spec.dataset, options.split, options.data_dir),
        run.path / "certify" / options.name,
        sigma=options.sigma or spec.sigma,
        n0=options.n0,
        n=options.n,
        alpha=options.alpha,
        noise_mode=options.noise,
        seed=options.seed,
        selection=selection,
        device=pick_device(options.device),
        batch_size=options.batch_size,
    )
    print(certificate_table([read_store(store.folder)]).to_text())


def parse_shard(text: str) -> tuple[int, int]:
    shard, slash, shards = text.partition("/")
    if not (slash and shard.isdigit() and shards.isdigit()):
        raise ConfigError(f"--shard takes i/N, for example 0/4, found {text!r}")
    return int(shard), int(shards)


def predict(options: Options) -> None:
    from smoothcert.data.image_file import read_image
    from smoothcert.run import RunFolder
    from smoothcert.runtime import pick_device
    from smoothcert.smoothing import SmoothedClassifier

    model, spec = RunFolder(options.run).load_model()
    device = pick_device(options.device)
    smoothed = SmoothedClassifier(
        model, spec.sigma, spec.classes, noise=options.noise, seed=options.seed, device=device
    )
    images = [read_image(path, spec.shape) for path in options.images]  # all readable before the first is certified
    for index, (path, image) in enumerate(zip(options.images, images, strict=True)):
        certificate = smoothed.certify(image, n0=options.n0, n=options.n, alpha=options.alpha, index=index)
        if certificate.abstained:
            print(f"{path}: abstains (no class is certain at alpha {options.alpha:g} with {options.n} samples)")
            continue
        label = spec.class_names[certificate.predict] if spec.class_names else str(certificate.predict)
        shown = int(certificate.radius * 1e4) / 1e4  # cut, not rounded: a printed radius must be a proved one
        print(f"{path}: {label}, certified radius {shown:.4f} (p >= {certificate.p_lower:.6f})")


def report(options: Options) -> None:
    from smoothcert.files import atomic_write
    from smoothcert.report import certificate_table, curve_svg, read_results, write_report
    from smoothcert.run import RunFolder

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = read_results(*options.results)
    for warning in caught:  # places without certificates yet
        print(f"note: {warning.message}", file=sys.stderr)
    table = certificate_table(results, radii=options.radii, rounded=options.rounded)
    print(table.to_text())
    texts = {"markdown": table.to_markdown, "latex": table.to_latex, "csv": table.to_csv}
    texts["svg"] = lambda: curve_svg(results, rounded=options.rounded)
    for kind, make in texts.items():
        if options[kind] is not None:
            with atomic_write(options[kind]) as file:
                file.write(make().encode())
            print(f"wrote {options[kind]}")
    if options.html is not None:
        runs = {entry.source.parent.parent: entry.name for entry in reversed(results)}  # RUN/certify/NAME
        training = {
            name: RunFolder(path).records("metrics.jsonl")
            for path, name in reversed(runs.items())
            if RunFolder(path).config_path.is_file()
        }
        write_report(results, options.html, radii=options.radii, rounded=options.rounded, training=training)
        print(f"wrote {options.html}")


def status(options: Options) -> None:
    from smoothcert.status import status_lines

    for path in options.runs:
        print("\n".join(status_lines(path)))


def import_(options: Options) -> None:
    from smoothcert.data import DATASETS
    from smoothcert.errors import unknown_name
    from smoothcert.models import load_published
    from smoothcert.run import ModelSpec, RunFolder

    if options.dataset not in DATASETS:
        raise unknown_name("dataset", options.dataset, DATASETS)
    if options.out.exists() and any(options.out.iterdir()):
        raise StoreError(f"{options.out} is not empty: give --out a new folder")
    info = DATASETS[options.dataset]
    model, found = load_published(
        options.checkpoint, arch=options.arch, classes=info.classes, normalisation=options.normalisation
    )
    spec = ModelSpec(found["arch"], info.classes, found["normalisation"], options.sigma, info.name, info.shape)
    RunFolder(options.out).save_model(model, spec)
    print(f"{options.out}: {found['arch']} with {info.classes} classes; go on with `smoothcert certify {options.out}`")


def models(options: Options) -> None:
    from smoothcert.models import MODELS

    print(_aligned(list(MODELS.items())))


def methods(options: Options) -> None:
    from smoothcert.methods import METHODS, method_class

    for name in METHODS:
        found = method_class(name)
        about = (found.__doc__ or "").strip().splitlines()[0]
        values = ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(found))
        print(f"{name}\n    {about}\n    hyperparameters: {values or 'none'}")
    print("\nA method of yours: --method.name mypackage.MyMethod, a dataclass derived from smoothcert.Method")


def recipes(options: Options) -> None:
    loaded = [load_recipe(name) for name in recipe_names()]
    rows = [
        (recipe.name, str(recipe.published.get("acr", "-")), recipe.about or recipe.config.model) for recipe in loaded
    ]
    print(_aligned([("recipe", "published ACR", "about"), *rows]))


def datasets(options: Options) -> None:
    from smoothcert.data import DATASETS
    from smoothcert.data.catalogue import locate

    rows = [("data set", "classes", "shape", "train + test", "place")]
    for name, info in DATASETS.items():
        place = locate(name)
        shape = "x".join(map(str, info.shape))
        sizes = f"{info.train_size} + {info.test_size}"
        rows.append((name, str(info.classes), shape, sizes, str(place) if place else "not on this machine"))
    print(_aligned(rows))


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
