"""load_model(): a network that is ready to be certified, by the name of its run."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.errors import StoreError
from smoothcert.runs.folder import RunFolder

if TYPE_CHECKING:
    from torch import nn

MINI = "mini"
"""The small network that comes with the package: a narrow LeNet, trained on noisy digits of sigma 0.5."""


def load_model(name: str | Path, *, trust_code: bool = False) -> nn.Module:
    """The network of a run folder in eval mode, or "mini", the small one for digits that comes with the package.

    It takes images in [0, 1] and returns logits. The network of another run may be Python code: `trust_code` runs it.

    >>> from smoothcert import load_model
    >>> model = load_model("mini")
    >>> sum(parameter.numel() for parameter in model.parameters())
    26474
    """
    run = mini_run() if name == MINI else RunFolder(name)
    if not run.path.exists():
        raise StoreError(
            f"no run folder at {run.path}: name one that `smoothcert train` made, or {MINI!r}"
        )
    return run.load_model(trust_code=trust_code)[0]


def mini_run() -> RunFolder:
    """Only to be read: what is certified of it lies in a copy."""
    return RunFolder(Path(str(files("smoothcert.models") / MINI)))
