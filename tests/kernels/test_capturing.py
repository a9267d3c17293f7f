"""Forwards as graphs: the same bits as without, whatever the sizes that come, and no error where there can be none."""

import pytest
import torch

from smoothcert.kernels.generic.capturing import Captured

pytestmark = pytest.mark.cuda
SIZES = [64, 64, 33, 64, 64, 128, 64, 128, 128, 128, 64, 32, 128, 33, 33, 33, 33]


def rows(count):
    return torch.zeros(count, 8, device="cuda")


def run(forward, inputs, size, seed):
    x = inputs(size)
    assert not bool(x.any())
    x[: size - 1] = torch.randn(
        size - 1, 8, generator=torch.Generator("cuda").manual_seed(seed), device="cuda"
    )
    return forward(x).clone()


@torch.inference_mode()
def test_the_bits_are_the_same_with_and_without_a_graph():
    layers = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 5)
    ).cuda()
    captured = Captured(layers, rows)
    for seed, size in enumerate(SIZES):
        assert torch.equal(
            run(captured.forward, captured.inputs, size, seed), run(layers, rows, size, seed)
        )
    assert captured._graph is not None
    assert len(captured._batch) == 128


@torch.inference_mode()
def test_what_cannot_be_captured_is_launched_as_before():
    def forward(x):
        return x * 2 if float(x.sum()) > 0 else -x

    captured = Captured(forward, rows)
    for seed, size in enumerate(SIZES):
        assert torch.equal(
            run(captured.forward, captured.inputs, size, seed), run(forward, rows, size, seed)
        )
    assert captured._graph is None
