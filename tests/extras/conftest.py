"""Tests that need heavy packages; `make test-extras` installs them, and elsewhere these tests skip."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from smoothcert.cli import main

# torchvision of PyPI is compiled for CUDA builds of torch. Beside a CPU build its operators do not
# load, and it imports once these are declared; where they load, declaring them would end the process.
if (vision := find_spec("torchvision")) is not None:
    try:
        for library in Path(vision.origin).parent.glob("_C*"):
            torch.ops.load_library(library)
    except OSError:
        operators = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory):
    """As all tests have it, but of one epoch: nothing here asks how good it is, and README's takes half a minute."""
    run = tmp_path_factory.mktemp("shared") / "gaussian"
    main(
        [
            "train",
            "mnist-mini/gaussian-0.50",
            "--epochs",
            "1",
            "--evaluate-every",
            "0",
            "--out",
            str(run),
        ]
    )
    main(["certify", str(run), "--max", "6", "--n", "200", "--name", "six"])
    return run
