"""`smoothcert import`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, option
from smoothcert.errors import StoreError, unknown_name

ABOUT = "Make a run folder of a published checkpoint."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="checkpoint as published: {'arch', 'state_dict'}")
    parser.add_argument("--out", type=Path, required=True, help="new run folder")
    parser.add_argument("--sigma", type=float, required=True, help="noise level the model was trained with")
    parser.add_argument("--dataset", type=str, required=True, help="data set it was trained on")
    option(parser, "--arch", str, None, "architecture, if the file does not say")
    option(parser, "--normalisation", str, None, "first layer; default: the data set's")


def run(options: Options) -> None:
    from smoothcert.data import DATASETS
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
