"""Compiles every kernel for a GPU, without one: ``python -m tests.kernels.compiling first|second``.

`first` takes float16 for sampling and float32 for training, `second` takes bfloat16 for both. It must run in a process
without TRITON_INTERPRET.
"""

import sys
from typing import Any, NamedTuple

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from smoothcert.attacks import fused_kernels as attack_kernels
from smoothcert.certification import vote_kernels
from smoothcert.devices import trial_kernels
from smoothcert.kernels.cifar_resnet import conv, conv_kernels, norm, norm_kernels, weight_kernels
from smoothcert.kernels.cifar_resnet import sampling as resnet
from smoothcert.kernels.cifar_resnet import sampling_kernels as resnet_kernels
from smoothcert.kernels.cifar_resnet import training_kernels as resnet_training_kernels
from smoothcert.kernels.layers import layer_kernels
from smoothcert.kernels.lenet import sampling as lenet
from smoothcert.kernels.lenet import sampling_kernels as lenet_kernels
from smoothcert.kernels.lenet import training as lenet_training
from smoothcert.kernels.lenet import training_kernels as lenet_training_kernels
from smoothcert.noise import fused_kernels as noise_kernels

DTYPES = {
    "first": {"sample": "fp16", "train": "fp32"},
    "second": {"sample": "bf16", "train": "bf16"},
}
OPTIONS = {"num_warps", "num_stages", "maxnreg"}
SHARED = 232448  # bytes that a program may have on an H100
SHARED_OF_SMALLER = 166912  # and on an A100


class Case(NamedTuple):
    kernel: Any
    types: str  # of what the host passes, in order; {sample} and {train} are those of DTYPES
    settings: dict[str, Any]  # constants and options of a launch
    shared: int = SHARED


def stage(number: int) -> dict[str, int]:
    """Constants of a stage of a ResNet on images of 32 x 32."""
    sizes = resnet.sizes_of_stage(resnet.TILES[number], number, (32, 32))
    return {**sizes, "num_warps": sizes["WARPS"]}


def blocks(number: int) -> dict[str, int | None]:
    """The same for all blocks of a stage."""
    channels = 16 << number
    weight, _ = resnet.arranged(
        torch.zeros(1, channels, channels, 3, 3), torch.zeros(1, channels), torch.float16
    )
    settings = {
        "CHANNELS": channels,
        "WEIGHTS": weight.shape[1],
        "maxnreg": resnet.TILES[number].registers,
    }
    return {**stage(number), **settings}


STRIDES = {
    "VALUES": 784,
    "HEIGHT": 28,
    "WIDTH": 28,
    "CHANNEL_STRIDE": 784,
    "LINE_STRIDE": 28,
    "PIXEL_STRIDE": 1,
}
GROUPS = {"GROUPS": noise_kernels.GROUPS, "BITS": 8, "SEARCH": 11}
ENDS = {"BIAS": False, "ADD": True, "RELU": False, "MASK": True, "MOMENTS": False, "SUMS": True}
STEP = {"VALUES": 784, "BLOCK": 1024}
LOGITS = {"CLASSES": 10, "COLUMNS": 16, "ROWS": 16}
TF32 = {"PRECISION": "tf32"}

NOISE = "*{sample} *u8 *i32 *i32 *i32 *i64 *i32 *i32 i32 fp32 fp32 fp32 i32 i32 i32"
VOTES = "*fp32 *i32 *i64 *i64 i32 i32"
NLL = "*fp32 *i64 *fp32 *fp32 i32 fp32"
STEP_UP = "*fp32 *fp32 *fp32 *fp32 *fp32 fp32 fp32 fp32"
CONV_TYPES = "*{train} *{train} *fp32 *{train} *{train} *{train} *fp32 *fp32 *{train} *fp32 i32"
POOL = "*{sample} *{sample} *fp32 *{sample} i32"
POOL_WITH_CODES = "*fp32 *fp32 *fp32 *fp32 *i8 i32"
POOL_BACK = "*fp32 *i8 *fp32 *fp32 i32"
ONE_CONV = "*{sample} *{sample} *{sample} *fp32 i32"
BLOCKS = "*{sample} *{sample} *{sample} *fp32 i32 i32"

ROWS_OF = "*{sample} *{sample} *{sample} *{sample} *fp32 *fp32 i32"
LAYER = {"ADD": True, "KEEP": True, "WIDTH": 384}


def convolution(channels: int, **ends: bool) -> dict[str, Any]:
    """Constants of a convolution of a ResNet on images of 32 x 32."""
    tile, side = conv._TILES[channels], 512 // channels
    sizes, _ = conv._cut(torch.empty(1, channels, side, side), 8, tile.rows)
    return {
        **sizes,
        **ENDS,
        **ends,
        "WARPS": tile.warps,
        "num_warps": tile.warps,
        "maxnreg": tile.registers,
    }


def weights(channels: int) -> dict[str, Any]:
    side = 512 // channels
    return {
        **conv._cut(torch.empty(1, channels, side, side), 4, conv._WEIGHT_ROWS[channels])[0],
        "num_warps": 4,
    }


