"""`smoothcert train`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_machine, add_overrides, given_overrides
from smoothcert.config import TrainConfig
from smoothcert.interrupts import speaks
from smoothcert.recipes import load_recipe

ABOUT = "Train a model by a recipe; any of its settings can be overridden."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", help="name of a shipped recipe (`smoothcert recipes`) or a YAML file")
    parser.add_argument("--out", type=Path, required=True, help="run folder; the same command resumes a stopped run")
    add_machine(parser)
    parser.add_argument("--track", type=str, nargs="+", default=None, help="also log to: tensorboard, wandb")
    add_overrides(parser, TrainConfig)


def run(options: Options) -> None:
    from smoothcert.training.fit import fit

    config = load_recipe(options.recipe, given_overrides(options, TrainConfig)).config
    done = fit(config, options.out, data_dir=options.data_dir, device=options.device, track=options.track or ())
    if not speaks():
        return
    metrics = done.records("metrics.jsonl")
    last = ", ".join(f"{name} {value:.4g}" for name, value in metrics[-1].items() if name not in ("epoch", "lr"))
    print(f"{done.path}: {len(metrics)} epochs done; {last}")
