"""LeNet for sampling: weights rearranged for sampling_kernels.py."""

from __future__ import annotations

import torch
import triton
from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.kernels.lenet.sampling_kernels import conv1_pool, conv2_pool, dense
from smoothcert.models.lenet import LeNet
from smoothcert.models.normalise import Normalise

# Rows a program takes at a time, and its warps. Fixed, not tuned on the spot: every process must compute the same bits.
_CONV1 = {"M": 64, "num_warps": 4, "num_stages": 3}
_CONV2 = {"M": 128, "KEEP": True, "num_warps": 8, "num_stages": 1}
_CONV2_BYTES = 229376  # of shared memory, which not all GPUs have
_CONV2_SMALL = {"M": 64, "KEEP": False, "num_warps": 4, "num_stages": 1}
_DENSE = {"M": 128, "N": 256, "num_warps": 8}
_CONV1_PROGRAMS = 2  # on a multiprocessor at a time


class FastLeNet:
    """Logits of ``Sequential(normalisation, LeNet)`` in half precision, accumulated in float32."""

    batch_size = 32768

    def __init__(self, model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
        assert isinstance(model, nn.Sequential)
        first, net = model[0], model[1]
        assert isinstance(net, LeNet)
        self.dtype, self.device, self.classes = dtype, device, net.fc2.out_features
        scale, shift = 1.0, 0.0
        if isinstance(first, Normalise):
            shift = float(first.mean)
            scale = 1.0 if first.std is None else 1 / float(first.std)
        weight = {name: tensor.detach().double().cpu() for name, tensor in net.state_dict().items()}
        filters = weight["conv1.weight"][:, 0] * scale  # [20, 5, 5]
        # no padding in LeNet, so the normalisation is an affine map inside of the first layer
        bias = weight["conv1.bias"] - shift * filters.sum((1, 2))
        self._conv1 = self._half(_windows(filters))
        self._bias1 = self._float(_padded(bias.repeat(3), 64))
        self._conv2 = self._half(_lines(weight["conv2.weight"]))
        self._bias2 = self._float(_padded(weight["conv2.bias"], 64))
        fc1 = torch.zeros(512, 4, 4, 64, dtype=torch.float64)
        fc1[:500, :, :, :50] = weight["fc1.weight"].view(500, 50, 4, 4).permute(0, 2, 3, 1)
        self._fc1 = self._half(fc1.flatten(1).T)
        self._fc1_bias = self._float(_padded(weight["fc1.bias"], 512))
        self._columns = max(16, triton.next_power_of_2(self.classes))
        fc2 = torch.zeros(512, self._columns, dtype=torch.float64)
        fc2[:500, : self.classes] = weight["fc2.weight"].T
        self._fc2 = self._half(fc2)
        self._fc2_bias = self._float(_padded(weight["fc2.bias"], self._columns))
        self._rows = 0
        self._processors, shared = _capacity(device)
        self._conv2_settings = _CONV2 if shared >= _CONV2_BYTES else _CONV2_SMALL

    def inputs(self, count: int) -> Tensor:
        """Where the images [count, 1, 28, 28] are to be written."""
        if count > self._rows:
            self._x, self._a, self._h = (
                torch.zeros(count * width, dtype=self.dtype, device=self.device)
                for width in (784, 2880, 1024)
            )
            self._logits = torch.zeros(count, self._columns, device=self.device)
            self._rows = count
        return self._x[: count * 784].view(count, 1, 28, 28)

    def __call__(self, x: Tensor) -> Tensor:
        count = len(x)
        conv1_pool[(_CONV1_PROGRAMS * self._processors,)](
            x, self._conv1, self._bias1, self._a, count, **_CONV1
        )
        conv2_pool[(self._processors,)](
            self._a, self._conv2, self._bias2, self._h, count, **self._conv2_settings
        )
        weights = (self._fc1, self._fc1_bias, self._fc2, self._fc2_bias)
        grid = (triton.cdiv(count, _DENSE["M"]),)
        dense[grid](self._h, *weights, self._logits, count, CLASSES=self._columns, **_DENSE)
        return self._logits[:count, : self.classes]

    def _half(self, tensor: Tensor) -> Tensor:
        half = tensor.to(self.device, self.dtype).contiguous()
        if bool(half.isinf().any()):
            raise ModelError(f"weights beyond what {self.dtype} can hold")
        return half

    def _float(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, torch.float32).contiguous()


def _padded(vector: Tensor, size: int) -> Tensor:
    return nn.functional.pad(vector, (0, size - len(vector)))


def _capacity(device: torch.device) -> tuple[int, int]:
    """Multiprocessors, and the bytes of shared memory that a program may have."""
    if device.type != "cuda":  # kernels are interpreted
        return 1, _CONV2_BYTES
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, getattr(properties, "shared_memory_per_block_optin", 0)


def _windows(filters: Tensor) -> Tensor:
    """[20, 5, 5] -> [6 lines * 10 pixels (64), 4 positions of pooling * 3 pooled outputs * 20 channels (64)]."""
    matrix = filters.new_zeros(6, 10, 2, 2, 3, 20)
    for a in range(2):
        for b in range(2):
            for j in range(3):
                matrix[a : a + 5, 2 * j + b : 2 * j + b + 5, a, b, j] = filters.permute(1, 2, 0)
    return nn.functional.pad(matrix.view(60, 4, 60), (0, 4, 0, 0, 0, 4)).view(64, 256)


def _lines(filters: Tensor) -> Tensor:
    """[50, 20, 5, 5] -> [5 filter lines, 6 pixels * 20 channels (128), 64 channels * 2 neighbouring positions]."""
    matrix = filters.new_zeros(5, 6, 20, 64, 2)
    for position in range(2):
        matrix[:, position : position + 5, :, :50, position] = filters.permute(2, 3, 1, 0)
    return nn.functional.pad(matrix.view(5, 120, 128), (0, 0, 0, 8))
