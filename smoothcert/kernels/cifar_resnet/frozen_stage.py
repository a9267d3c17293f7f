"""The host's side of frozen_stage.cu: the frozen blocks of a stage in one kernel, for attacks in bfloat16.

NVIDIA's run-time compiler, which PyTorch brings along, compiles the kernel at its first use, and what it computes is
compared with PyTorch then; so the first attack must not be captured as a graph. A GPU must have room for two images of
a stage and the weights of two convolutions in the shared memory of a program: Hopper and the GPUs for data centres
after it do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.resources import files
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from smoothcert.devices.memory import is_out_of_memory
from smoothcert.kernels.cifar_resnet.norm import channels_last
from smoothcert.kernels.cifar_resnet.weights import Weight

Kernel = Callable[..., None]
_ROWS = {
    16: 4,
    32: 4,
    64: 2,
}  # of a unit, by channels; as many units as a program has warps, or twice as many
_THREADS = 512
_log = logging.getLogger("smoothcert")


def takes(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether stages of a network with the input `x` can run so."""
    fits = dtype == torch.bfloat16 and x.shape[2:] == (32, 32) and len(x) > 0
    return fits and x.is_cuda and _usable(x.device)


def staged_blocks(x: Tensor, layers: Sequence[tuple[Weight, Tensor]]) -> Tensor:
    """As `frozen_blocks` in residual.py, with weights in the order of `arrangement` below."""
    out: Tensor = StagedBlocks.apply(x, layers)  # type: ignore[no-untyped-call]
    return out


class StagedBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[tuple[Weight, Tensor]]) -> Tensor:
        weights = [weight for weight, _ in layers]
        bits = x.new_empty(bits_shape(len(layers), len(x), x.shape[1]), dtype=torch.int32)
        out = _launch(
            False,
            x,
            _in_one([w.plain for w in weights]),
            _in_one([bias for _, bias in layers]),
            bits,
        )
        ctx.save_for_backward(out, bits)
        ctx.mirrored = [w.mirrored for w in weights]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        out, bits = ctx.saved_tensors
        gradient = torch.ops.aten.threshold_backward(channels_last(gradient), out, 0.0)
        return _launch(True, gradient, _in_one(ctx.mirrored), bits, bits), None


def arrangement(channels: int, dtype: torch.dtype) -> Tensor:
    """Where the weights that the kernel reads one after the other are in [channels, channels, 3, 3], channels-last.

    A thread reads 16 bytes at a time, which are what it has of the operands of two matrix instructions.
    """
    axes = {
        "sixteen_outputs": channels // 16,
        "half_of_outputs": 2,
        "thread_row": 8,
        "tap_row": 3,
        "tap_column": 3,
        "sixteen_inputs": channels // 16,
        "half_of_inputs": 2,
        "thread_column": 4,
        "number": 2,
    }
    stored = "sixteen_inputs tap_column tap_row sixteen_outputs thread_row thread_column half_of_outputs half_of_inputs"
    places = torch.arange(9 * channels * channels).view(*axes.values())
    return places.permute(
        [list(axes).index(name) for name in [*stored.split(), "number"]]
    ).flatten()


def bits_shape(convolutions: int, images: int, channels: int) -> tuple[int, int, int, int]:
    """Of what the kernel keeps for the gradient: a bit for each result, 8 results of each row to a thread's word."""
    side = 512 // channels
    units = side // 8 * (side // _ROWS[channels]) * (channels // 16)
    return convolutions, (images + 1) // 2, units, 32


