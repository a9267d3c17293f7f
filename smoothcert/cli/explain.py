"""`smoothcert explain`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_machine,
    add_numbers,
    add_run,
    option,
    read_whole_numbers,
)

ABOUT = "Adversarial paths of images, and at which mixing ratio the answer changes."


def add_options(parser: ArgumentParser) -> None:
    add_run(parser, several=True)
    add_numbers(parser, ("--index",), "images whose adversarial paths to draw")
    option(
        parser,
        "--ratios",
        int,
        0,
        "also: equal-confidence mixing ratios over this many test images",
    )
    option(parser, "--out", Path, Path("explain"), "folder for the figures and tables")
    option(parser, "--step", float, 1.0, "length of an unrestricted step (SmoothMix's alpha)")
    option(parser, "--steps", int, 8, "number of steps (SmoothMix's T)")
    option(parser, "--noises", int, 128, "noises of the smoothed confidence")
    option(parser, "--seed", int, 0, "seed of the noise")
    add_machine(parser)


def run(options: Options) -> None:
    from smoothcert.evaluation.path_figures import explain_runs

    written = explain_runs(
        options.runs,
        options.out,
        indices=read_whole_numbers(options.index, "--index"),
        ratios=options.ratios,
        alpha=options.step,
        steps=options.steps,
        noises=options.noises,
        seed=options.seed,
        data_dir=options.data_dir,
        trust_code=options.trust_code,
        device=options.device,
    )
    for path in written:
        print(f"wrote {path}")
