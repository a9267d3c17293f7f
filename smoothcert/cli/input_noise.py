"""`smoothcert input-noise`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, aligned, option

ABOUT = "Why noise must not depend on the input: the bound C/d, and its plot."


def add_options(parser: ArgumentParser) -> None:
    option(parser, "--p", float, None, "probability of the answer at x, in (0.5, 1)", required=True)
    option(parser, "--sigma", float, None, "noise level at x", required=True)
    option(parser, "--tau", float, None, "noise level at the neighbour x'", required=True)
    option(
        parser, "--epsilon", float, None, "distance of the neighbour, at most 0.5", required=True
    )
    option(
        parser,
        "--fourth-moment",
        float,
        3.0,
        "fourth moment of the noise's coordinates; 3 is Gaussian",
    )
    option(parser, "--svg", Path, None, "write the bound over the dimension to this file")


def run(options: Options) -> None:
    import numpy as np

    from smoothcert.evaluation.input_noise import InputNoiseBound
    from smoothcert.report.explained import dimension_figure
    from smoothcert.report.plot import save

    bound = InputNoiseBound(
        options.p, options.sigma, options.tau, options.epsilon, options.fourth_moment
    )
    rows = [("data", "dimension", "bound")]
    for name, dimension in {"MNIST": 784, "CIFAR-10": 3072, "ImageNet": 150_528}.items():
        rows.append((name, str(dimension), f"{float(bound.at(dimension)):.4g}"))
    print(aligned(rows))
    print(
        f"C = {bound.constant:.6g}: noise levels {options.sigma:g} and {options.tau:g} promise at most C/d"
    )
    if options.svg is not None:
        dimensions = np.logspace(0, 7, 200)
        title = f"Noise level {options.sigma:g} at an image, {options.tau:g} at its neighbour"
        save(dimension_figure(dimensions, bound.at(dimensions), title), options.svg)
        print(f"wrote {options.svg}")
