"""The command line: options here, the work elsewhere. PyTorch is imported only by commands that compute."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import typing
from argparse import HelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

import smoothcert
from smoothcert.cli import commands, evaluating
from smoothcert.config import TrainConfig
from smoothcert.errors import SmoothcertError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors of ours become one line and exit status 2."""
    parsed = build_parser().parse_args(arguments)
    name = parsed.subcommand
    try:
        _function(name)(parsed[name])
    except SmoothcertError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        sys.exit(130)


def _function(name: str) -> Callable[[Any], None]:
    module = evaluating if name in ("attack", "explain", "input-noise", "report", "reproduce") else commands
    function: Callable[[Any], None] = getattr(module, {"import": "import_"}.get(name, name.replace("-", "_")))
    return function


class Parser(ArgumentParser):
    """Calls a missing option by the name that it is typed with."""

    def error(self, message: str, ex: Exception | None = None) -> typing.NoReturn:
        super().error(re.sub(r"(required: )[\w-]+\.([\w-]+)", r"\1--\2", message), ex)
        raise AssertionError("an error ends the program")


def build_parser() -> ArgumentParser:
    parser = Parser(
        prog="smoothcert",
        description="Train image classifiers whose answers come with a proof, certify them, report the proofs.",
        version=smoothcert.__version__,
        allow_abbrev=False,
        formatter_class=HelpFormatter,
    )
    subcommands = parser.add_subcommands(required=True)
    for name, (about, add_options) in _COMMANDS.items():
        command = Parser(description=about, allow_abbrev=False, formatter_class=HelpFormatter)
        add_options(command)
        subcommands.add_subcommand(name, command, help=about)
    return parser


def _demo(parser: ArgumentParser) -> None:
    _option(parser, "--out", Path, Path("smoothcert-demo"), "folder for runs and report.html")
    _option(parser, "--images", int, 100, "test images to certify with each model")
    _option(parser, "--n", int, 2000, "noise samples an image (the field's tables use 100000)")
    _option(parser, "--epochs", int, None, "training epochs; default: the recipes'")


