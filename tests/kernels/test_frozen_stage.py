"""The kernel of a stage's frozen blocks beside PyTorch's convolutions: on a GPU, or on a CPU by an emulation."""

import ctypes
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("triton")
from smoothcert.kernels.cifar_resnet import frozen_stage
from smoothcert.kernels.cifar_resnet.weights import Weight

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CHANNELS = [16, 32, 64]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """The kernel compiled for the CPU."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    library = tmp_path_factory.mktemp("emulated") / "frozen_stage.so"
    program = Path(__file__).with_name("frozen_stage_on_cpu.cpp")
    included = Path(frozen_stage.__file__).parent
    compiler = [
        "g++",
        "-std=c++17",
        "-O2",
        "-U_FORTIFY_SOURCE",
        "-w",
        "-shared",
        "-fPIC",
    ]  # it jumps between stacks
    subprocess.run([*compiler, f"-I{included}", "-o", library, program], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture
def stage(request, monkeypatch):
    """`staged_blocks`, on whatever there is."""
    if DEVICE.type == "cuda":
        if not frozen_stage.has_room(DEVICE):
            pytest.skip("this GPU has too little shared memory")
        return frozen_stage.staged_blocks
    library = request.getfixturevalue("emulated")

    def kernel(channels, back):
        def launch(grid, block, args, shared_mem):
            assert grid == ((len(args[0]) + 1) // 2, 1, 1)
            assert block == (512, 1, 1)
            assert shared_mem == frozen_stage.shared_bytes(channels)
            library.run(
                channels, back, *(ctypes.c_void_p(t.data_ptr()) for t in args[:5]), *args[5:]
            )

        return launch

    kernels = {
        (channels, back): kernel(channels, back) for channels in CHANNELS for back in (False, True)
    }
    monkeypatch.setattr(frozen_stage, "_kernels", lambda device: kernels)
    return frozen_stage.staged_blocks


class Rounded(torch.autograd.Function):
    """What a kernel stores is bfloat16, forward and backward."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().to(gradient.dtype)


def by_definition(x, weights, biases):
    for k in range(0, len(weights), 2):
        middle = Rounded.apply(F.conv2d(x, weights[k], biases[k], padding=1).relu())
        x = Rounded.apply((x + F.conv2d(middle, weights[k + 1], biases[k + 1], padding=1)).relu())
    return x


def drawn(channels, images, convolutions):
    """Images, weights and biases in float64, of which all but the biases are numbers of bfloat16."""
    generator = torch.Generator().manual_seed(channels + images)
    side = 512 // channels
    x = torch.randn(images, channels, side, side, generator=generator)
    weights = (
        torch.randn(convolutions, channels, channels, 3, 3, generator=generator)
        / (9 * channels) ** 0.5
    )
    biases = torch.randn(convolutions, channels, generator=generator) / 4
    x, weights = (t.bfloat16().double().to(DEVICE) for t in (x, weights))
    return x.contiguous(memory_format=torch.channels_last), weights, biases.double().to(DEVICE)


def layers_of(weights, biases):
    """As `Weights` gives them to the blocks."""
    order = frozen_stage.arrangement(weights.shape[1], torch.bfloat16).to(weights.device)
    mirrored = weights.flip(3, 4).transpose(1, 2)
    both = (w.permute(0, 1, 3, 4, 2).flatten(1).bfloat16()[:, order] for w in (weights, mirrored))
    return [(Weight(*pair), bias.float()) for *pair, bias in zip(*both, biases, strict=True)]


def both_ways(blocks, x, *of_blocks):
    x = x.detach().requires_grad_()
    out = blocks(x, *of_blocks)
    towards = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return out.detach().double(), torch.autograd.grad(out, x, towards)[0].double()


