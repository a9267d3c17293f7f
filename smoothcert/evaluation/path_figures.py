"""`smoothcert explain`: adversarial paths and mixing ratios of trained runs, as figures and tables in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from smoothcert.certification.subject import subject
from smoothcert.config import check_seed
from smoothcert.data import Dataset, LazyDataset, require_labels
from smoothcert.devices.pick import pick_device
from smoothcert.errors import ConfigError
from smoothcert.evaluation.mixing_ratios import mixing_ratios
from smoothcert.evaluation.paths import AdversarialPath, adversarial_path
from smoothcert.files import write_text
from smoothcert.noise.streams import unit_range
from smoothcert.report.charts.evaluations import path_svg, ratio_svg
from smoothcert.report.read.names import distinct_names, one_line
from smoothcert.runs.data_of import data_of_run
from smoothcert.runs.environment import device_kind, environment
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.selection import Selection


def explain_runs(
    runs: Sequence[Path],
    out: Path,
    *,
    indices: Sequence[int] = (),
    ratios: int = 0,
    alpha: float = 1.0,
    steps: int = 8,
    noises: int = 128,
    seed: int = 0,
    data_dir: Path | None = None,
    device: str = "auto",
    trust_code: bool = False,
    quiet: bool = False,
) -> Iterator[Path]:
    """Write one figure per run and index, and one of the mixing ratios of all runs; yields the files written.

    A run is called by what tells its folder from those of the others; one that is given twice is explained once. The
    ratio of each image is kept in the folder `.ratios` of `out`, so that the same call goes on where one was stopped.
    """
    if ratios < 0:
        raise ConfigError(f"ratios is a number of images, found {ratios}")
    check_seed("seed", seed)
    if not indices and not ratios:
        raise ConfigError(
            "nothing to explain: give an index for adversarial paths, ratios for mixing ratios, or both"
        )
    settings = {"alpha": alpha, "steps": steps, "noises": noises, "seed": seed}
    found: dict[str, list[float]] = {}
    runs = list(dict.fromkeys(run.resolve() for run in runs))
    names = distinct_names([(run, None) for run in runs])
    for folder, name, file in zip(runs, _labels(names), _file_names(names), strict=True):
        model, spec = RunFolder(folder).load_model(trust_code=trust_code)
        data = data_of_run(spec, "test", data_dir)
        require_labels(data, "an adversarial path")
        wrong = [index for index in indices if not 0 <= index < len(data)]
        if wrong:
            raise ConfigError(
                f"the test set of {data.name} has images 0 to {len(data) - 1}, found index {wrong[0]}"
            )
        if ratios > len(data):
            raise ConfigError(
                f"ratios = {ratios} is of {data.name}, which has {len(data)} test images"
            )
        place = pick_device(device)
        path_of = partial(_path, model.to(place), data, spec.sigma, settings)
        for index in indices:
            yield _write(
                out / f"{file}-{index}.svg", _figure(path_of(index), name, spec.class_names)
            )
        if ratios:
            chosen = range(0, len(data), max(1, len(data) // ratios))[:ratios]
            about = {**settings, "sigma": spec.sigma, "device_type": device_kind(place)}
            found[name] = mixing_ratios(
                path_of,
                chosen,
                out
                / ".ratios",  # hidden, since reports take a folder with a manifest for certificates
                {**about, **subject(model, data, Selection())},
                environment(place),
                what=f"mixing ratios of {name}",
                quiet=quiet,
            )
    if found:
        rows = [f"{name}\t{ratio:.4f}" for name, values in found.items() for ratio in values]
        yield _write(out / "mixing-ratios.tsv", "\n".join(["run\tratio", *rows]) + "\n")
        yield _write(out / "mixing-ratios.svg", ratio_svg(found))


def _labels(names: Sequence[str]) -> list[str]:
    return _numbered_if_alike([one_line(name) for name in names])


def _file_names(names: Sequence[str]) -> list[str]:
    """The names without what some file systems do not take in the name of a file, such as the / between folders."""
    return _numbered_if_alike(
        [re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run" for name in names]
    )


def _numbered_if_alike(names: list[str]) -> list[str]:
    """All names with their numbers if any two are alike: some file systems do not tell capitals from small letters."""
    if len({name.casefold() for name in names}) == len(names):
        return names
    return [f"{name}-{number}" for number, name in enumerate(names, start=1)]


def _path(
    model: nn.Module,
    data: Dataset | LazyDataset,
    sigma: float,
    settings: Mapping[str, Any],
    index: int,
) -> AdversarialPath:
    place = next(model.parameters()).device
    image = unit_range(torch.from_numpy(np.array(data.image(index))).to(place))
    label = int(data.labels[index])
    return adversarial_path(model, image, label, sigma, index=index, **settings)


def _figure(path: AdversarialPath, run: str, names: tuple[str, ...]) -> str:
    def name(label: int) -> str:
        return names[label] if names else f"class {label}"

    mixed = [(1 - ratio) * path.clean + ratio * path.adversarial for ratio in np.linspace(0, 1, 6)]
    return path_svg(
        path.ratios,
        (path.confidences[:, path.answer], path.confidences[:, path.target]),
        (name(path.answer), name(path.target)),
        mixed,
        path.equal_confidence_ratio,
        f"{run}, image {path.index} ({name(path.label)}): l2 distance {path.distance:.2f}",
    )


def _write(path: Path, text: str) -> Path:
    write_text(path, text)
    return path
