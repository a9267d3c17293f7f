"""How long a run would take, by what runs and benchmarks took, whatever device these had."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.published.measured import Measured
from smoothcert.published.row import N, method_settings
from smoothcert.recipes.shipped import shipped_settings


class Speeds:
    """From measured runs, and from the JSON files of benchmarks/training.py and benchmarks/certify.py."""

    def __init__(self, measured: Iterable[Measured], benchmarks: Iterable[Path] = ()) -> None:
        # data and network -> of each training the method, its passes for an image, and the seconds of an epoch
        self._epochs: dict[tuple[str, str], list[tuple[str, int, float]]] = {}
        self._image: dict[str, float] = {}  # network -> seconds of an image and noisy copy
        for path in benchmarks:
            self._read(path)
        for run in measured:
            seconds = run.made.seconds
            if "train" in seconds:
                self._add(run.config, seconds["train"] / run.config["epochs"])
            if "certify" in seconds:
                each = seconds["certify"] / run.settings["images"] / run.settings["n"]
                self._image[run.config["model"]] = each

    def hours(self, config: Mapping[str, Any], images: int, n: int = N) -> float | None:
        """Training and certification; None where nothing of this network, or of this network and data, was timed.

        An epoch takes as long as one of the same method, or else of the method with the nearest number of passes, times
        the ratio of these numbers.
        """
        timed = self._epochs.get((config["dataset"], config["model"]), [])
        image = self._image.get(config["model"])
        if not timed or image is None:
            return None
        method, passes = config["method"]["name"], _passes(config)
        _, known, seconds = min(
            timed, key=lambda entry: (entry[0] != method, abs(entry[1] - passes), entry[2])
        )
        return float(config["epochs"] * seconds * passes / known + images * n * image) / 3600

    def _add(self, config: Mapping[str, Any], seconds: float) -> None:
        entry = (config["method"]["name"], _passes(config), seconds)
        self._epochs.setdefault((config["dataset"], config["model"]), []).append(entry)

    def _read(self, path: Path) -> None:
        try:
            found = json.loads(path.read_text())
            for entry in found.get("rows", ()):
                self._add(shipped_settings(entry["recipe"]), float(entry["seconds"]))
            for entry in found.get("networks", ()):
                self._image[entry["network"]] = float(entry["seconds"]) / entry["n"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path}: expected what a benchmark has written, found {error!r}"
            ) from error


def _passes(config: Mapping[str, Any]) -> int:
    """Through the network, for each image: noisy copies, once and in each step of an attack."""
    method = method_settings(config)
    return int(method.get("noises", 1)) * (int(method.get("steps", 0)) + 1)
