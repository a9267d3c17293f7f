import os

import pytest
import torch
from hypothesis import settings

# without a GPU, Triton's interpreter runs the kernels; it must be chosen before they are first imported
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# Some virtual machines say that they have AMX, and stop a process that uses it. oneDNN reads this at its first product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# the same examples in every run, and no limit on the time of one: a busy machine is no failure
settings.register_profile("smoothcert", deadline=None, derandomize=True)
settings.load_profile("smoothcert")


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "cuda" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
