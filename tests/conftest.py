import os

# One thread for each process, those of the tests too: tests run in several processes at once (see the Makefile), their
# tensors are small, and threads that wait for each other on a busy machine cost many times what they save. OpenMP reads
# this when PyTorch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

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


@pytest.fixture
def one_thread():
    """As the child processes of a test have: sums over other numbers of threads may round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "cuda" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