def _train(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", help="name of a shipped recipe (`smoothcert recipes`) or a YAML file")
    parser.add_argument("--out", type=Path, required=True, help="run folder; the same command resumes a stopped run")
    _machine(parser)
    parser.add_argument("--track", type=str, nargs="+", default=None, help="also log to: tensorboard, wandb")
    _settings(parser)


def _soft_labels(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", help="recipe or YAML file that the labels are for; its method must read soft labels")
    parser.add_argument("--out", type=Path, required=True, help="folder of the labels; kept if they are there already")
    _machine(parser)
    _option(parser, "--n", int, None, "votes an image; default: the recipe's")
    _settings(parser, but=("method", "soft_labels", "self_training"))


def _settings(parser: ArgumentParser, but: Sequence[str] = ()) -> None:
    """Every setting of a recipe can be overridden; no defaults here, because the recipe has them."""
    hints = typing.get_type_hints(TrainConfig)
    for field in dataclasses.fields(TrainConfig):
        if field.name not in but:
            _option(parser, f"--{field.name.replace('_', '-')}", hints[field.name], None, field.metadata["help"])


def _certify(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder with a finished model")
    _option(parser, "--name", str, None, "name of the certificate store; default: the split or the corruption")
    _inputs(parser)
    _option(parser, "--corruption", str, None, "certify on this corruption of CIFAR-10-C or MNIST-C")
    _option(parser, "--severity", int, None, "severity 1 to 5 of the corruption; default: all")
    _samples(parser)
    _option(parser, "--sigma", float, None, "noise level; default: the one trained with")
    text = "only test these radii, with few samples (0 for clean accuracy)"
    parser.add_argument("--radius", type=str, nargs="+", default=None, help=text)
    _option(parser, "--tolerance", float, None, "stop sampling an input when its radius can grow by no more than this")
    parser.add_argument("--skip-wrong", action="store_true", help="no certificate where the label is already missed")
    parser.add_argument("--simultaneous", action="store_true", help="alpha for the whole set, not for each input")
    _option(parser, "--seed", int, 0, "seed of the certification noise")
    _machine(parser)
    _option(parser, "--batch-size", int, None, "noisy copies at once; default: what suits the network")
    _precision(parser)


def _predict(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder with a finished model")
    parser.add_argument("images", type=Path, nargs="+", help="image files (PNG, JPEG, ...) or .npy arrays")
    _samples(parser, n=10_000)
    _option(parser, "--seed", int, 0, "seed of the noise")
    _option(parser, "--device", str, "auto", "auto, cpu, cuda or cuda:N")
    _precision(parser)


def _precision(parser: ArgumentParser) -> None:
    kinds = typing.Literal["auto", "float32", "tf32", "bfloat16", "float16"]
    _option(parser, "--precision", kinds, "auto", "of the network's products; auto: float16 on CUDA, float32 on a CPU")


def _report(parser: ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="+", help="run folders, certificate stores or logs of the field")
    parser.add_argument("--radii", type=float, nargs="+", default=None, help="radii of the table; default: by data")
    parser.add_argument("--rounded", action="store_true", help="round radii to 3 digits first, as published tables do")
    for kind in ("html", "markdown", "latex", "csv"):
        _option(parser, f"--{kind}", Path, None, f"write this {kind} file")
    _option(parser, "--alpha", float, None, "judge stored counts again at this alpha, without a forward pass")
    bounds = typing.Literal["binary", "multiclass"]
    _option(parser, "--bound", bounds, None, "judge stored counts again by this bound")
    _option(parser, "--norm", typing.Literal["l2", "linf"], None, "show radii in this norm")
    _option(parser, "--figure", Path, None, "write the curves as .svg, .pdf or .png")
    parser.add_argument("--corruptions", type=Path, nargs="+", help="folders of logs SEVERITY/METHOD/CORRUPTION.tsv")
    _option(parser, "--data-dir", Path, None, "where data sets are, for the gallery of the page")


def _reproduce(parser: ArgumentParser) -> None:
    parser.add_argument("dataset", type=str, help="whose recipes to run: mnist, fashion-mnist, cifar10, ...")
    parser.add_argument("--rows", type=str, nargs="+", default=[], help="only these, e.g. gaussian-0.50 'smoothmix-*'")
    _option(parser, "--seeds", str, "0", "seeds, e.g. 0,1,2")
    _option(parser, "--out", Path, Path("reproduce"), "folder for the runs, results.json and results.md")
    _option(parser, "--jobs", int, 1, "trainings at a time on this machine; certification comes after, two by two")
    _option(parser, "--epochs", int, None, "fewer epochs, for a first look")
    _option(parser, "--every", int, 1, "certify every k-th test image")
    _option(parser, "--max", int, None, "certify at most this many")
    _option(parser, "--n", int, 100_000, "noise samples an image")
    _machine(parser)


def _status(parser: ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")


def _attack(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder with a finished model")
    parser.add_argument("--radius", type=float, nargs="+", required=True, help="l2 radii to attack at")
    attacks = typing.Literal["pgd", "ddn", "stein", "vanilla", "foolbox"]
    _option(
        parser, "--attack", attacks, "pgd", "SmoothAdv's PGD or DDN, gradient-free, PGD without noise, or foolbox's"
    )
    _option(parser, "--noises", int, 128, "noises an attack averages over")
    _option(parser, "--steps", int, 20, "steps of an attack")
    _option(parser, "--against", str, "test", "store of the certificates to compare with")
    _option(parser, "--name", str, None, "name of the attack's store; default: the attack's")
    _inputs(parser)
    _option(parser, "--n", int, 10_000, "noise samples of PREDICT on the attacked image")
    _option(parser, "--alpha", float, 0.001, "failure probability of PREDICT")
    _noise(parser)
    _option(parser, "--seed", int, 0, "seed of the noise")
    _machine(parser)
    _option(parser, "--svg", Path, None, "write the certified and empirical curves to this file")


def _explain(parser: ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", help="run folders with finished models of one data set")
    parser.add_argument("--index", type=int, nargs="+", default=[], help="images whose adversarial paths to draw")
    _option(parser, "--ratios", int, 0, "also: equal-confidence mixing ratios over this many test images")
    _option(parser, "--out", Path, Path("explain"), "folder for the figures and tables")
    _option(parser, "--step", float, 1.0, "length of an unrestricted step (SmoothMix's alpha)")
    _option(parser, "--steps", int, 8, "number of steps (SmoothMix's T)")
    _option(parser, "--noises", int, 128, "noises of the smoothed confidence")
    _option(parser, "--seed", int, 0, "seed of the noise")
    _machine(parser)


def _input_noise(parser: ArgumentParser) -> None:
    parser.add_argument("--p", type=float, required=True, help="probability of the answer at x, in (0.5, 1)")
    parser.add_argument("--sigma", type=float, required=True, help="noise level at x")
    parser.add_argument("--tau", type=float, required=True, help="noise level at the neighbour x'")
    parser.add_argument("--epsilon", type=float, required=True, help="distance of the neighbour, at most 0.5")
    _option(parser, "--fourth-moment", float, 3.0, "fourth moment of the noise's coordinates; 3 is Gaussian")
    _option(parser, "--svg", Path, None, "write the bound over the dimension to this file")


def _import(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="checkpoint as published: {'arch', 'state_dict'}")
    parser.add_argument("--out", type=Path, required=True, help="new run folder")
    parser.add_argument("--sigma", type=float, required=True, help="noise level the model was trained with")
    parser.add_argument("--dataset", type=str, required=True, help="data set it was trained on")
    _option(parser, "--arch", str, None, "architecture, if the file does not say")
    _option(parser, "--normalisation", str, None, "first layer; default: the data set's")


def _inputs(parser: ArgumentParser) -> None:
    _option(parser, "--split", typing.Literal["test", "train"], "test", "which images")
    _option(parser, "--start", int, 0, "first image")
    _option(parser, "--every", int, 1, "take every k-th image")
    _option(parser, "--max", int, None, "at most this many images")
    _option(parser, "--shard", str, "0/1", "i/N: this process takes part i (from 0) of N")


def _noise(parser: ArgumentParser) -> None:
    modes = typing.Literal["quantised", "exact", "float", "uniform", "laplace"]
    text = "integer Gaussian noise, its exact law, the literature's float noise, or (for l1) uniform or Laplace noise"
    _option(parser, "--noise", modes, "quantised", text)


def _samples(parser: ArgumentParser, n: int = 100_000) -> None:
    _option(parser, "--n0", int, 100, "noise samples that select the class")
    _option(parser, "--n", int, n, "fresh noise samples that bound its probability")
    _option(parser, "--alpha", float, 0.001, "failure probability of a certificate")
    _noise(parser)


def _machine(parser: ArgumentParser) -> None:
    _option(parser, "--data-dir", Path, None, "where data sets are; else $SMOOTHCERT_DATA")
    _option(parser, "--device", str, "auto", "auto, cpu, cuda or cuda:N")


def _option(parser: ArgumentParser, flag: str, kind: Any, default: Any, text: str) -> None:
    if default is None:
        parser.add_argument(flag, type=kind | None, default=None, help=text)
    else:
        parser.add_argument(flag, type=kind, default=default, help=f"{text} (default: {default})")


def _selftest(parser: ArgumentParser) -> None:
    modes = typing.Literal["quantised", "exact", "float", "uniform", "laplace"]
    _option(parser, "--noise", modes, None, "one noise mode; default: all")
    _option(parser, "--sigma", float, 0.5, "noise level")
    _option(parser, "--samples", int, 2**22, "how many values of each stream to test")
    _option(parser, "--device", str, "auto", "auto, cpu, cuda or cuda:N")


def _nothing(parser: ArgumentParser) -> None:
    pass


_COMMANDS = {
    "demo": (
        "The whole story on embedded data: train two models, certify, report. Minutes on a laptop.",
        _demo,
    ),
    "train": ("Train a model by a recipe; any of its settings can be overridden.", _train),
    "soft-labels": (
        "Make CAT-RS's soft labels ahead of training. Settings are those of the model that votes: sigma 0.25, seed 0, "
        "and for the rest the recipe's.",
        _soft_labels,
    ),
    "certify": ("Certify a trained model's answers on a data set; resumes by itself.", _certify),
    "predict": ("Class (or abstention) and certified radius of image files.", _predict),
    "attack": ("Accuracy of the smoothed classifier under attack, beside what was certified.", _attack),
    "explain": ("Adversarial paths of images, and at which mixing ratio the answer changes.", _explain),
    "report": ("Tables and curves of certificates, also of the field's published logs.", _report),
    "reproduce": ("Train, certify and tabulate whole published tables; resumable, several runs at once.", _reproduce),
    "status": ("What is done, what is missing, how fast, how long still.", _status),
    "input-noise": ("Why noise must not depend on the input: the bound C/d, and its plot.", _input_noise),
    "selftest-noise": ("Statistical tests of the very noise that certification uses.", _selftest),
    "import": ("Make a run folder of a published checkpoint.", _import),
    "models": ("The networks that a recipe or --model can name.", _nothing),
    "methods": ("The training methods and their hyperparameters.", _nothing),
    "recipes": ("The shipped recipes and what was published for them.", _nothing),
    "datasets": ("The data sets, and which of them are on this machine.", _nothing),
}
