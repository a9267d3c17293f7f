"""The host's side of conv_kernels.py and weight_kernels.py."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from smoothcert.kernels.cifar_resnet import conv_kernels, weight_kernels
from smoothcert.kernels.cifar_resnet.norm import Normed, added_up


class Tile(NamedTuple):
    """How a convolution is cut into programs, by channels; as tuned by hand on an H200."""

    rows: int  # of a group of threads
    warps: int
    registers: int | None = (
        None  # of a thread at most, for more programs to fit on a multiprocessor
    )


_TILES = {16: Tile(2, 4), 32: Tile(2, 4), 64: Tile(1, 2)}
_WEIGHT_ROWS = {16: 4, 32: 4, 64: 2}  # even
_SHARES = {16: 396, 32: 99, 64: 24}  # programs that share a sum over pixels
CHANNELS = tuple(_TILES)
"""What the kernels are made for."""


def conv3x3(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    shortcut: Tensor | None = None,
    relu: bool = False,
    active: Tensor | None = None,
) -> Tensor:
    """relu(conv(x) + bias + shortcut), zero where `active` is not positive; as many channels out as in.

    All are channels-last and of one type, float32 or bfloat16, but for the bias, which is float32; `weight` has the
    order of `arrangement`.
    """
    return _conv(x, weight, 0, bias=bias, shortcut=shortcut, relu=relu, active=active)[0]


def conv_with_moments(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """conv(x), and the shares [programs, 3, channels] of its moments: see `moments` in norm_kernels.py."""
    return _conv(x, weight, 3)


def conv_with_sums(
    x: Tensor, weight: Tensor, made: Normed, shortcut: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """conv(x) + shortcut, the gradient of `made.out`, behind its ReLU.

    Also the shares [programs, 2, channels] of the gradients of beta and gamma.
    """
    return _conv(x, weight, 2, shortcut=shortcut, active=made.out, made=made)


def _conv(
    x: Tensor,
    weight: Tensor,
    sums: int,
    bias: Tensor | None = None,
    shortcut: Tensor | None = None,
    relu: bool = False,
    active: Tensor | None = None,
    made: Normed | None = None,
) -> tuple[Tensor, Tensor]:
    tile, (sizes, tiles) = _TILES[x.shape[1]], _cut(x, 8, _TILES[x.shape[1]].rows)
    out, programs = torch.empty_like(x), triton.cdiv(tiles, tile.warps)
    parts = x.new_empty((programs, sums, x.shape[1]), dtype=torch.float32)
    conv_kernels.conv3x3[(programs,)](
        x,
        weight,
        x if bias is None else bias,
        x if shortcut is None else shortcut,
        x if active is None else active,
        *((x, x, x) if made is None else (made.x, made.mean, made.scale)),
        out,
        parts,
        len(x),
        **sizes,
        BIAS=bias is not None,
        ADD=shortcut is not None,
        RELU=relu,
        MASK=active is not None,
        MOMENTS=sums == 3,
        SUMS=made is not None,
        WARPS=tile.warps,
        num_warps=tile.warps,
        maxnreg=tile.registers,
    )
    return out, parts


class WeightGradients:
    """Those of many convolutions alike, from inputs like `x`, in float32; they are added up at once at the end.

    Nobody needs them before that, so a GPU computes them beside the kernels that wait for each other.
    """

    def __init__(self, x: Tensor, count: int) -> None:
        channels = x.shape[1]
        self._sizes, tiles = _cut(x, 4, _WEIGHT_ROWS[channels])
        steps = triton.cdiv(tiles, 4)
        self._each = triton.cdiv(steps, _SHARES[channels])
        shape = count, triton.cdiv(steps, self._each), channels, 3, 3, channels
        self._parts = x.new_empty(shape, dtype=torch.float32)
        self._beside = torch.cuda.Stream(x.device) if x.is_cuda else None  # type: ignore[no-untyped-call]
        self._gradients: list[
            Tensor
        ] = []  # whose memory must not be used again while another stream reads it

    def add(self, number: int, gradient: Tensor, x: Tensor) -> None:
        """Those of one convolution, from the gradient of its outputs and from its inputs."""
        parts, sixteens = self._parts[number], x.shape[1] // 16
        grid = len(parts), sixteens * sixteens
        self._gradients.append(gradient)
        if self._beside is not None:
            self._beside.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(self._beside):
            weight_kernels.conv3x3_weights[grid](
                gradient, x, parts, len(x), self._each, **self._sizes, num_warps=4
            )

    def all(self) -> Tensor:
        """[convolutions, channels, channels, 3, 3], channels-last as the weights are."""
        if self._beside is not None:
            torch.cuda.current_stream(self._parts.device).wait_stream(self._beside)
        return added_up(self._parts).permute(0, 1, 4, 2, 3)


def arrangement(channels: int, dtype: torch.dtype) -> Tensor:
    """Where the weights that `conv3x3` reads one after the other are in [channels, channels, 3, 3], channels-last.

    Thread 4 g + q of a warp reads at a time what it has of the operand of a matrix instruction: see weights_operand.
    """
    axes = {
        "thread_row": 8,
        "sixteen_outputs": channels // 16,
        "half_of_outputs": 2,
        "tap": 9,
        "piece": channels // 16,
        "thread_column": 4,
        "pair": 2,
        "number": 2,
    }
    if dtype == torch.float32:
        stored = "tap piece sixteen_outputs pair thread_row thread_column number half_of_outputs"
    else:
        stored = "tap piece sixteen_outputs thread_row thread_column pair half_of_outputs number"
    places = torch.arange(9 * channels * channels).view(*axes.values())
    places = places[..., [1, 0, 3, 2], :, :]  # as `k` in conv3x3 has it
    return places.permute([list(axes).index(name) for name in stored.split()]).flatten()


def _cut(x: Tensor, groups: int, rows: int) -> tuple[dict[str, int | float], int]:
    """The kernels' constants, and how many tiles there are."""
    images, channels, height, width = x.shape
    runs = min(groups, triton.next_power_of_2(triton.cdiv(width, 4)))
    tiles = images * triton.cdiv(height, groups // runs * rows) * triton.cdiv(width, 4 * runs)
    cut = x.is_cuda and x.dtype == torch.float32  # Triton's interpreter multiplies in float32
    scale = 1 + 0.72 / 1024 if cut else 1.0
    plane: dict[str, int | float] = {
        "HEIGHT": height,
        "WIDTH": width,
        "CHANNELS": channels,
        "SCALE": scale,
    }
    return {**plane, "ROWS": rows, "RUNS": runs}, tiles
