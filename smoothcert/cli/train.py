"""`smoothcert train`."""

from __future__ import annotations

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_machine,
    add_overrides,
    given_overrides,
    on_disk,
    option,
)
from smoothcert.config import TrainConfig
from smoothcert.errors import StoreError
from smoothcert.interrupts import speaks
from smoothcert.progress import noun
from smoothcert.recipes import load_recipe

ABOUT = "Train a model by a recipe; any of its settings can be overridden."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "recipe", help="name of a shipped recipe (`smoothcert recipes`) or a YAML file"
    )
    parser.add_argument(
        "--out",
        type=on_disk,
        required=True,
        help="run folder; the same command resumes a stopped run",
    )
    add_machine(parser)
    option(
        parser,
        "--workers",
        int,
        None,
        "processes that decode pictures, 0 for threads; else by cores and GPUs",
    )
    parser.add_argument(
        "--track", type=str, nargs="+", default=None, help="also log to: tensorboard, wandb"
    )
    add_overrides(parser, TrainConfig)


def run(options: Options) -> None:
    from smoothcert.runs.remote import is_remote, local
    from smoothcert.training.fit import fit

    recipe = str(local(options.recipe)) if is_remote(options.recipe) else options.recipe
    config = load_recipe(recipe, given_overrides(options, TrainConfig)).config
    machine = {"data_dir": options.data_dir, "device": options.device, "workers": options.workers}
    done = fit(config, options.out, track=options.track or (), **machine)
    if not speaks():
        return
    metrics = done.records("metrics.jsonl")
    if len(metrics) != config.epochs:
        raise StoreError(
            f"{done.path / 'metrics.jsonl'} is damaged: expected {config.epochs} epochs, found {len(metrics)}: put a "
            "copy in its place, or train again in a new --out"
        )
    last = ", ".join(
        f"{name} {value:.4g}"
        for name, value in metrics[-1].items()
        if name not in ("epoch", "lr") and isinstance(value, int | float)
    )
    print(f"{done.path}: {len(metrics)} {noun(len(metrics), 'epoch')} done; {last}")
