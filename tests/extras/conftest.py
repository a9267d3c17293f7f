"""Tests that need heavy packages; `make test-extras` installs them, and elsewhere these tests skip."""

from importlib.util import find_spec

import pytest
import torch

from smoothcert.cli import main

if find_spec("torchvision") is not None and not torch.cuda.is_available():
    # torchvision of PyPI is compiled for CUDA builds of torch; beside a CPU build it imports once these are declared
    OPERATORS = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


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
