"""`smoothcert soft-labels`."""

from __future__ import annotations

import shlex
from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_machine,
    add_overrides,
    as_words,
    given_overrides,
    option,
)
from smoothcert.config import TrainConfig
from smoothcert.progress import noun
from smoothcert.recipes import load_recipe
from smoothcert.statistics.printed import in_percent

ABOUT = (
    "Make CAT-RS's soft labels ahead of training. Settings are those of the model that votes: sigma 0.25, seed 0, "
    "and for the rest the recipe's."
)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        help="recipe or YAML file that the labels are for; its method must read soft labels",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder of the labels; kept if they are there already",
    )
    add_machine(parser)
    option(parser, "--n", int, None, "votes per image; default: the recipe's")
    add_overrides(parser, TrainConfig, but=("method", "soft_labels", "self_training"))


def run(options: Options) -> None:
    from smoothcert.training.fit import load_data, make_soft_labels
    from smoothcert.training.loop import TrainingData
    from smoothcert.training.ranks import join_ranks
    from smoothcert.training.soft_labels import plan

    given = given_overrides(options, TrainConfig)
    # these are the run's; any other is a setting of the model that votes, soft_labels.X for `train`
    of_run = {name: value for name, value in given.items() if name in ("dataset", "as_printed")}
    given = {name: value for name, value in given.items() if name not in of_run}
    votes_each = {} if options.n is None else {"n": options.n}
    own = {"folder": str(options.out), **votes_each, **given}
    wanted = plan(load_recipe(options.recipe, {**of_run, "soft_labels": own}).config, options.out)
    ranks = join_ranks(options.device)
    try:
        train, test = load_data(wanted.model, options.data_dir)
        votes = make_soft_labels(wanted, ranks, TrainingData(train, test), quiet=not ranks.is_main)
    finally:
        ranks.close()
    if ranks.is_main:
        share = in_percent((votes.argmax(axis=1) == train.labels).mean())
        words = as_words(
            {name.replace("_", "-"): value for name, value in of_run.items()}
            | {f"soft-labels.{name}": value for name, value in own.items()}
        )
        images, each = noun(len(votes), "image"), noun(wanted.n, "vote")
        print(
            f"{wanted.folder}: soft labels of {len(votes)} {images} of {train.name}, {wanted.n} {each} each"
        )
        print(f"the most-voted class is the label of {share} % of the images")
        print(f"to use them: smoothcert train {shlex.join([options.recipe, *words])} --out RUN")