def window(channels: int, side: int, size: int, stride: int, padding: int) -> dict[str, int]:
    """Constants of a layer that looks at square windows of square images."""
    out = (side + 2 * padding - size) // stride + 1
    shape = {
        "CHANNELS": channels,
        "HEIGHT": side,
        "WIDTH": side,
        "OUT_HEIGHT": out,
        "OUT_WIDTH": out,
    }
    return {**shape, "SIZE": size, "STRIDE": stride, "PADDING": padding}


CASES = [
    Case(trial_kernels.one, "*fp32", {}),
    Case(noise_kernels.noisy_rows, NOISE, {**STRIDES, **GROUPS, "FLAT": True, "STEPS": 1}),
    Case(noise_kernels.noisy_rows, NOISE, {**STRIDES, **GROUPS, "FLAT": False, "STEPS": 3}),
    Case(vote_kernels.rows_of_batch, "*i64 *i64 *i32 *i32 i64 i32 i32", {"STEPS": 5, "ROWS": 256}),
    Case(vote_kernels.count_votes, VOTES, {"CLASSES": 10, "COLUMNS": 16, "ROWS": 256}),
    Case(vote_kernels.count_votes, VOTES, {"CLASSES": 1000, "COLUMNS": 1024, "ROWS": 16}),
    Case(attack_kernels.smoothed_nll, NLL, {**LOGITS, "NOISES": 4}),
    Case(attack_kernels.smoothed_nll, NLL, {**LOGITS, "NOISES": 1}),
    Case(attack_kernels.divergence, "*fp32 *fp32 *fp32 *fp32 i32 i32", LOGITS),
    Case(
        attack_kernels.step_up,
        STEP_UP,
        {**STEP, "RANDOM": True, "BALL": True, "CLAMP": "first", "MOMENTS": False},
    ),
    Case(
        attack_kernels.step_up,
        STEP_UP,
        {**STEP, "RANDOM": False, "BALL": False, "CLAMP": "last", "MOMENTS": False},
    ),
    Case(
        attack_kernels.step_up,
        STEP_UP,
        {**STEP, "RANDOM": False, "BALL": True, "CLAMP": "never", "MOMENTS": True},
    ),
    Case(lenet_kernels.conv1_pool, POOL, lenet._CONV1),
    Case(lenet_kernels.conv2_pool, POOL, lenet._CONV2, lenet._CONV2_BYTES),
    Case(lenet_kernels.conv2_pool, POOL, lenet._CONV2_SMALL, SHARED_OF_SMALLER),
    Case(
        lenet_kernels.dense,
        "*{sample} *{sample} *fp32 *{sample} *fp32 *fp32 i32",
        {**lenet._DENSE, "CLASSES": 16},
    ),
    Case(lenet_training_kernels.pack, "*fp32 *fp32 *i32 *fp32", {"BLOCK": 2048}),
    Case(lenet_training_kernels.conv1_pool, POOL_WITH_CODES, {**lenet_training._CONV1, **TF32}),
    Case(lenet_training_kernels.conv2_pool, POOL_WITH_CODES, {**lenet_training._CONV2, **TF32}),
    Case(lenet_training_kernels.conv2_back, POOL_BACK, {**lenet_training._CONV2_BACK, **TF32}),
    Case(lenet_training_kernels.conv1_back, POOL_BACK, {**lenet_training._CONV1_BACK, **TF32}),
    Case(lenet_training_kernels.add_windows1, "*fp32 *fp32", {}),
    Case(
        lenet_training_kernels.conv2_weights,
        "*fp32 *i8 *fp32 *fp32 *fp32 i32",
        {**lenet_training._CONV2_WEIGHTS, **TF32},
    ),
    Case(
        lenet_training_kernels.conv1_weights,
        "*fp32 *fp32 *i8 *fp32 *fp32 i32",
        {**lenet_training._CONV1_WEIGHTS, **TF32},
    ),
    Case(
        resnet_kernels.one_conv,
        ONE_CONV,
        {**stage(0), "IN": 4, "OUT": 16, "STRIDE": 1, "RELU": True, "ADD": False},
    ),
    Case(
        resnet_kernels.one_conv,
        ONE_CONV,
        {**stage(2), "IN": 32, "OUT": 64, "STRIDE": 2, "RELU": True, "ADD": False},
    ),
    Case(
        resnet_kernels.one_conv,
        ONE_CONV,
        {**stage(2), "IN": 64, "OUT": 64, "STRIDE": 1, "RELU": True, "ADD": True},
    ),
    *[Case(resnet_kernels.residual_blocks, BLOCKS, blocks(number)) for number in range(3)],
    Case(
        resnet_kernels.head,
        "*{sample} *fp32 *fp32 *fp32",
        {"HEIGHT": 8, "WIDTH": 8, "CHANNELS": 64, "CLASSES": 10, "PIXELS": 64, "COLUMNS": 16},
    ),
    Case(
        resnet_training_kernels.bias_relu,
        "*{train} *fp32 *{train} *{train} i32",
        {"CHANNELS": 16, "ADD": True, "BLOCK": 1024},
    ),
    Case(layer_kernels.affine, ROWS_OF, {**LAYER, "RELU": True, "COLUMNS": 256, "ROWS": 8}),
    Case(layer_kernels.layer_norm, f"{ROWS_OF} fp32", {**LAYER, "COLUMNS": 512, "ROWS": 4}),
    Case(
        layer_kernels.max_pool,
        "*{sample} *{sample} i32",
        {**window(64, 112, 3, 2, 1), "COLUMNS": 64, "ROWS": 32},
    ),
    Case(
        layer_kernels.narrow_conv,
        "*{sample} *{sample} *fp32 *fp32 *fp32 *{sample} i32",
        {
            **window(3, 224, 7, 2, 3),
            "IMAGE_STRIDE": 150528,
            "CHANNEL_STRIDE": 1,
            "LINE_STRIDE": 672,
            "PIXEL_STRIDE": 3,
            "OUT": 64,
            "RELU": True,
            "LENGTH": 160,
            "COLUMNS": 64,
            "ROWS": 128,
            "STEP": 32,
        },
    ),
    Case(norm_kernels.moments, "*{train} *fp32 i32 i32", {"CHANNELS": 16, "TILE": 256}),
    Case(
        norm_kernels.statistics,
        "*fp32 *fp32 *fp32 *fp32 *fp32 i32 i32 fp32 fp32",
        {"CHANNELS": 64, **norm._NARROW, "num_warps": 8},
    ),
    Case(
        norm_kernels.norm_relu,
        "*{train} *fp32 *fp32 *fp32 *fp32 *{train} *{train} i32",
        {"CHANNELS": 16, "ADD": True, "RELU": True, "TILE": 128},
    ),
    Case(
        norm_kernels.norm_relu_sums,
        "*{train} *{train} *{train} *fp32 *fp32 *fp32 i32 i32",
        {"CHANNELS": 64, "RELU": True, "TILE": 64},
    ),
    Case(
        norm_kernels.norm_relu_back,
        "*{train} *{train} *{train} *fp32 *fp32 *fp32 *fp32 *{train} *{train} i32",
        {"CHANNELS": 64, "ADD": True, "RELU": True, "TILE": 32},
    ),
    Case(norm_kernels.add_up, "*fp32 *fp32 i32 i32", {**norm._WIDE, "num_warps": 8}),
    Case(
        conv_kernels.conv3x3,
        CONV_TYPES,
        convolution(16, BIAS=True, ADD=True, RELU=True, MASK=False, SUMS=False),
        0,
    ),
    Case(conv_kernels.conv3x3, CONV_TYPES, convolution(64, SUMS=False), 0),
    Case(
        conv_kernels.conv3x3,
        CONV_TYPES,
        convolution(32, ADD=False, MASK=False, SUMS=False, MOMENTS=True),
        1024,
    ),
    Case(conv_kernels.conv3x3, CONV_TYPES, convolution(32), 1024),
    Case(weight_kernels.conv3x3_weights, "*{train} *{train} *fp32 i32 i32", weights(16), 4096),
    Case(weight_kernels.conv3x3_weights, "*{train} *{train} *fp32 i32 i32", weights(64), 4096),
]


