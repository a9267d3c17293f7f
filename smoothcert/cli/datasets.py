"""`smoothcert datasets`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, aligned, option
from smoothcert.errors import DataError

ABOUT = "The data sets, which of them are on this machine, and other data that can be certified."


def add_options(parser: ArgumentParser) -> None:
    option(
        parser,
        "--data-dir",
        Path,
        None,
        "also look here, as other commands do; else $SMOOTHCERT_DATA",
    )


def run(options: Options) -> None:
    from smoothcert.data import DATASETS
    from smoothcert.data.catalogue import locate
    from smoothcert.data.found import found_below
    from smoothcert.data.places import roots

    if options.data_dir is not None and not options.data_dir.expanduser().is_dir():
        raise DataError(f"--data-dir: expected a folder, found none at {options.data_dir}")
    rows = [("data set", "classes", "shape", "train + test", "place")]
    known = []
    for name, info in DATASETS.items():
        place = locate(name, options.data_dir)
        known += [] if place is None else [place, *place.parents]
        shape = "x".join(map(str, info.shape))
        sizes = f"{info.train_size} + {info.test_size}"
        rows.append(
            (name, str(info.classes), shape, sizes, str(place) if place else "not on this machine")
        )
    print(aligned(rows))
    places = [root for root in roots(options.data_dir) if root.is_dir()]
    seen = dict(entry for root in places for entry in found_below(root))
    others = [entry for entry in seen.items() if Path(entry[0].partition(":")[2]) not in known]
    if others:
        print("\nother data found:")
        print(aligned(others))
    print(
        "\nany data of yours: folder:PATH (pictures), tar:PATH (pictures and labels in tar files),"
    )
    print("npz:PATH (arrays), hf-dataset:NAME (package datasets)")
    print("pseudo-labelled images for self-training: any file, by --self-training.path")
