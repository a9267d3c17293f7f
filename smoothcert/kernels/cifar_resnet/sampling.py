"""The CIFAR ResNets for sampling: weights folded and rearranged for sampling_kernels.py."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple, cast

import torch
import triton
from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.kernels.cifar_resnet.sampling_kernels import head, one_conv, residual_blocks
from smoothcert.kernels.generic.folding import affine
from smoothcert.models.cifar_resnet import BasicBlock, CifarResNet
from smoothcert.models.normalise import Normalise


class Tile(NamedTuple):
    """How a stage is cut into programs. Fixed, not tuned on the spot: every process must compute the same bits."""

    patches: int  # of one warp, see sampling_kernels.py; a power of two
    warps: int
    programs: int  # of `residual_blocks` that run on one multiprocessor at a time
    registers: int | None  # at most so many a thread, for that many programs to fit


TILES = (Tile(128, 2, 4, None), Tile(128, 2, 4, None), Tile(64, 1, 8, None))


class Convs(NamedTuple):
    """Convolutions of one shape, as the kernels read them."""

    weight: Tensor  # [convolutions, numbers]
    bias: Tensor  # [convolutions, outputs of a patch]
    inputs: int
    outputs: int
    stride: int


class Stage(NamedTuple):
    entry: Convs  # the stem, or the strided convolution of the first block
    shortcut: Convs | None
    rest: Convs


class FastResNet:
    """Logits of ``Sequential(normalisation, CifarResNet)`` in half precision, accumulated in float32.

    An image's logits are the same bits in a batch of any size and at any place of it. The next call uses the same
    buffers: one stream at a time.
    """

    batch_size = 8448  # a multiple of the programs that an H200 runs at a time

    def __init__(
        self,
        model: nn.Module,
        dtype: torch.dtype,
        device: torch.device | str,
        size: tuple[int, int] = (32, 32),
        tiles: Sequence[Tile] = TILES,
    ) -> None:
        first, net = cast(tuple[nn.Module, CifarResNet], model)
        self.dtype, self.device, self.size, self.classes = (
            dtype,
            torch.device(device),
            size,
            net.fc.out_features,
        )
        self._tiles, self._count = tiles, 0
        self._stages = [
            Stage(self._packed([_stem(first, net)], 1), None, self._packed(_convs(net.layer1), 1))
        ]
        for blocks in (net.layer2, net.layer3):
            strided, *rest = _convs(blocks)
            weight, bias = _folded(*cast(nn.Sequential, cast(BasicBlock, blocks[0]).downsample))
            # a 1x1 convolution is a 3x3 one of which only the centre counts
            shortcut = nn.functional.pad(weight, (1, 1, 1, 1)), bias
            self._stages.append(
                Stage(
                    self._packed([strided], 2), self._packed([shortcut], 2), self._packed(rest, 1)
                )
            )
        self._fc = [
            t.detach().to(self.device, torch.float32).contiguous()
            for t in (net.fc.weight, net.fc.bias)
        ]

    def inputs(self, count: int) -> Tensor:
        """Where the images [count, 3, H, W] are to be written: a view of the padded, interleaved batch."""
        if count > self._count:
            with torch.inference_mode(
                False
            ):  # or it could not be written to outside of inference mode
                self._allocate(count)
        return self._input[:count, 1:-1, 1:-1, :3].permute(0, 3, 1, 2)

    def __call__(self, x: Tensor, persistent: bool = True) -> Tensor:
        """Logits [b, classes] in float32 of images [b, 3, H, W], in the memory of `inputs` or copied to it.

        All blocks of a stage are one kernel, or each convolution is one if not `persistent`; the bits are the same.
        """
        count, place = len(x), self.inputs(len(x))
        if x.shape != place.shape:
            raise ModelError(
                f"the kernels are made for images {list(place.shape)}, found {list(x.shape)}"
            )
        if x.data_ptr() != place.data_ptr() or x.stride() != place.stride():
            place.copy_(x.clone())  # it may be another part of the same memory
        source = self._input
        for number, (entry, shortcut, rest) in enumerate(self._stages):
            a, b = self._buffers[number]
            if shortcut is None:
                self._conv(number, entry, 0, source, a, count)
            else:
                self._conv(number, entry, 0, source, b, count)
                self._conv(number, shortcut, 0, source, a, count, relu=False)
                self._conv(number, rest, 0, b, a, count, add=True)
            done = 0 if shortcut is None else 1
            if persistent:
                self._blocks(number, rest, done, a, b, count)
            else:
                for index in range(done, len(rest.weight), 2):
                    self._conv(number, rest, index, a, b, count)
                    self._conv(number, rest, index + 1, b, a, count, add=True)
            source = a
        logits = torch.empty(count, self.classes, device=self.device)
        sizes = {
            "HEIGHT": self.size[0] // 4,
            "WIDTH": self.size[1] // 4,
            "CHANNELS": 64,
            "CLASSES": self.classes,
        }
        head[(count,)](source, *self._fc, logits, **sizes, PIXELS=64, COLUMNS=16)
        return logits

    def _conv(
        self,
        number: int,
        convs: Convs,
        index: int,
        source: Tensor,
        target: Tensor,
        count: int,
        relu: bool = True,
        add: bool = False,
    ) -> None:
        cut = sizes_of_stage(self._tiles[number], number, self.size)
        sizes = {"IN": convs.inputs, "OUT": convs.outputs, "STRIDE": convs.stride, **cut}
        one_conv[(triton.cdiv(count, cut["GROUP"]) * cut["TILES"],)](
            source,
            target,
            convs.weight[index],
            convs.bias[index],
            count,
            RELU=relu,
            ADD=add,
            **sizes,
            num_warps=cut["WARPS"],
        )

    def _blocks(
        self, number: int, rest: Convs, done: int, images: Tensor, scratch: Tensor, count: int
    ) -> None:
        tile = self._tiles[number]
        cut = sizes_of_stage(tile, number, self.size)
        weight, bias, blocks = rest.weight[done:], rest.bias[done:], (len(rest.weight) - done) // 2
        sizes = {"CHANNELS": rest.outputs, "WEIGHTS": weight.shape[1], **cut}
        groups = triton.cdiv(count, cut["GROUP"])
        processors = (
            torch.cuda.get_device_properties(self.device).multi_processor_count
            if images.is_cuda
            else 1
        )
        residual_blocks[(min(groups, processors * tile.programs),)](
            images,
            scratch,
            weight,
            bias,
            groups,
            blocks,
            **sizes,
            num_warps=tile.warps,
            maxnreg=tile.registers,
        )

    def _allocate(self, count: int) -> None:
        height, width = self.size
        self._count = 0  # until all of it is there: memory may run out in between, and nothing checks bounds later
        self._buffers = []
        self._input = self._zeros(count, height, width, 4)
        # 1 in the image and 0 in its border: the weights of this channel subtract the mean, but not from the padding
        self._input[:, 1:-1, 1:-1, 3] = 1
        most = max(
            sizes_of_stage(tile, number, self.size)["GROUP"]
            for number, tile in enumerate(self._tiles)
        )
        rows = triton.cdiv(count, most) * most
        shapes = [
            (rows, height >> i, width >> i, stage.rest.outputs)
            for i, stage in enumerate(self._stages)
        ]
        self._buffers = [(self._zeros(*shape), self._zeros(*shape)) for shape in shapes]
        self._count = count

    def _zeros(self, count: int, height: int, width: int, channels: int) -> Tensor:
        return torch.zeros(
            count, height + 2, width + 2, channels, dtype=self.dtype, device=self.device
        )

    def _packed(self, convs: Sequence[tuple[Tensor, Tensor]], stride: int) -> Convs:
        weight, bias = torch.stack([w for w, _ in convs]), torch.stack([b for _, b in convs])
        packed, biases = arranged(weight, bias, self.dtype)
        half, single = packed.to(self.device, self.dtype), biases.to(self.device, torch.float32)
        if bool(half.isinf().any()):
            raise ModelError(f"weights beyond what {self.dtype} can hold")
        return Convs(half, single.contiguous(), weight.shape[2], weight.shape[1], stride)


def sizes_of_stage(tile: Tile, number: int, size: tuple[int, int]) -> dict[str, int]:
    """The kernels' constants in a stage of a network: groups are the fewest samples whose patches fill whole tiles."""
    height, width = size[0] >> number, size[1] >> number
    patches, step = height * width // (2 if number == 0 else 1), tile.patches * tile.warps
    tiles = patches // gcd(patches, step)
    sizes = {"HEIGHT": height, "WIDTH": width, "PATCHES": tile.patches, "WARPS": tile.warps}
    return {**sizes, "GROUP": tiles * step // patches, "TILES": tiles}


def arranged(weight: Tensor, bias: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """[k, out, in, 3, 3] and [k, out] in the order in which the threads of a warp load them."""
    count, outputs, inputs = weight.shape[:3]
    pixels, window = 2 if outputs < 32 else 1, 4 if inputs < 32 else 3
    runs = weight.new_zeros(count, pixels, outputs, 3, window, inputs)
    for pixel in range(pixels):
        runs[:, pixel, :, :, pixel : pixel + 3] = weight.permute(0, 1, 3, 4, 2)
    runs = runs.flatten(4)
    if runs.shape[-1] < 32:
        # the stem loads its 16 numbers twice: the second time for what rounding took from the weights
        runs = torch.cat((runs, runs - runs.to(dtype).double()), dim=-1)
    # as they are here: outputs, filter lines, and a line's numbers in pieces of 32; thread_row and thread_column are g
    # and q of sampling_kernels.py, whose weight_operand undoes what follows
    axes = {
        "conv": count,
        "thread_row": 8,
        "sixteen_outputs": pixels * outputs // 16,
        "half_of_outputs": 2,
        "line": 3,
        "piece": -1,
        "thread_column": 4,
        "product": 2,
        "half_of_product": 2,
        "pair": 2,
    }
    stored = "conv piece line sixteen_outputs product thread_row thread_column half_of_product half_of_outputs pair"
    places = [list(axes).index(name) for name in stored.split()]
    packed = runs.reshape(*axes.values()).permute(places).flatten(1)
    return packed, bias.repeat(1, pixels).view(count, 8, -1).transpose(1, 2).flatten(1)


def _convs(blocks: nn.Sequential) -> list[tuple[Tensor, Tensor]]:
    pairs = [
        pair
        for b in cast(list[BasicBlock], blocks)
        for pair in ((b.conv1, b.bn1), (b.conv2, b.bn2))
    ]
    return [_folded(*pair) for pair in pairs]


def _folded(conv: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias, in float64, of a convolution with the BatchNorm after it."""
    scale, shift = (value.cpu() for value in affine(cast(nn.BatchNorm2d, norm)))
    return cast(Tensor, conv.weight).detach().double().cpu() * scale.view(-1, 1, 1, 1), shift


def _stem(first: nn.Module, net: CifarResNet) -> tuple[Tensor, Tensor]:
    """The first convolution with the normalisation before it; its fourth input is 1 in all pixels."""
    weight, bias = _folded(net.conv1, net.bn1)
    if isinstance(first, Normalise):
        mean = first.mean.double().cpu()
        weight = weight if first.std is None else weight / first.std.double().cpu()
    else:
        mean = torch.zeros(3, 1, 1, dtype=torch.float64)
    return torch.cat((weight, -(weight * mean).sum(1, keepdim=True)), dim=1), bias