def distance(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("images", [1, 2, 5])
@pytest.mark.parametrize("channels", CHANNELS)
def test_blocks_and_their_gradient_are_those_of_the_definition(stage, channels, images):
    x, weights, biases = drawn(channels, images, 4)
    out, gradient = both_ways(stage, x.bfloat16(), layers_of(weights, biases))
    expected, its_gradient = both_ways(by_definition, x, weights, biases)
    assert 0.2 < (expected == 0).double().mean() < 0.8  # the ReLUs have something to do
    # numbers are rounded to 8 bits at the same places; sums of another order seldom round to another number
    assert distance(out, expected) < 2e-3
    assert distance(gradient, its_gradient) < 1e-2


@pytest.mark.parametrize("channels", CHANNELS)
def test_what_is_not_a_number_stays_so_and_spoils_no_other_image(stage, channels):
    x, weights, biases = drawn(channels, 3, 2)
    x[1, 0, 3, 4] = torch.nan
    out, gradient = both_ways(stage, x.bfloat16(), layers_of(weights, biases))
    expected, _ = both_ways(by_definition, x, weights, biases)
    assert torch.equal(out.isnan(), expected.isnan())
    assert out[1].isnan().any()
    assert not out[[0, 2]].isnan().any()
    assert not gradient[[0, 2]].isnan().any()


def test_weights_that_do_not_lie_side_by_side_are_put_so(stage):
    x, weights, biases = drawn(64, 1, 2)
    layers = layers_of(weights, biases)
    apart = [(Weight(*(t.clone() for t in weight)), bias.clone()) for weight, bias in layers]
    found, again = (both_ways(stage, x.bfloat16(), some) for some in (layers, apart))
    assert all(map(torch.equal, found, again))


def test_the_comparison_sees_what_only_several_blocks_show(stage, monkeypatch):
    launch = frozen_stage._launch

    def without_bits_between_blocks(back, x, weights, bias, bits):
        if back:
            bits[1::2] = -1  # all ReLUs after a block let everything pass
        return launch(back, x, weights, bias, bits)

    def biases_of_the_first_block_alone(back, x, weights, bias, bits):
        if not back:
            bias = bias.view(-1, x.shape[1])[:2].repeat(len(bits) // 2, 1)
        return launch(back, x, weights, bias, bits)

    for wrong in (without_bits_between_blocks, biases_of_the_first_block_alone):
        monkeypatch.setattr(frozen_stage, "_launch", wrong)
        assert not frozen_stage._agrees(32, DEVICE)


def test_it_is_compared_in_inference_mode_too(stage):
    with torch.inference_mode():
        assert frozen_stage._agrees(32, DEVICE)


@pytest.mark.parametrize("channels", CHANNELS)
def test_a_kernel_that_computes_something_else_is_not_used(stage, channels, monkeypatch):
    assert frozen_stage._agrees(channels, DEVICE)
    launch = frozen_stage._launch
    for wrong in (False, True):  # forward, backward
        monkeypatch.setattr(
            frozen_stage,
            "_launch",
            lambda back, *rest, wrong=wrong: launch(back, *rest) * (0.8 if back is wrong else 1),
        )
        assert not frozen_stage._agrees(channels, DEVICE)


@pytest.mark.cuda
def test_attacks_by_it_are_as_near_to_float64_as_those_by_single_convolutions(monkeypatch):
    from smoothcert.kernels.cifar_resnet.training import FastResNetTraining
    from smoothcert.models import build_model

    model = build_model("resnet20", 10, "cifar10", seed=0).to(
        DEVICE, memory_format=torch.channels_last
    )
    x = torch.rand(37, 3, 32, 32, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    with torch.no_grad():
        for _ in range(20):
            model(x)  # statistics of its own
    model.eval().requires_grad_(False)
    fast = FastResNetTraining(model, model, torch.bfloat16)
    if not frozen_stage.has_room(DEVICE):
        pytest.skip("this GPU has too little shared memory")
    assert frozen_stage.takes(x, torch.bfloat16)
    ours = both_ways(fast, x)
    monkeypatch.setattr(frozen_stage, "takes", lambda x, dtype: False)
    single = both_ways(fast, x)
    exact = both_ways(deepcopy(model).double(), x.double())
    for one, other, expected in zip(ours, single, exact, strict=True):
        assert not torch.equal(one, other)
        # a ReLU that rounding lets open moves a gradient far, here as there
        assert distance(one, expected) < 1.2 * distance(other, expected)
