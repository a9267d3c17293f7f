"""The command line: options here, the work elsewhere. PyTorch is imported only by commands that compute."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

import smoothcert
from smoothcert import commands
from smoothcert.config import TrainConfig
from smoothcert.errors import SmoothcertError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors of ours become one line and exit status 2."""
    parsed = build_parser().parse_args(arguments)
    name = parsed.subcommand
    try:
        getattr(commands, "import_" if name == "import" else name)(parsed[name])
    except SmoothcertError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        sys.exit(130)


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="smoothcert",
        description="Train image classifiers whose answers come with a proof, certify them, report the proofs.",
        version=f"smoothcert {smoothcert.__version__}",
        allow_abbrev=False,
    )
    subcommands = parser.add_subcommands(required=True)
    for name, (about, add_options) in _COMMANDS.items():
        command = ArgumentParser(description=about, allow_abbrev=False)
        add_options(command)
        subcommands.add_subcommand(name, command, help=about)
    return parser


def _demo(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("smoothcert-demo"), help="folder for runs and report.html")
    parser.add_argument("--images", type=int, default=100, help="test images to certify with each model")
    parser.add_argument("--n", type=int, default=2000, help="noise samples an image (the field's tables use 100000)")
    parser.add_argument("--epochs", type=int, default=None, help="training epochs; default: the recipes'")


def _train(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", help="name of a shipped recipe (`smoothcert recipes`) or a YAML file")
    parser.add_argument("--out", type=Path, required=True, help="run folder; the same command resumes a stopped run")
    _machine(parser)
    parser.add_argument("--track", type=list[str], default=[], nargs="*", help="also log to: tensorboard, wandb")
    # every setting of a recipe can be overridden; no defaults here, because the recipe has them
    hints = typing.get_type_hints(TrainConfig)
    for field in dataclasses.fields(TrainConfig):
        kind = dict[str, Any] | None if field.name == "method" else hints[field.name] | None
        parser.add_argument(f"--{field.name}", type=kind, default=None, help=field.metadata["help"])


def _certify(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder with a finished model")
    parser.add_argument("--name", type=str, default="test", help="name of the certificate store in the run folder")
    parser.add_argument("--split", type=typing.Literal["test", "train"], default="test", help="which images")
    parser.add_argument("--start", type=int, default=0, help="first image")
    parser.add_argument("--every", type=int, default=1, help="take every k-th image")
    parser.add_argument("--max", type=int | None, default=None, help="at most this many images")
    parser.add_argument("--shard", type=str, default="0/1", help="i/N: this process takes part i (from 0) of N")
    _samples(parser)
    parser.add_argument("--sigma", type=float | None, default=None, help="noise level; default: the one trained with")
    parser.add_argument("--seed", type=int, default=0, help="seed of the certification noise")
    _machine(parser)
    parser.add_argument("--batch_size", type=int | None, default=None, help="noisy copies at once; default: measured")


def _predict(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder with a finished model")
    parser.add_argument("images", type=Path, nargs="+", help="image files (PNG, JPEG, ...) or .npy arrays")
    _samples(parser, n=10_000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda or cuda:N")


def _report(parser: ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="+", help="run folders, certificate stores or logs of the field")
    parser.add_argument("--radii", type=list[float] | None, default=None, help="e.g. '[0, 0.5, 1]'; default: by data")
    parser.add_argument(
        "--rounded", type=bool, default=False, help="round radii to 3 digits first, as published tables do"
    )
    for kind in ("html", "markdown", "latex", "csv", "svg"):
        parser.add_argument(f"--{kind}", type=Path | None, default=None, help=f"write this {kind} file")


def _status(parser: ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")


def _import(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="checkpoint as published: {'arch', 'state_dict'}")
    parser.add_argument("--out", type=Path, required=True, help="new run folder")
    parser.add_argument("--sigma", type=float, required=True, help="noise level the model was trained with")
    parser.add_argument("--dataset", type=str, required=True, help="data set it was trained on")
    parser.add_argument("--arch", type=str | None, default=None, help="architecture, if the file does not say")
    parser.add_argument("--normalisation", type=str | None, default=None, help="first layer; default: the data set's")


def _samples(parser: ArgumentParser, n: int = 100_000) -> None:
    parser.add_argument("--n0", type=int, default=100, help="noise samples that select the class")
    parser.add_argument("--n", type=int, default=n, help="fresh noise samples that bound its probability")
    parser.add_argument("--alpha", type=float, default=0.001, help="failure probability of a certificate")
    parser.add_argument(
        "--noise",
        type=typing.Literal["quantised", "float"],
        default="quantised",
        help="sound integer noise, or float",
    )


def _machine(parser: ArgumentParser) -> None:
    parser.add_argument("--data_dir", type=Path | None, default=None, help="where data sets are; else $SMOOTHCERT_DATA")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda or cuda:N")


def _nothing(parser: ArgumentParser) -> None:
    pass


_COMMANDS = {
    "demo": (
        "The whole story on embedded data: train two models, certify, report. Minutes on a laptop.",
        _demo,
    ),
    "train": ("Train a model by a recipe; any of its settings can be overridden.", _train),
    "certify": ("Certify a trained model's answers on a data set; resumes by itself.", _certify),
    "predict": ("Class (or abstention) and certified radius of image files.", _predict),
    "report": ("Tables and curves of certificates, also of the field's published logs.", _report),
    "status": ("What is done, what is missing, how fast, how long still.", _status),
    "import": ("Make a run folder of a published checkpoint.", _import),
    "methods": ("The training methods and their hyperparameters.", _nothing),
    "recipes": ("The shipped recipes and what was published for them.", _nothing),
    "datasets": ("The data sets, and which of them are on this machine.", _nothing),
}

__all__ = ["Namespace", "build_parser", "main"]
