"""What each command of the command line does, in a few calls of the library."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from smoothcert.config import TrainConfig
from smoothcert.errors import ConfigError, SmoothcertError, StoreError
from smoothcert.recipes import load_recipe, recipe_names

Options = Any  # jsonargparse's Namespace


def demo(options: Options) -> None:
    from smoothcert.cli.demo import run_demo

    run_demo(options.out, images=options.images, n=options.n, epochs=options.epochs)


def train(options: Options) -> None:
    from smoothcert.training.loop import fit

    run = fit(
        load_recipe(options.recipe, given_settings(options)).config,
        options.out,
        data_dir=options.data_dir,
        device=options.device,
        track=options.track or (),
    )
    metrics = run.records("metrics.jsonl")
    last = ", ".join(f"{name} {value:.4g}" for name, value in metrics[-1].items() if name not in ("epoch", "lr"))
    print(f"{run.path}: {len(metrics)} epochs done; {last}")


def given_settings(options: Options) -> dict[str, Any]:
    """Those settings of a recipe that the command line overrides."""
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    return {name: options[name] for name in names if options.get(name) is not None}


def soft_labels(options: Options) -> None:
    from smoothcert.data import load_dataset
    from smoothcert.training import ranks as runtime
    from smoothcert.training.loop import make_soft_labels
    from smoothcert.training.soft_labels import plan

    given = given_settings(options)
    # the data set is the run's; any other setting is one of the model that votes, soft_labels.X for `train`
    data = {"dataset": given.pop("dataset")} if "dataset" in given else {}
    votes_each = {} if options.n is None else {"n": options.n}
    own = {"folder": str(options.out), **votes_each, **given}
    wanted = plan(load_recipe(options.recipe, {**data, "soft_labels": own}).config, options.out)
    ranks = runtime.start(options.device)
    try:
        train = load_dataset(wanted.model.dataset, "train", options.data_dir)
        test = load_dataset(wanted.model.dataset, "test", options.data_dir) if wanted.model.evaluate_every else None
        votes = make_soft_labels(wanted, ranks, train, test, quiet=not ranks.is_main)
    finally:
        ranks.close()
    if ranks.is_main:
        share = 100 * (votes.argmax(axis=1) == train.labels).mean()
        use = {**data, **{f"soft-labels.{name}": value for name, value in own.items()}}
        words = [word for name, value in use.items() for word in (f"--{name}", as_argument(value))]
        print(f"{wanted.folder}: soft labels of {len(votes)} images of {train.name}, {wanted.n} votes each")
        print(f"the most-voted class is the label of {share:.1f} % of the images")
        print(f"to use them: smoothcert train {shlex.join([options.recipe, *words])} --out RUN")


def as_argument(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def certify(options: Options) -> None:
    from smoothcert.certification.certify import Selection, certify_dataset
    from smoothcert.data import Dataset, ImageFolder, load_dataset
    from smoothcert.data.corruptions import load_corrupted
    from smoothcert.devices.pick import pick_device
    from smoothcert.report import certificate_table, read_store
    from smoothcert.runs.folder import RunFolder

    shard, shards = parse_shard(options.shard)
    selection = Selection(options.start, options.every, options.max, shard, shards)
    run = RunFolder(options.run)
    model, spec = run.load_model()
    name = options.name or options.split
    data: Dataset | ImageFolder
    if options.corruption is not None:
        data = load_corrupted(f"{spec.dataset}-c", options.corruption, options.severity, options.data_dir)
        name = options.name or data.split.replace("/", "-")
    else:
        data = load_dataset(spec.dataset, options.split, options.data_dir)
    check_name(name)
    store = certify_dataset(
        model,
        data,
        run.path / "certify" / name,
        sigma=spec.sigma if options.sigma is None else options.sigma,
        n0=options.n0,
        n=options.n,
        alpha=options.alpha,
        noise_mode=options.noise,
        seed=options.seed,
        selection=selection,
        radii=parse_radii(options.radius),
        tolerance=options.tolerance,
        skip_wrong=options.skip_wrong,
        simultaneous=options.simultaneous,
        device=pick_device(options.device),
        batch_size=options.batch_size,
        precision=options.precision,
    )
    if store.done():
        print(certificate_table([read_store(store.folder)]).to_text())
        if options.sigma not in (None, spec.sigma):
            print(f"trained with sigma {spec.sigma:g}, certified with {options.sigma:g}")
    else:
        print(f"no input for shard {options.shard}: others have them all")


def check_name(name: str) -> None:
    if Path(name).name != name or name.startswith("."):
        raise ConfigError(f"--name is the name of one folder, found {name!r}")


def parse_radii(words: list[str] | None) -> list[float] | None:
    """Numbers with spaces or commas between them."""
    if words is None:
        return None
    try:
        return sorted(float(part) for word in words for part in word.split(","))
    except ValueError as error:
        raise ConfigError(f"--radius takes numbers, for example --radius 0 0.5 1, found {' '.join(words)!r}") from error


def selftest_noise(options: Options) -> None:
    from smoothcert.devices.pick import pick_device
    from smoothcert.noise import selftest
    from smoothcert.noise.streams import NoiseMode

    device = pick_device(options.device)
    failed = 0
    for mode in [options.noise] if options.noise else get_args(NoiseMode):
        print(f"{mode} noise on {device}, {options.samples} values")
        for check in selftest.selftest_noise(mode, device=device, sigma=options.sigma, values=options.samples):
            print(f"  {check}")
            failed += not check.ok
    if failed:
        raise SmoothcertError(f"{failed} tests failed: certificates made with this noise on this device are not valid")


def parse_shard(text: str) -> tuple[int, int]:
    shard, slash, shards = text.partition("/")
    if not (slash and shard.isdecimal() and shards.isdecimal()):
        raise ConfigError(f"--shard takes i/N, for example 0/4, found {text!r}")
    return int(shard), int(shards)


def predict(options: Options) -> None:
    from smoothcert.certification.smoothed import SmoothedClassifier
    from smoothcert.data.image_file import read_image
    from smoothcert.devices.pick import pick_device
    from smoothcert.runs.folder import RunFolder

    model, spec = RunFolder(options.run).load_model()
    device = pick_device(options.device)
    smoothed = SmoothedClassifier(
        model,
        spec.sigma,
        spec.classes,
        noise=options.noise,
        seed=options.seed,
        device=device,
        precision=options.precision,
    )
    images = [read_image(path, spec.shape) for path in options.images]  # all readable before the first is certified
    for index, (path, image) in enumerate(zip(options.images, images, strict=True)):
        certificate = smoothed.certify(image, n0=options.n0, n=options.n, alpha=options.alpha, index=index)
        if certificate.abstained:
            print(f"{path}: abstains (no class is certain at alpha {options.alpha:g} with {options.n} samples)")
            continue
        label = spec.class_names[certificate.predict] if spec.class_names else str(certificate.predict)
        shown = int(certificate.radius * 1e4) / 1e4  # cut, not rounded: a printed radius must be a proved one
        kind = "radius" if certificate.norm == "l2" else f"{certificate.norm} radius"
        print(f"{path}: {label}, certified {kind} {shown:.4f} (p >= {certificate.p_lower:.6f})")


def status(options: Options) -> None:
    from smoothcert.runs.status import status_lines

    failed = []
    for path in options.runs:
        try:
            print("\n".join(status_lines(path)))
        except SmoothcertError as error:
            failed.append(str(error))
    if failed:
        raise StoreError("; ".join(failed))


def import_(options: Options) -> None:
    from smoothcert.data import DATASETS
    from smoothcert.errors import unknown_name
    from smoothcert.models import load_published
    from smoothcert.runs.folder import ModelSpec, RunFolder

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

    print(aligned(list(MODELS.items())))


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
    print(aligned([("recipe", "published ACR", "about"), *rows]))


def datasets(options: Options) -> None:
    from smoothcert.data import DATASETS
    from smoothcert.data.catalogue import locate

    rows = [("data set", "classes", "shape", "train + test", "place")]
    for name, info in DATASETS.items():
        place = locate(name)
        shape = "x".join(map(str, info.shape))
        sizes = f"{info.train_size} + {info.test_size}"
        rows.append((name, str(info.classes), shape, sizes, str(place) if place else "not on this machine"))
    print(aligned(rows))
    print("pseudo-labelled images for self-training: any file, by --self-training.path")


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
