"""Commands that make or look at results: reproduce, report, attack, explain, input-noise."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.cli.commands import Options, aligned, check_name, parse_shard
from smoothcert.errors import ConfigError, SmoothcertError, StoreError
from smoothcert.files import atomic_write

if TYPE_CHECKING:
    from smoothcert.report import Certificates


def reproduce(options: Options) -> None:
    from smoothcert.evaluation.reproduce import outcome, plan, results_table, run_jobs, write_results

    try:
        seeds = [int(part) for part in options.seeds.split(",")]
    except ValueError as error:
        raise ConfigError(f"--seeds takes whole numbers, e.g. 0,1,2, found {options.seeds!r}") from error
    jobs = plan(options.dataset, options.out / options.dataset, options.rows, seeds)
    machine = ["--device", options.device, *(["--data-dir", str(options.data_dir)] if options.data_dir else [])]
    train = [*machine, *(["--epochs", str(options.epochs)] if options.epochs else [])]
    certify = [*machine, "--every", str(options.every), "--n", str(options.n)]
    certify += ["--max", str(options.max)] if options.max else []
    failures = run_jobs(jobs, train, certify, options.jobs)
    outcomes = [found for job in jobs if (found := outcome(job, train, certify)) is not None]
    folder = options.out / options.dataset
    write_results(outcomes, folder / "results.json")
    with atomic_write(folder / "results.md") as file:
        file.write(results_table(outcomes).encode())
    print(results_table(outcomes))
    print(f"wrote {folder / 'results.json'} and results.md")
    if failures:
        raise SmoothcertError("; ".join(failures))


def attack(options: Options) -> None:
    from smoothcert.certification.certify import Selection
    from smoothcert.data import load_dataset
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.attack import Attack, attack_dataset, summarise
    from smoothcert.report import read_store
    from smoothcert.report.charts.evaluations import attack_svg
    from smoothcert.runs.folder import RunFolder
    from smoothcert.runs.store import CertificateStore

    run = RunFolder(options.run)
    check_name(options.name or options.attack)
    model, spec = run.load_model()
    certificates = CertificateStore(run.path / "certify" / options.against)
    known = (certificates.folder / "manifest.json").is_file()
    store = attack_dataset(
        model,
        load_dataset(spec.dataset, options.split, options.data_dir),
        run.path / "attack" / (options.name or options.attack),
        sigma=spec.sigma,
        radii=options.radius,
        attack=Attack(options.attack, options.noises, options.steps),
        n=options.n,
        alpha=options.alpha,
        noise_mode=options.noise,
        seed=options.seed,
        selection=Selection(options.start, options.every, options.max, *parse_shard(options.shard)),
        certificates=certificates if known else None,
        device=pick_device(options.device),
    )
    found = summarise(store)
    lines = [("radius", "inputs", "under attack %", "abstain %", "certified %")]
    for row in found:
        certified = "-" if row.certified is None else f"{100 * row.certified:.1f}"
        shares = (f"{100 * row.empirical:.1f}", f"{100 * row.abstained:.1f}", certified)
        lines.append((f"{row.radius:g}", str(row.inputs), *shares))
    print(aligned(lines))
    for row in found:
        if row.alarms:
            shown = ", ".join(map(str, row.alarms[:10]))
            print(
                f"SOUNDNESS ALARM at radius {row.radius:g}: inputs {shown} answer otherwise "
                "inside their certified radius"
            )
    if options.svg is not None:
        if not known:
            raise StoreError(f"--svg draws certificates too, and {certificates.folder} has none: certify first")
        points = ([row.radius for row in found], [row.empirical for row in found])
        proved = read_store(certificates.folder)
        proved = proved.where(np.isin(proved.idx, sorted(store.done())))  # the attacked inputs alone
        figure = attack_svg(dataclasses.replace(proved, name=run.path.name), {options.attack: points})
        with atomic_write(options.svg) as file:
            file.write(figure.encode())
        print(f"wrote {options.svg}")


def explain(options: Options) -> None:
    from smoothcert.evaluation.path_figures import explain_runs

    written = explain_runs(
        options.runs,
        options.out,
        indices=options.index,
        ratios=options.ratios,
        alpha=options.step,
        steps=options.steps,
        noises=options.noises,
        seed=options.seed,
        data_dir=options.data_dir,
        device=options.device,
    )
    for path in written:
        print(f"wrote {path}")


def input_noise(options: Options) -> None:
    from smoothcert.evaluation.input_noise import InputNoiseBound
    from smoothcert.report.charts.evaluations import dimension_svg

    bound = InputNoiseBound(options.p, options.sigma, options.tau, options.epsilon, options.fourth_moment)
    rows = [("data", "dimension", "bound")]
    for name, dimension in {"MNIST": 784, "CIFAR-10": 3072, "ImageNet": 150_528}.items():
        rows.append((name, str(dimension), f"{float(bound.at(dimension)):.4g}"))
    print(aligned(rows))
    print(f"C = {bound.constant:.6g}: noise levels {options.sigma:g} and {options.tau:g} promise at most C/d")
    if options.svg is not None:
        dimensions = np.logspace(0, 7, 200)
        title = f"Noise level {options.sigma:g} at an image, {options.tau:g} at its neighbour"
        with atomic_write(options.svg) as file:
            file.write(dimension_svg(dimensions, bound.at(dimensions), title).encode())
        print(f"wrote {options.svg}")


def report(options: Options) -> None:
    from smoothcert.report import (
        certificate_table,
        corrupted_stores,
        corruption_table,
        read_corruptions,
        read_results,
        save_figure,
        write_report,
    )
    from smoothcert.runs.folder import RunFolder

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = read_results(*options.results)
    for warning in caught:  # places without certificates yet
        print(f"note: {warning.message}", file=sys.stderr)
    if options.alpha is not None or options.bound is not None or options.norm is not None:
        results = [_judged_again(entry, options) for entry in results]
    table = certificate_table(results, radii=options.radii, rounded=options.rounded)
    print(table.to_text())
    for entries in (corrupted_stores(results), *map(read_corruptions, options.corruptions or ())):
        if entries:
            print(corruption_table(entries, options.rounded).to_text())
    texts = {"markdown": table.to_markdown, "latex": table.to_latex, "csv": table.to_csv}
    for kind, make in texts.items():
        if options[kind] is not None:
            with atomic_write(options[kind]) as file:
                file.write(make().encode())
            print(f"wrote {options[kind]}")
    if options.figure is not None:
        save_figure(results, options.figure, rounded=options.rounded)
        print(f"wrote {options.figure}")
    if options.html is not None:
        runs = {entry.source.parent.parent: entry.name for entry in reversed(results)}  # RUN/certify/NAME
        training = {
            name: RunFolder(path).records("metrics.jsonl")
            for path, name in reversed(runs.items())
            if RunFolder(path).config_path.is_file()
        }
        write_report(
            results,
            options.html,
            radii=options.radii,
            rounded=options.rounded,
            training=training,
            images=_images(results, options.data_dir),
        )
        print(f"wrote {options.html}")


def _judged_again(entry: Certificates, options: Options) -> Certificates:
    from smoothcert.evaluation.reanalysis import reanalyse

    if entry.manifest is None:
        raise StoreError(
            f"{entry.source} has no class counts, so that it cannot be judged by another alpha, bound or norm"
        )
    found = reanalyse(entry.source, alpha=options.alpha, bound=options.bound or "binary", norm=options.norm)
    return dataclasses.replace(found, name=entry.name)


def _images(results: Sequence[Certificates], data_dir: Path | None) -> dict[str, Any]:
    """The data that certificates are about, for the gallery, where it is at hand: a report downloads nothing."""
    from smoothcert.data import load_dataset
    from smoothcert.data.corruptions import load_corrupted

    loaded: dict[tuple[str, str], Any] = {}
    for entry in results:
        identity = entry.identity
        key = (str(identity.get("dataset")), str(identity.get("split")))
        if key in loaded:
            continue
        name, split = key
        with suppress(SmoothcertError):
            if name.endswith("-c"):
                corruption, _, severity = split.partition("/")
                loaded[key] = load_corrupted(name, corruption, int(severity) if severity else None, data_dir)
            else:
                loaded[key] = load_dataset(name, split, data_dir, download=False)
    identities = {entry.name: entry.manifest["identity"] for entry in results if entry.manifest}
    return {
        name: loaded[key]
        for name, identity in identities.items()
        if (key := (str(identity.get("dataset")), str(identity.get("split")))) in loaded
    }