def name_of(kernel: Any) -> str:
    return f"{kernel.fn.__module__}.{kernel.fn.__name__}"


def compiled(case: Case, dtypes: dict[str, str]) -> Any:
    kernel = case.kernel
    constants = {key: value for key, value in case.settings.items() if key not in OPTIONS}
    options = {
        key: value for key, value in case.settings.items() if key in OPTIONS and value is not None
    }
    names = [name for name in kernel.arg_names if name not in constants]
    types = case.types.format(**dtypes).split()
    signature = dict(zip(names, types, strict=True)) | dict.fromkeys(constants, "constexpr")
    constexprs = {(kernel.arg_names.index(key),): value for key, value in constants.items()}
    aligned = [
        kernel.arg_names.index(name) for name, kind in signature.items() if kind.startswith("*")
    ]  # as torch's
    source = ASTSource(
        kernel, signature, constexprs, attrs={(i,): [["tt.divisibility", 16]] for i in aligned}
    )
    return compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def cases(which: str) -> list[Case]:
    """All in the first types; in the second, one case of each kernel that knows them."""
    if which == "first":
        return CASES
    return list({name_of(case.kernel): case for case in CASES if "{" in case.types}.values())


def main(which: str) -> None:
    for case in cases(which):
        made = compiled(case, DTYPES[which])
        assert made.asm["ptx"]
        assert made.metadata.shared <= case.shared, (name_of(case.kernel), made.metadata.shared)
        if case.kernel in (
            conv_kernels.conv3x3,
            weight_kernels.conv3x3_weights,
        ):  # operands are loaded to where the instructions want them
            assert "mma.sync.aligned.m16n8k" in made.asm["ptx"]
        print(name_of(case.kernel), flush=True)


if __name__ == "__main__":
    for which in sys.argv[1:]:
        main(which)
