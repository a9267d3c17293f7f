"""Tests that need heavy packages; `make test-extras` installs them, and elsewhere these tests skip."""

from importlib.util import find_spec

import torch

if find_spec("torchvision") is not None and not torch.cuda.is_available():
    # torchvision of PyPI is compiled for CUDA builds of torch; beside a CPU build it imports once these are declared
    OPERATORS = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
