"""Without a working Triton everything still runs, by PyTorch's own kernels."""

import os
import subprocess
import sys

import pytest
import torch

from smoothcert.devices.launching import runs_triton

pytest.importorskip("triton")

CERTIFY = """
import logging, torch
logging.basicConfig()
from smoothcert import CertifyConfig, SmoothedClassifier
from smoothcert.models import build_model
from smoothcert.noise.streams import NoisyCopies
smoothed = SmoothedClassifier(build_model("lenet", seed=0), CertifyConfig(0.5, n=2000), device="cuda")
certificate = smoothed.certify(torch.zeros(1, 28, 28, dtype=torch.uint8))
image, place = torch.zeros(1, 28, 28, dtype=torch.uint8), {"seed": 0, "index": 0, "stage": "estimation"}
cpu, gpu = (NoisyCopies(image.to(device), 0.5, "exact", **place).take(0, 100).cpu() for device in ("cpu", "cuda"))
print(int(certificate.counts.sum()), torch.equal(cpu, gpu), smoothed.prepare(image).steps)
"""


def test_a_kernel_that_cannot_run_is_a_reason_not_an_error(caplog):
    assert not runs_triton(torch.device("cpu"))
    assert not caplog.records
    assert not runs_triton(
        torch.device("cuda:99")
    )  # no machine has it, so that the trial fails for real
    assert "runs no kernel on cuda:99" in caplog.text
    assert not runs_triton(torch.device("cuda:99"))
    assert len(caplog.records) == 1  # said once


@pytest.mark.cuda
def test_certification_without_a_c_compiler(tmp_path):
    environment = {**os.environ, "CC": "/bin/false", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CERTIFY], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[:2] == ["2000", "True"]
    assert "LeNet kernels" not in done.stdout
    assert "runs no kernel" in done.stderr
