"""Who makes the certificates of a store: this process, or workers elsewhere (ray_workers.py)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch

from smoothcert.certification.certifier import Certifier
from smoothcert.certification.images import Image
from smoothcert.runs.executor import Executor, Here

Make = Callable[..., Certifier]
"""Makes the certifier of one worker on a `device`; all of them have the same identity."""

Read = Callable[[Sequence[int]], tuple[Sequence[int], Sequence[Image], Sequence[int]]]
"""The inputs of some indices: the indices themselves, images and labels."""


class Workers(Executor):
    """An executor that knows what it makes: `identity` and `environment` are for the manifest of the store."""

    identity: Mapping[str, Any]
    environment: Mapping[str, Any]

    @property
    @abstractmethod
    def rechecked(self) -> tuple[int, int]:
        """Answers that were evaluated a second time, and how many of them differed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The workers are no longer needed."""


class Local(Here, Workers):
    """This process alone."""

    def __init__(self, make: Make, read: Read, device: str | torch.device | None) -> None:
        self._certifier = certifier = make(device=device)
        super().__init__(lambda names: certifier.rows(*read(names)))
        self.identity, self.environment = certifier.identity, certifier.environment

    @property
    def rechecked(self) -> tuple[int, int]:
        return self._certifier.rechecked
