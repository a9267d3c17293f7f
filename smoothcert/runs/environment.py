"""How results were made: versions, device, commit. For the record; none of it decides what may be resumed."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import smoothcert
from smoothcert.imports import has_triton

if TYPE_CHECKING:
    import torch


def environment(device: torch.device) -> dict[str, str]:
    import numpy
    import scipy
    import torch

    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor() or platform.machine()
    )
    return {
        "smoothcert": smoothcert.__version__,
        "commit": commit(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "device": name,
        "cpu": torch.backends.cpu.get_cpu_capability(),  # its kernels decide the last digits
        "host": platform.node(),
        "cuda": torch.version.cuda or "",
        "triton": version("triton") if has_triton() else "",
        "pid": str(os.getpid()),
    }


def device_kind(device: torch.device) -> str:
    """What keyed noise depends on: how PyTorch's CUDA generator deals a block out depends on the kind of GPU."""
    import torch

    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type


def commit() -> str:
    """The commit that a checkout of smoothcert is at, read from its .git folder; empty where there is none."""
    git = Path(smoothcert.__file__).parents[1] / ".git"
    try:
        if git.is_file():  # a linked worktree: "gitdir: <place>"
            # which may be an absolute path
            git = git.parent / git.read_text().split(maxsplit=1)[1].strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        common = (
            git / (git / "commondir").read_text().strip() if (git / "commondir").is_file() else git
        )
        name = head.removeprefix("ref: ")
        if (common / name).is_file():
            return (common / name).read_text().strip()
        packed = (line.split() for line in (common / "packed-refs").read_text().splitlines())
        return next((words[0] for words in packed if words[1:] == [name]), "")
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
