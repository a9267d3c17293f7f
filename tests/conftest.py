import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

# One thread for each process, those of the tests too: tests run in several processes at once (see the Makefile), their
# tensors are small, and threads that wait for each other on a busy machine cost many times what they save. OpenMP reads
# this when PyTorch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

from smoothcert.cli import main
from tests.processes import threads, untraced

README = Path(__file__).parent.parent / "README.md"


def numbers_of_arrays():
    """Triton 3.6's interpreter takes arrays of one element for numbers, as NumPy does no longer."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


# without a GPU, Triton's interpreter runs the kernels; it must be chosen before they are first imported
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    if sys.gettrace() is not None and find_spec("triton") is not None:
        # Coverage would look at every call inside the interpreter, which takes twice as long then.
        from triton.runtime.interpreter import GridExecutor

        GridExecutor.__call__ = untraced(GridExecutor.__call__)
    if find_spec("triton") is not None:
        numbers_of_arrays()

# Some virtual machines say that they have AMX, and stop a process that uses it. oneDNN reads this at its first product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# the same examples in every run, and no limit on the time that they take: a busy machine is no failure
settings.register_profile(
    "smoothcert", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("smoothcert")

# shells let what they start in the background ignore Ctrl-C, and processes of tests would inherit that
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    """What decides the last bits of floats on this machine."""
    kernels = torch.backends.cpu.get_cpu_capability()
    chosen = [
        f"{name}={os.environ[name]}"
        for name in ("ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE", "MKL_CBWR", "OMP_NUM_THREADS")
        if name in os.environ
    ]
    return f"rounding: torch {torch.__version__} with {kernels} kernels, {', '.join(chosen)}"


def pytest_runtest_setup():
    """What a test draws from PyTorch's generator does not depend on the tests before it in its process."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def readme_folder(tmp_path_factory):
    """A folder in which README's lines that train have run: the one training of a whole network that tests share."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # one for all of pytest's processes
    place = base / "readme"
    with FileLock(f"{place}.lock"):
        if not (place / "report.html").exists():
            place.mkdir(exist_ok=True)
            _, shell = re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
            with contextlib.chdir(place):
                for line in shell.strip().splitlines():
                    program, *words = shlex.split(line)
                    assert program == "smoothcert"
                    main(words)
    return place


@pytest.fixture(scope="session")
def shared_run(readme_folder):
    """README's run with certificates of six images in certify/six. Copy it to write into it."""
    run = readme_folder / "shared" / "gaussian"
    with FileLock(f"{readme_folder}.lock"):
        if not (run / "certify" / "six").exists():
            shutil.copytree(
                readme_folder / "runs" / "gaussian", run, ignore=shutil.ignore_patterns("certify")
            )
            main(["certify", str(run), "--max", "6", "--n", "200", "--name", "six"])
    return run


@pytest.fixture
def one_thread():
    """As the child processes of a test have: sums over other numbers of threads may round differently."""
    with threads(1):
        yield


def pytest_collection_modifyitems(items):
    # README's training comes first: one of pytest's processes does it while the others have work without it
    items.sort(key=lambda item: item.name != "test_the_lines_that_train_end_in_a_report")
    if not torch.cuda.is_available():
        build = "" if torch.version.cuda else ", and a torch that is not a CPU build"
        for item in items:
            if "cuda" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=f"needs an NVIDIA GPU{build}"))
