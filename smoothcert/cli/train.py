"""`smoothcert train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from smoothcert.cli.frame import DataDir, Device, Options, Recipe, command
from smoothcert.config import TrainConfig
from smoothcert.errors import StoreError
from smoothcert.interrupts import speaks
from smoothcert.progress import noun


@command("Make", "out data sigma method epochs lr seed init_from device data_dir")
def train(
    recipe: Recipe,
    /,
    *,
    out: Path,
    settings: Annotated[dict[str, Any], Options(TrainConfig, over=True)],
    data_dir: DataDir = None,
    device: Device = "auto",
    workers: int | None = None,
    track: tuple[str, ...] = (),
    soft_labels_only: bool = False,
) -> None:
    """Train a model by a recipe; any setting can be changed

    Args:
        recipe: name of a shipped recipe (`smoothcert list recipes`) or a YAML file
        out: run folder to make
        workers: processes that decode pictures, 0 for threads; default: by cores and GPUs
        track: also log to tensorboard or wandb
        soft_labels_only: only make the soft labels that the method reads, here or in --soft-labels.folder
    """
    from smoothcert.recipes import load_recipe
    from smoothcert.runs.remote import is_remote, local
    from smoothcert.training.fit import fit

    config = load_recipe(str(local(recipe)) if is_remote(recipe) else recipe, settings).config
    if soft_labels_only:
        _soft_labels(config, out, data_dir, device)
        return
    done = fit(config, out, track=track, data_dir=data_dir, device=device, workers=workers)
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


def _soft_labels(config: TrainConfig, out: Path, data_dir: Path | None, device: str) -> None:
    """As training does first; any number of runs may share the folder."""
    from smoothcert.statistics.printed import in_percent
    from smoothcert.training.fit import load_data, make_soft_labels
    from smoothcert.training.loop import TrainingData
    from smoothcert.training.ranks import join_ranks
    from smoothcert.training.soft_labels import plan

    wanted, ranks = plan(config, out), join_ranks(device)
    try:
        train, test = load_data(wanted.model, data_dir)
        votes = make_soft_labels(wanted, ranks, TrainingData(train, test), quiet=not ranks.is_main)
    finally:
        ranks.close()
    if ranks.is_main:
        share = in_percent((votes.argmax(axis=1) == train.labels).mean())
        images, each = noun(len(votes), "image"), noun(wanted.n, "vote")
        print(
            f"{wanted.folder}: soft labels of {len(votes)} {images} of {train.name}, {wanted.n} {each} each"
        )
        print(f"the most-voted class is the label of {share} % of the images")
