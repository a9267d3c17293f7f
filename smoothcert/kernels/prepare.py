"""prepare(): an eval-mode network turned into an equivalent one that samples fast.

Steps are tried from the fastest on, and one that cannot be taken is skipped with its reason:

1. kernels made for the network (registry.py), on CUDA in half precision;
2. BatchNorm folded, convolution + addition + ReLU in one call, channels last, the precision that was asked for, and
   kernels for other layers (layers/), where kernels run;
3. the same without these kernels;
4. the network as it is.

What was done is part of a store's identity: the certificate is about the prepared network, and `predict` runs it too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from smoothcert.config import Kernels, Precision, check_choice
from smoothcert.devices.memory import SMALLEST, is_out_of_memory
from smoothcert.devices.products import float32_products, full_sums, tf32_products
from smoothcert.errors import ConfigError
from smoothcert.kernels.comparing import (
    NEAR,
    behaviour_of,
    comparable,
    distances,
    root_mean_square,
    spread_of,
    synthetic_images,
)
from smoothcert.kernels.generic.capturing import Captured
from smoothcert.kernels.generic.cpu import for_cpu
from smoothcert.kernels.generic.folding import CannotFold, fold
from smoothcert.kernels.generic.fusing import fuse
from smoothcert.kernels.registry import (
    LAYER_KERNELS,
    NoKernels,
    layer_kernels_run,
    put_layer_kernels,
    sampling_kernels,
)
from smoothcert.models.build import logits_of
from smoothcert.noise.blocks import block_size

_DTYPE = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_FALL_BACK = {"float16": "bfloat16", "bfloat16": "tf32", "tf32": "float32"}
_log = logging.getLogger("smoothcert")


@dataclass(eq=False)
class Prepared:
    """A network ready for sampling."""

    forward: Callable[[Tensor], Tensor]  # a batch as `inputs` lays it out -> logits [b, classes]
    inputs: Callable[
        [int], Tensor
    ]  # where to write a batch [b, C, H, W]; the next call may reuse the memory
    precision: str
    steps: tuple[str, ...]  # what was done
    skipped: tuple[str, ...] = ()  # what could not be done, and why
    batch_size: int | None = None  # that suits it; None: to be measured
    any_batch: bool = False  # logits of an image are the same bits in a batch of any size
    concurrent: bool = (
        False  # several threads may call `forward` at once, each with a batch of its own
    )
    spread: float = (
        math.inf
    )  # how much the plain network's logits vary between probes; infinite: it failed on them
    behaviour: list[list[float]] = field(
        default_factory=list
    )  # of the plain network on fixed probes
    module: nn.Module | None = None  # what `forward` runs, where PyTorch runs it

    def near(self, precision: str | None = None) -> float:
        """How far logits of one image may be apart by rounding alone, in its own precision or in another."""
        return NEAR[precision or self.precision] * self.spread


def check_precision(precision: str, device: torch.device) -> None:
    check_choice("precision", precision, Precision)
    if device.type == "cpu" and precision in ("tf32", "float16"):
        raise ConfigError(
            f"precision {precision} is for CUDA devices: use float32 or bfloat16 on the CPU"
        )


def prepare(
    model: nn.Module,
    shape: tuple[int, ...],
    device: torch.device,
    precision: Precision = "auto",
    kernels: Kernels = "auto",
    examples: Tensor | None = None,
) -> Prepared:
    """The fastest equivalent of `model`, which is on `device` and stays as it is, for images of one shape.

    It must agree with the plain network on synthetic images, and on `examples` of those that it will see. With kernels
    "off" it is PyTorch that computes it. Noise and the counting of votes have kernels all the same: the first decide
    which numbers are drawn, and the second count integers.
    """
    check_precision(precision, device)
    check_choice("setting of kernels", kernels, Kernels)
    wanted: str = (
        precision if precision != "auto" else "float16" if device.type == "cuda" else "float32"
    )
    model.eval()
    plain = plain_network(model, shape, device)
    synthetic = synthetic_images(shape, device)
    seen = synthetic[1::2] if examples is None else examples.to(synthetic)
    # a network may refuse what no image is like, but then it must be compared on images that it will see
    for probe in (torch.cat([synthetic[::2], seen]), torch.cat([seen, seen])):
        expected = _answers(plain, probe)
        if expected is not None:
            break
    else:
        return plain  # what is wrong with it is said, in words, by the first real batch
    about: dict[str, Any] = {"spread": spread_of(expected), "behaviour": behaviour_of(expected)}
    skipped: list[str] = []
    while True:
        for ready in _candidates(model, shape, device, wanted, kernels, skipped):
            reason = _disagreement(ready, probe, expected)
            if reason is None:
                return replace(ready, precision=wanted, skipped=tuple(skipped), **about)
            _skip(skipped, f"not {' and '.join(ready.steps) or 'plain'} in {wanted}: {reason}")
        if wanted == "float32":
            return replace(plain, skipped=tuple(skipped), **about)
        slower = _FALL_BACK[wanted] if device.type == "cuda" else "float32"
        _log.warning(
            "the network is not fit for %s, and is taken in %s: %s", wanted, slower, skipped[-1]
        )
        wanted = slower


def plain_network(model: nn.Module, shape: tuple[int, ...], device: torch.device) -> Prepared:
    """The network as it is, in float32."""
    return Prepared(
        _logits_of(model, "float32"),
        _plain_inputs(shape, device),
        "float32",
        ("as it is",),
        module=model,
    )


def _candidates(
    model: nn.Module,
    shape: tuple[int, ...],
    device: torch.device,
    precision: str,
    kernels: Kernels,
    skipped: list[str],
) -> Iterator[Prepared]:
    try:
        title, fast = sampling_kernels(model, shape, device, precision, kernels)
        yield Prepared(
            fast, fast.inputs, precision, (title,), batch_size=fast.batch_size, any_batch=True
        )
    except NoKernels as reason:
        _skip(skipped, str(reason))
    except Exception as error:  # whatever is wrong with them, PyTorch's kernels remain
        _raise_if_memory(error)
        _skip(skipped, f"no kernels in {precision}: {_said(error)}")
    # with and without kernels for single layers: what the first trial finds wrong, the second may do without
    for layers in (True, False):
        if layers and not layer_kernels_run(device, precision, kernels):
            continue
        ready = _rewritten(model, shape, device, precision, layers, skipped)
        if ready is not None:
            yield ready


def _rewritten(
    model: nn.Module,
    shape: tuple[int, ...],
    device: torch.device,
    precision: str,
    layers: bool,
    skipped: list[str],
) -> Prepared | None:
    """A copy with the layers and the layout that the device likes; None if there is none to be had."""
    dtype = _DTYPE[precision]
    steps: list[str] = []
    net = model
    try:
        with arithmetic("float32"):
            folded = fold(model, synthetic_images(shape, device)[:2])
        net = for_cpu(folded) if device.type == "cpu" else fuse(folded)
        steps.append("folded")
    except CannotFold as error:
        _skip(skipped, f"not folded: {str(error).splitlines()[0]}")
    if layers:
        try:
            if not isinstance(net, fx.GraphModule) or not put_layer_kernels(net):
                return None
        except Exception as error:  # whatever is wrong with them, PyTorch's kernels remain
            _raise_if_memory(error)
            _skip(skipped, f"no layer kernels: {_said(error)}")
            return None
        steps.append(LAYER_KERNELS)
    # the CPU's vector units want channels last too (for_cpu sees to the weights); one channel is the same layout
    last = shape[0] > 1 and len(shape) == 3
    if dtype != torch.float32 or steps or last:
        try:
            net = deepcopy(net) if net is model else net
        except Exception as error:  # it may hold anything
            _skip(skipped, f"not copied: {type(error).__name__}")
            return None
        net = net.to(dtype)
        net = net.to(memory_format=torch.channels_last) if last else net  # type: ignore[call-overload]
        steps += ["channels last"] if last else []

    forward, inputs = _logits_of(net, precision), _plain_inputs(shape, device, dtype, last)
    if "folded" not in steps:
        return Prepared(forward, inputs, precision, tuple(steps), module=net)
    if device.type == "cuda":
        captured = Captured(forward, inputs)
        return Prepared(captured.forward, captured.inputs, precision, tuple(steps), module=net)
    # A traced network keeps nothing between its layers but values; one as it is may write to itself. Two blocks of
    # noise fit a core's cache with their activations, and no block of float noise is then drawn by two threads.
    size = max(SMALLEST, 2 * block_size(math.prod(shape), device))
    return Prepared(
        forward, inputs, precision, tuple(steps), batch_size=size, concurrent=True, module=net
    )


def _logits_of(net: nn.Module, precision: str) -> Callable[[Tensor], Tensor]:
    """A network's forward in an arithmetic that no setting of the caller's changes, with logits of 32 bits at least.

    Longer ones stay as they are: cut to 32 bits, different logits may be equal, and the vote another.
    """

    def forward(x: Tensor) -> Tensor:
        with arithmetic(precision):
            logits = logits_of(net(x))
        # a network of the user's may return anything: what is wrong with it is said by the caller
        short = (
            isinstance(logits, Tensor) and logits.is_floating_point() and logits.element_size() < 4
        )
        found: Any = logits.float() if short else logits  # type: ignore[attr-defined]
        return found  # type: ignore[no-any-return]

    return forward


@contextmanager
def arithmetic(precision: str) -> Iterator[None]:
    """Products of float32 in full precision (or TF32, if that was asked for), by kernels that are always the same ones.

    Autotuning is off: it picks kernels by their speed on the day, and every process must compute the same bits. So is
    autocast, which holds for the caller's thread alone.
    """
    tf32 = precision == "tf32"
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    now = (tf32_products(), cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32)
    halves = (
        matmul.allow_fp16_reduced_precision_reduction
        or matmul.allow_bf16_reduced_precision_reduction
    )
    cast = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    if now == (tf32, True, False, True, tf32) and not halves and not cast:
        yield  # nothing to set and nothing to restore, so threads may enter while another is inside
        return
    flags = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": tf32}
    with ExitStack() as stack:
        for setting in (float32_products(tf32), full_sums(), cudnn.flags(**flags)):
            stack.enter_context(setting)
        for kind in cast:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _plain_inputs(
    shape: tuple[int, ...],
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
) -> Callable[[int], Tensor]:
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return lambda count: torch.empty(
        (count, *shape), dtype=dtype, device=device, memory_format=layout
    ).zero_()


def _answers(network: Prepared, images: Tensor) -> object:
    """What a network returns for some images; None if it fails."""
    try:
        with torch.inference_mode():
            return network.forward(images)
    except Exception as error:
        _raise_if_memory(error)
        return None


def _disagreement(ready: Prepared, probe: Tensor, expected: object) -> str | None:
    """Why a prepared network does not stand for the plain one, or None if it does."""
    try:
        with torch.inference_mode():
            x = ready.inputs(len(probe))
            x.copy_(probe)
            found = ready.forward(x)
    except Exception as error:  # whatever a backend cannot do, a slower one can
        _raise_if_memory(error)
        return _said(error)
    if not comparable(expected) or found.shape != expected.shape:
        return None  # nothing to compare; the caller checks shapes, and refuses NaN, in words
    known = ~expected.isnan().any(1)
    distance = float(root_mean_square(distances(found, expected)[known])) / spread_of(expected)
    if distance <= NEAR[ready.precision]:
        return None
    return f"logits differ by {distance:.1g} of their spread"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _raise_if_memory(error: Exception) -> None:
    """Too little memory says nothing about a network: fewer images may fit, later or in another process."""
    if isinstance(error, RuntimeError) and is_out_of_memory(error):
        raise error


def _skip(skipped: list[str], reason: str) -> None:
    if reason not in skipped:
        _log.info("%s", reason)
        skipped.append(reason)
