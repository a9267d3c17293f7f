"""Some inputs of a store certified again, with the same noise, by the code that certifies. Needs PyTorch."""

from __future__ import annotations

import dataclasses
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError, ModelError, StoreError
from smoothcert.progress import ProgressBar
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.rows import CHECK
from smoothcert.runs.store import Manifest, ResultStore
from smoothcert.verification.rules import read_rules
from smoothcert.verification.verdict import Verdict

if TYPE_CHECKING:
    from smoothcert.data import Dataset, ImageFolder

_AT_ONCE = 16
_HERE = ("device_type", "precision", "prepared", "noise_stream")  # what may differ on another machine


@dataclass(frozen=True)
class Resampling:
    """How many inputs: a share such as 1%, or a number; chosen by the system's randomness if there is no seed."""

    amount: str
    seed: int | None = None
    device: str = "auto"
    quiet: bool = False

    def __post_init__(self) -> None:
        self.inputs(100)

    def inputs(self, rows: int) -> int:
        """How many of so many rows, at least one."""
        try:
            share = self.amount.endswith("%")
            amount = float(self.amount[:-1]) / 100 if share else int(self.amount)
        except ValueError:
            amount, share = -1, False
        if not (0 < amount <= 1 if share else amount >= 1):
            raise ConfigError(f"--resample takes a share such as 1% or a number of inputs, found {self.amount!r}")
        return min(rows, max(1, math.ceil(amount * rows) if share else int(amount)))

    def check(self, verdict: Verdict, manifest: Manifest, data: Dataset | ImageFolder | None) -> None:
        """Certify the chosen inputs again, and name every one whose counts or answer differ."""
        if data is None:
            raise StoreError(f"{verdict.store} cannot be sampled again without its data: name it by --data-dir")
        stored = {int(row["idx"]): row for row in ResultStore(verdict.store).rows()}
        source = random.SystemRandom() if self.seed is None else random.Random(self.seed)
        chosen = sorted(source.sample(sorted(stored), self.inputs(len(stored)))) if stored else []
        try:
            again, elsewhere = self._certify(verdict, manifest, data, chosen)
        except ModelError as error:
            verdict.problems.append(str(error))
            return
        verdict.resampled, verdict.elsewhere = len(again), bool(elsewhere)
        differing = [f"input {i}: {text}" for i, row in again.items() if (text := _difference(stored[i], row))]
        verdict.differ = [i for i, row in again.items() if _difference(stored[i], row)]
        if elsewhere:
            verdict.notes += [f"sampled again elsewhere ({elsewhere}): counts may differ by rounding", *differing]
        else:
            verdict.problems += differing

    def _certify(
        self, verdict: Verdict, manifest: Manifest, data: Dataset | ImageFolder, chosen: list[int]
    ) -> tuple[dict[int, dict[str, Any]], str]:
        """The rows of the chosen inputs as they come out here, and what differs here from where they were made."""
        from smoothcert.certification.certify import certificate_row, identity_of
        from smoothcert.certification.smoothed import SmoothedClassifier
        from smoothcert.certification.subject import subject
        from smoothcert.devices.pick import pick_device
        from smoothcert.runs.environment import device_kind
        from smoothcert.runs.selection import Selection

        identity, device = manifest.identity, pick_device(self.device)
        model, _ = RunFolder(verdict.store.resolve().parent.parent).load_model()
        names = {entry.name for entry in dataclasses.fields(CertifyConfig)} & identity.keys()
        settings = {name: identity[name] for name in names}
        if identity.get("device_type") != device_kind(device):
            settings["precision"] = "auto"
        config = CertifyConfig(**settings)
        smoothed = SmoothedClassifier.of(model, data.classes, config, device=device)
        shape = data.image(chosen[0] if chosen else 0).shape
        alpha = read_rules(manifest).alpha
        plan = smoothed.plan(shape, config.n0, config.n, alpha, config.radii, config.tolerance)
        here = {**identity_of(config, plan, smoothed.prepare(shape), device), **subject(model, data, Selection())}
        for name in ("model", "network", "classes"):
            if name in identity and here[name] != identity[name]:
                verdict.problems.append(f"{name}: {identity[name]} was certified, {here[name]} is here")
        found: dict[int, dict[str, Any]] = {}
        with ProgressBar("sample again", len(chosen), "images", quiet=self.quiet) as bar:
            for first in range(0, len(chosen), _AT_ONCE):
                now = chosen[first : first + _AT_ONCE]
                labels = [int(data.labels[index]) for index in now]
                images = [data.image(index) for index in now]
                certificates = smoothed.certify_planned(images, now, plan, labels if config.skip_wrong else None)
                for index, label, certificate in zip(now, labels, certificates, strict=True):
                    row = certificate_row(certificate, index=index, label=label, noise=config.noise, seed=config.seed)
                    found[index] = row
                    bar.advance()
        names_here = [n for n in _HERE if n in identity and here.get(n) != identity[n]]
        return found, "; ".join(f"{n} {identity[n]} there, {here.get(n)} here" for n in names_here)


def _difference(stored: dict[str, str], again: dict[str, Any]) -> str:
    """In words what differs of two rows of one input; empty if nothing does."""
    names = [name for name in stored if name in again and name != CHECK and stored[name] != str(again[name])]
    return "; ".join(f"{name} {stored[name]} stored, {again[name]} now" for name in names)
