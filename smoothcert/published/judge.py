"""Ours beside what is printed: is the difference more than the luck of training and of the choice of images?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from smoothcert.statistics.value import Value


class Verdict(NamedTuple):
    """Always printed with its half width."""

    word: Literal["reproduced", "different", "not judged"]
    difference: float
    half: float
    reason: str


class Measured(Protocol):
    """What one certified run gave."""

    @property
    def values(self) -> tuple[Value, ...]: ...


def over_seeds(values: Iterable[Value]) -> list[Value]:
    raise NotImplementedError


def judge(ours: Value, printed: Value) -> Verdict:
    raise NotImplementedError


def judge_row(row: Any, measured: Sequence[Measured]) -> list[Verdict]:
    raise NotImplementedError
