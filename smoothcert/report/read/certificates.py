"""What was certified: one `Certificates` per store of ours or published log of the field."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.config.choices import Law
from smoothcert.config.choices import law_of as law_of  # named here too, for who reads stores
from smoothcert.errors import DataError
from smoothcert.runs.rows import nothing_yet


@dataclass(frozen=True, eq=False)
class Certificates:
    """The certified inputs of one run, one entry per input, ordered by index; `predict` -1 is an abstention.

    `expected` is how many inputs the manifest promises; `warnings` is what a reader of the numbers must know.
    """

    name: str
    idx: NDArray[np.int64]
    label: NDArray[np.int64]
    predict: NDArray[np.int64]
    radius: NDArray[np.float64]
    correct: NDArray[np.bool_]
    sigma: float | None = None
    n0: int | None = None
    n: int | None = None
    alpha: float | None = None
    noise: str | None = None
    norm: str = "l2"  # of the radii
    bound: str = "binary"  # that gave them
    dimension: int | None = (
        None  # values of an input, where l-infinity radii were made of l2 radii by it
    )
    expected: int | None = None
    source: Path = field(default_factory=Path)
    p_lower: NDArray[np.float64] | None = None
    counts0: NDArray[np.object_] | None = (
        None  # selection samples of an input: "class:count,class:count", as stored
    )
    counts: NDArray[np.object_] | None = None  # estimation samples, likewise
    manifest: dict[str, Any] | None = None
    config: dict[str, Any] | None = None  # the config.yaml of the run that was certified
    warnings: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()  # what attacks have shown against them as stored
    stored: Certificates | None = None  # as stored, where these were made of the counts again

    def __post_init__(self) -> None:
        columns = (self.label, self.predict, self.radius, self.correct)
        if any(len(column) != len(self.idx) for column in columns):
            raise DataError(
                f"{self.name}: idx, label, predict, radius and correct must have one entry per input, found "
                f"{', '.join(str(len(column)) for column in (self.idx, *columns))}"
            )
        if self.norm not in ("l1", "l2", "linf"):
            raise DataError(f"{self.source}: expected radii in l1, l2 or linf, found {self.norm!r}")
        if len(self.idx) == 0:
            raise nothing_yet(self.source)

    @property
    def labelled(self) -> bool:
        """Whether the inputs have labels, all of them or none. Without, there are certificates but no accuracy."""
        return bool(self.label[0] >= 0)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """The inputs that certified shares count: with a correct answer, or with any answer where nothing is labelled.

        Whoever shows such a share must say which of the two it is (`labelled`).
        """
        return self.correct if self.labelled else ~self.abstained

    @property
    def rows(self) -> int:
        return len(self.idx)

    @property
    def partial(self) -> bool:
        return self.expected is not None and self.rows < self.expected

    @property
    def law(self) -> Law:
        """Logs of the field do not name it: their noise is Gaussian."""
        return law_of("exact" if self.noise is None else self.noise)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that decide the certificates of a store, from its manifest; empty for a log."""
        return dict(self.manifest["identity"]) if self.manifest else {}

    @property
    def alpha_each(self) -> float | None:
        """The failure probability of one certificate: alpha, or its share where alpha is for all inputs together."""
        if self.alpha is None or not self.identity.get("simultaneous"):
            return self.alpha
        return self.alpha / ((self.manifest or {}).get("inputs") or self.rows)

    @property
    def corruption(self) -> tuple[str, str] | None:
        """Type and severity (maybe empty) of the corruption that a store is about; None for other stores."""
        if not str(self.identity.get("dataset")).endswith("-c"):
            return None
        kind, _, severity = str(self.identity.get("split")).partition("/")
        return kind, severity

    @property
    def tested_radii(self) -> tuple[float, ...] | None:
        """The only radii that a store tested: at others nothing is known. None if each input has its own radius."""
        if self.identity.get("procedure") != "radius":
            return None
        radii = self.identity.get("radii")
        return tuple(map(float, radii)) if isinstance(radii, list) else ()

    def tested_at(self, radii: ArrayLike) -> NDArray[np.bool_]:
        """For each of the radii, whether it is known which inputs are certified there."""
        asked = np.asarray(radii, dtype=np.float64)
        return (
            np.ones(asked.shape, bool)
            if self.tested_radii is None
            else np.isin(asked, self.tested_radii)
        )

    @property
    def abstained(self) -> NDArray[np.bool_]:
        return np.asarray(self.predict == -1)

    def where(self, mask: NDArray[np.bool_]) -> Certificates:
        """The certificates of the inputs that `mask` chooses, at least one."""
        columns = ("idx", "label", "predict", "radius", "correct", "p_lower", "counts0", "counts")
        kept = {
            name: column[mask] for name in columns if (column := getattr(self, name)) is not None
        }
        stored = self.stored and self.stored.where(mask)
        return replace(self, **kept, expected=None, warnings=(), stored=stored)
