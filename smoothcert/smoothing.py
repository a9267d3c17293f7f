"""SmoothedClassifier: PREDICT and CERTIFY of Cohen, Rosenfeld and Kolter (2019) for any PyTorch image classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert import bounds
from smoothcert.batchsize import choose_batch_size, is_out_of_memory
from smoothcert.certificate import ABSTAIN, Certificate, from_claim, from_counts
from smoothcert.errors import ConfigError, DataError, ModelError
from smoothcert.models.build import check_shape
from smoothcert.noise import NoiseMode, NoisyCopies, Stage, check_mode, law_of, total_variation
from smoothcert.sequential import NO_CLAIM, Claim, Procedure, procedure

_SMALLEST_FORWARD = 32


class SmoothedClassifier:
    """g(x) = the class that `model` returns most often on x + N(0, sigma^2 I).

    >>> smoothed = SmoothedClassifier(model, sigma=0.5, classes=10)  # any nn.Module that takes images in [0,1]
    >>> certificate = smoothed.certify(image)                        # [C, H, W], uint8 or floats in [0,1]
    >>> certificate.predict, certificate.radius

    The model is put into eval mode. Noise is a function of (`seed`, `index`): give each input its own index, and the
    answer is reproducible whatever the batch size. The guarantee is over the noise, so never pick a seed by its result.
    """

    def __init__(
        self,
        model: nn.Module,
        sigma: float,
        classes: int,
        *,
        noise: NoiseMode = "quantised",
        seed: int = 0,
        device: str | torch.device | None = None,
        batch_size: int | None = None,
    ) -> None:
        check_mode(noise)
        if classes < 2:
            raise ConfigError(f"a classifier has at least 2 classes, found classes={classes}")
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, found {batch_size}")
        first = next(model.parameters(), None)
        self.device = torch.device(device or (first.device if first is not None else "cpu"))
        self.model = model.to(self.device)
        self.sigma, self.classes = bounds.check_sigma(sigma), classes
        self.noise, self.seed, self.batch_size = noise, seed, batch_size

    def certify(
        self,
        image: Tensor | NDArray[np.generic],
        *,
        n0: int = 100,
        n: int = 100_000,
        alpha: float = 0.001,
        index: int = 0,
        radii: Sequence[float] | None = None,
        tolerance: float | None = None,
        skip_unless: int | None = None,
    ) -> Certificate:
        """CERTIFY: guess the class from n0 samples, then bound its probability with n fresh ones.

        With `radii` (rising), the answer is the largest of them that n samples, or fewer, can certify. With
        `tolerance`, sampling stops when going on could not raise the radius by more. With `skip_unless`, nothing is
        sampled or claimed if the guess is another class.
        """
        bounds.check_samples(n0, n, alpha)
        x = self._check(image)
        slack = total_variation(self.noise, self.sigma, x.numel())
        law = law_of(self.noise)
        test = procedure(n, alpha, self.sigma, radii=radii, tolerance=tolerance, slack=slack, law=law)
        counts0 = self.count(x, n0, "selection", index)
        selected = int(np.argmax(counts0))
        if skip_unless is not None and selected != skip_unless:
            return from_claim(counts0, np.zeros_like(counts0), NO_CLAIM, self.sigma, alpha, law=law)
        if test is None:
            counts = self.count(x, n, "estimation", index)
            return from_counts(counts0, counts, self.sigma, alpha, slack=slack, law=law)
        counts, claim = self._sample_until(test, x, index, selected)
        return from_claim(counts0, counts, claim, self.sigma, alpha, law=law)

    def _sample_until(
        self, test: Procedure, image: Tensor, index: int, selected: int
    ) -> tuple[NDArray[np.int64], Claim]:
        """The estimation samples of a fixed n, in the same order, until `test` is finished."""
        copies = self._copies(image, "estimation", index)
        counts, state, before = np.zeros(self.classes, np.int64), test.start, 0
        for look, last in enumerate(test.looks):
            counts += self._tally(copies, before, last)
            state, before = test.advance(state, look, int(counts[selected])), last
            if test.finished(state):
                break
        return counts, test.claim(state)

    def predict(
        self, image: Tensor | NDArray[np.generic], *, n: int = 1000, alpha: float = 0.001, index: int = 0
    ) -> int:
        """PREDICT: the smoothed class, wrong with probability at most alpha, or -1 to abstain."""
        bounds.check_alpha(alpha)
        if n < 1:
            raise ConfigError(f"n, the number of samples, must be at least 1, found {n}")
        x = self._check(image)
        # the counts of n samples are within n * slack of their ideal law, in total variation: that much of alpha goes
        level = alpha - n * total_variation(self.noise, self.sigma, x.numel())
        counts = self.count(x, n, "prediction", index)
        second, first = np.argsort(counts, kind="stable")[-2:]
        return int(first) if bounds.top_two_p_value(counts[first], counts[second]) <= level else ABSTAIN

    def count(self, image: Tensor, n: int, stage: Stage, index: int, first: int = 0) -> NDArray[np.int64]:
        """How often each class is returned on the noisy copies `first` to n-1 of a checked image."""
        return self._tally(self._copies(image, stage, index), first, n)

    def _copies(self, image: Tensor, stage: Stage, index: int) -> NoisyCopies:
        return NoisyCopies(image, self.sigma, self.noise, seed=self.seed, index=index, stage=stage)

    @torch.inference_mode()
    def _tally(self, copies: NoisyCopies, first: int, last: int) -> NDArray[np.int64]:
        self.model.eval()
        if self.batch_size is None:
            self.batch_size = choose_batch_size(self._forward, copies.shape, self.device)
        while True:
            try:
                # full float32 as in the published code; TF32 and autotuned kernels would make another classifier
                with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
                    return self._count(copies, first, last, self.batch_size)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if self.batch_size <= _SMALLEST_FORWARD:
                    raise ModelError(
                        f"out of memory with {_SMALLEST_FORWARD} noisy copies at a time, the fewest that are sent "
                        "at once: use a device with more memory, or free some"
                    ) from error
                # keyed noise: starting again with smaller batches draws the same samples
                self.batch_size //= 2
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()

    def _count(self, copies: NoisyCopies, first: int, last: int, batch_size: int) -> NDArray[np.int64]:
        counts = torch.zeros(self.classes, dtype=torch.int64, device=self.device)
        nan = torch.zeros((), dtype=torch.int64, device=self.device)
        ones = torch.ones(batch_size, dtype=torch.int64, device=self.device)
        for place in range(first, last, batch_size):
            x = copies.take(place, min(place + batch_size, last))  # [b, C, H, W]
            logits = self._forward(_pad(x, batch_size))[: len(x)]
            nan += logits.isnan().any(1).sum()
            counts.scatter_add_(0, logits.argmax(1), ones[: len(x)])
        # the only wait for the device: once a stage, not once a batch
        if bad := int(nan):
            raise ModelError(
                f"the model returned NaN for {bad} of {last - first} noisy copies, so its class is arbitrary and "
                "nothing can be certified: the weights are damaged, training diverged, or the precision is too low "
                "(use float32)"
            )
        return counts.cpu().numpy()

    def _forward(self, x: Tensor) -> Tensor:
        try:
            logits = self.model(x)
        except Exception as error:  # a network of the user's may fail in any way
            if isinstance(error, RuntimeError) and is_out_of_memory(error):
                raise
            raise ModelError(
                f"the model could not take a float32 batch of shape {list(x.shape)}: check the image's size, the "
                f"channel count and the type of the weights. It says: {error}"
            ) from error
        return check_shape(logits, len(x), self.classes)

    def _check(self, image: Tensor | NDArray[np.generic]) -> Tensor:
        """A usable image on the device, or an error: bad input must never yield a certificate."""
        try:
            x = image if isinstance(image, Tensor) else torch.from_numpy(np.array(image))  # a copy: it may be read-only
        except TypeError as error:
            raise DataError(f"expected an image of uint8 (0..255) or floats in [0,1], found {type(image)}") from error
        if x.ndim != 3 or not x.numel():
            raise DataError(
                f"expected one image of shape [C, H, W], found shape {list(x.shape)}: pass images one by one"
            )
        if x.dtype == torch.uint8:
            return x.to(self.device)
        if not x.is_floating_point():
            raise DataError(f"expected an image of uint8 (0..255) or floats in [0,1], found {x.dtype}")
        if not bool(x.isfinite().all()):
            raise DataError("the image has NaN or infinite pixels: clean it before certification")
        low, high = float(x.min()), float(x.max())
        if low < 0.0 or high > 1.0:
            raise DataError(
                f"expected pixels in [0,1], found {low:g} to {high:g}: divide 8-bit values by 255, and put any "
                "normalisation inside the model, since sigma and radii are in units of the [0,1] image"
            )
        return x.to(self.device)


def forward_size(count: int, batch_size: int) -> int:
    """How many inputs the network sees when `count` are wanted: the next power of two, never under 32.

    Kernels may round differently for other batch shapes. Few, round shapes keep them to those that, on the CPUs tried,
    give the same bits for an input at any batch size (tiny batches do not).
    """
    if count == batch_size and count >= _SMALLEST_FORWARD:
        return count
    return max(_SMALLEST_FORWARD, 1 << (count - 1).bit_length())


def _pad(x: Tensor, batch_size: int) -> Tensor:
    missing = forward_size(len(x), batch_size) - len(x)
    return torch.cat([x, x[:1].expand(missing, *x.shape[1:])]) if missing else x
