"""`smoothcert datasets`."""

from __future__ import annotations

from smoothcert.cli.options import Options, aligned, no_options

ABOUT = "The data sets, and which of them are on this machine."
add_options = no_options


def run(options: Options) -> None:
    from smoothcert.data import DATASETS
    from smoothcert.data.catalogue import locate

    rows = [("data set", "classes", "shape", "train + test", "place")]
    for name, info in DATASETS.items():
        place = locate(name)
        shape = "x".join(map(str, info.shape))
        sizes = f"{info.train_size} + {info.test_size}"
        rows.append((name, str(info.classes), shape, sizes, str(place) if place else "not on this machine"))
    print(aligned(rows))
    print("pseudo-labelled images for self-training: any file, by --self-training.path")