def shared_bytes(channels: int) -> int:
    """Two images before and after a convolution, and the weights of two convolutions."""
    side = 512 // channels + 2  # with borders; rows are a multiple of 8 pixels apart
    return 2 * (2 * 2 * side * ((side + 7) // 8 * 8) * channels + 2 * 9 * channels * channels)


def kernel_name(channels: int, back: bool) -> str:
    return f"frozen_stage<{channels}, {_ROWS[channels]}, {str(back).lower()}>"


def source() -> str:
    return files(__package__).joinpath("frozen_stage.cu").read_text()


def _launch(back: bool, x: Tensor, weights: Tensor, bias: Tensor, bits: Tensor) -> Tensor:
    x = channels_last(x)
    convolutions, programs = bits.shape[:2]
    out, channels = torch.empty_like(x), x.shape[1]
    _kernels(x.device)[channels, back](
        grid=(programs, 1, 1),
        block=(_THREADS, 1, 1),
        args=[x, weights, bias, bits, out, len(x), convolutions],
        shared_mem=shared_bytes(channels),
    )
    return out


def _in_one(parts: Sequence[Tensor]) -> Tensor:
    """Flat tensors as one; those that already lie one after the other in memory, as `Weights` has them, stay there."""
    ends = [part.data_ptr() + part.numel() * part.element_size() for part in parts]
    neighbours = ends[:-1] == [part.data_ptr() for part in parts[1:]]
    neighbours &= len({part.untyped_storage().data_ptr() for part in parts}) == 1
    if not neighbours or parts[0].data_ptr() % 16:  # the kernel reads 16 bytes at a time
        return torch.cat(list(parts))
    return parts[0].as_strided((sum(map(len, parts)),), (1,))


def has_room(device: torch.device) -> bool:
    room = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return torch.version.hip is None and room >= max(map(shared_bytes, _ROWS))


@cache
def _usable(device: torch.device) -> bool:
    """Whether the kernels are to be had there and compute what PyTorch does; if they should and do not, why is logged.

    Errors that say nothing of the kernels are not remembered.
    """
    if not has_room(device):
        return False
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "the first attack compiles a kernel, which cannot be captured: run one before"
        )
    try:
        if all(_agrees(channels, device) for channels in _ROWS):
            return True
        reason = "it computes something else than PyTorch"
    except (
        Exception
    ) as error:  # a compiler may fail in any way, and the function is none of PyTorch's public ones
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    _log.warning(
        "attacks run convolution by convolution on %s, without the kernel of a stage: %s",
        device,
        reason,
    )
    return False


@cache
def _kernels(device: torch.device) -> dict[tuple[int, bool], Kernel]:
    """By channels and direction."""
    made: dict[tuple[int, bool], Kernel] = {}
    with torch.cuda.device(device), _no_headers():
        for channels in _ROWS:
            for back in (False, True):
                kernel = torch.cuda._compile_kernel(source(), kernel_name(channels, back))
                kernel.set_shared_memory_config(shared_bytes(channels))
                made[channels, back] = kernel
    return made


@contextmanager
def _no_headers() -> Iterator[None]:
    """PyTorch looks for CUDA's headers and fails where they are not installed. The kernel includes none."""
    from torch.utils import cpp_extension  # imports much, and not everywhere

    before = cpp_extension.CUDA_HOME
    cpp_extension.CUDA_HOME = before or "nowhere"
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = before


def _agrees(channels: int, device: torch.device) -> bool:
    """Three blocks on three random images and their gradient, beside PyTorch's in float32."""
    with torch.inference_mode(False), torch.enable_grad():
        return _compared(channels, device)


def _compared(channels: int, device: torch.device) -> bool:
    generator, side = torch.Generator().manual_seed(0), 512 // channels
    shapes = (3, channels, side, side), (6, channels, channels, 3, 3), (6, channels)
    images, weights, biases = (
        torch.randn(shape, generator=generator).to(device) for shape in shapes
    )
    weights /= (9 * channels) ** 0.5
    order = arrangement(channels, torch.bfloat16).to(device)
    both = (
        w.permute(0, 1, 3, 4, 2).flatten(1)[:, order]
        for w in (weights, weights.flip(3, 4).transpose(1, 2))
    )
    layers = [
        (Weight(*pair), bias)
        for *pair, bias in zip(*(w.bfloat16() for w in both), biases, strict=True)
    ]

    def plain(x: Tensor) -> Tensor:
        convs = [
            partial(F.conv2d, weight=w, bias=b, padding=1)
            for w, b in zip(weights, biases, strict=True)
        ]
        for one, two in zip(convs[::2], convs[1::2], strict=True):
            x = (x + two(one(x).relu())).relu()
        return x

    found = []
    for blocks, x in ((plain, images), (partial(staged_blocks, layers=layers), images.bfloat16())):
        x = x.requires_grad_()
        out = blocks(x)
        found.append((out.detach().float(), torch.autograd.grad(out, x, out.detach())[0].float()))
    distances = [
        float((ours - theirs).norm() / theirs.norm()) for theirs, ours in zip(*found, strict=True)
    ]
    return (
        distances[0] < 0.02 and distances[1] < 0.08
    )  # numbers of 8 bits; some ReLUs open or close by rounding
