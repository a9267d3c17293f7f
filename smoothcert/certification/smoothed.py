"""SmoothedClassifier: PREDICT and CERTIFY of Cohen, Rosenfeld and Kolter (2019) for any PyTorch image classifier."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.certification.batch_size import choose_batch_size
from smoothcert.certification.counting import Counter, Request, count_within_memory, counter_for
from smoothcert.certification.images import Image, check_image, check_images
from smoothcert.certification.network import Network, ready_network
from smoothcert.config import (
    ALPHA,
    N0,
    NOISE,
    AttackConfig,
    CertifyConfig,
    Kernels,
    N,
    NoiseMode,
    Precision,
)
from smoothcert.config.choices import law_of
from smoothcert.devices.launching import launch_on
from smoothcert.errors import ConfigError, DataError, ModelError
from smoothcert.kernels.prepare import Prepared, check_precision
from smoothcert.kernels.state import state_of
from smoothcert.models.build import initialise
from smoothcert.models.called import as_module
from smoothcert.models.weights import weights_name
from smoothcert.noise.exact import Stage
from smoothcert.noise.streams import tau
from smoothcert.runs.seeds import noise_seed
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.procedure import Certificate, Procedure, certificates, predicted

_LARGE = (
    2**15
)  # values of an image from which on threads are woken to copy it, which takes longer than a transfer


class SmoothedClassifier:
    """g(x) = the class that `model` returns most often on x + N(0, sigma^2 I).

    >>> smoothed = SmoothedClassifier(model, sigma=0.5, classes=10)  # any module or function on images in [0,1]
    >>> certificate = smoothed.certify(image)                        # [C, H, W], uint8 or floats in [0,1]
    >>> certificate.predict, certificate.radius

    The model is put into eval mode and prepared for sampling (kernels/prepare.py): the certificate is about the
    prepared network, in its `precision` (auto: float16 on CUDA, float32 on the CPU). Noise is a function of (`seed`,
    `index`): give each input its own index, and the answer is reproducible whatever the batch size. Without a seed, it
    is derived from the weights. The guarantee is over the noise, so never pick a seed by its result.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Tensor], Any],
        sigma: float,
        classes: int,
        *,
        noise: NoiseMode = NOISE,
        seed: int | None = None,
        device: str | torch.device | None = None,
        batch_size: int | None = None,
        precision: Precision = "auto",
        kernels: Kernels = "auto",
    ) -> None:
        network = as_module(model)
        CertifyConfig(sigma, noise=noise, seed=seed, precision=precision, kernels=kernels)
        if operator.index(classes) < 2:
            raise ConfigError(f"a classifier has at least 2 classes, found classes={classes}")
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, found {batch_size}")
        first = next(network.parameters(), None)
        self.device = torch.device(device or (first.device if first is not None else "cpu"))
        self.model = network.to(self.device)
        self.sigma, self.classes = bounds.check_sigma(sigma), classes
        self.noise, self.seed, self.batch_size = noise, seed, batch_size
        check_precision(precision, self.device)
        self.precision, self.kernels = precision, kernels
        self._ready: tuple[object, int, Network] | None = None  # state of the model, seed, network

    @classmethod
    def of(
        cls,
        model: nn.Module,
        classes: int,
        config: CertifyConfig | AttackConfig,
        *,
        device: str | torch.device | None = None,
        batch_size: int | None = None,
    ) -> Self:
        """The classifier that the settings of a certification or an attack are about."""
        names = ("noise", "seed", "precision", "kernels")
        settings: dict[str, Any] = {name: getattr(config, name) for name in names}
        return cls(model, config.sigma, classes, device=device, batch_size=batch_size, **settings)

    def certify(
        self,
        image: Image,
        *,
        n0: int = N0,
        n: int = N,
        alpha: float = ALPHA,
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
        labels = None if skip_unless is None else [operator.index(skip_unless)]
        settings: dict[str, Any] = {
            "n0": n0,
            "n": n,
            "alpha": alpha,
            "radii": radii,
            "tolerance": tolerance,
        }
        return self.certify_many([image], [index], skip_unless=labels, **settings)[0]

    def certify_many(
        self,
        images: Sequence[Image],
        indices: Sequence[int],
        *,
        n0: int = N0,
        n: int = N,
        alpha: float = ALPHA,
        radii: Sequence[float] | None = None,
        tolerance: float | None = None,
        skip_unless: Sequence[int] | None = None,
    ) -> list[Certificate]:
        """The certificates of `certify` for images of one shape, together: only so a small network keeps a GPU busy."""
        xs = check_images(images, indices)
        return self._certify(
            xs, indices, self.plan(xs[0].shape, n0, n, alpha, radii, tolerance), skip_unless
        )

    def certify_planned(
        self,
        images: Sequence[Image],
        indices: Sequence[int],
        plan: Procedure,
        skip_unless: Sequence[int] | None = None,
    ) -> list[Certificate]:
        """`certify_many` by a plan that was made before, for all images of a set."""
        return self._certify(check_images(images, indices), indices, plan, skip_unless)

    def plan(
        self,
        shape: Sequence[int],
        n0: int,
        n: int,
        alpha: float,
        radii: Sequence[float] | None = None,
        tolerance: float | None = None,
    ) -> Procedure:
        """Checks the settings, and works out once what all images of a shape share."""
        radii = None if radii is None else tuple(radii)
        settings: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "radii": radii}
        config = CertifyConfig(self.sigma, noise=self.noise, tolerance=tolerance, **settings)
        return Procedure.of(config, tau(self.noise, self.sigma, math.prod(shape)))

    def _certify(
        self,
        xs: Sequence[Tensor],
        indices: Sequence[int],
        procedure: Procedure,
        skip_unless: Sequence[int] | None,
    ) -> list[Certificate]:
        if skip_unless is not None and len(skip_unless) != len(xs):
            raise DataError(
                f"expected a label for each of {len(xs)} images, found {len(skip_unless)}"
            )
        self._require_own(procedure, xs[0])
        counter, looks = self._counter(xs), procedure.stopping.looks
        selection = [
            Request(i, index, "selection", 0, procedure.n0) for i, index in enumerate(indices)
        ]
        estimation = [
            Request(i, index, "estimation", 0, looks[0]) for i, index in enumerate(indices)
        ]
        path = np.full((len(xs), len(looks)), -1, np.int64)
        if len(looks) == 1 and skip_unless is None:
            # what is sampled does not depend on the class selected: one trip to the device
            counts0, counts = np.split(self._count(counter, [*selection, *estimation]), 2)
            path[:, 0] = counts[np.arange(len(xs)), counts0.argmax(1)]
            return certificates(procedure, counts0, counts, path)
        counts0 = self._count(counter, selection)
        counts, selected = np.zeros_like(counts0), counts0.argmax(1)
        rows = np.arange(len(xs))
        if skip_unless is not None:
            rows = np.flatnonzero(selected == np.array(skip_unless))
        for look, (first, last) in enumerate(pairwise((0, *looks))):
            if not len(rows):
                break
            counts[rows] += self._count(
                counter, [replace(estimation[i], first=first, last=last) for i in rows]
            )
            path[rows, look] = counts[rows, selected[rows]]
            if last < looks[-1]:
                rows = rows[~procedure.stopping.judge(path[rows, : look + 1]).finished]
        return certificates(procedure, counts0, counts, path)

    def _require_own(self, procedure: Procedure, image: Tensor) -> None:
        """Refuse a procedure of other noise, or of images of another size."""
        own = law_named(law_of(self.noise)), self.sigma, tau(self.noise, self.sigma, image.numel())
        if (procedure.law, procedure.sigma, procedure.tau) != own:
            raise ConfigError(
                f"the plan is for {procedure.law.name} noise of sigma {procedure.sigma:g} and tau "
                f"{procedure.tau:g}, found {own[0].name} noise of sigma {own[1]:g} and tau "
                f"{own[2]:g}: make a plan with this classifier, for images of this size"
            )

    def predict(self, image: Image, *, n: int = 1000, alpha: float = ALPHA, index: int = 0) -> int:
        """PREDICT: the smoothed class, wrong with probability at most alpha, or -1 to abstain."""
        return self.predict_counted(image, n, alpha, index)[0]

    def predict_counted(
        self, image: Image, n: int, alpha: float, index: int
    ) -> tuple[int, NDArray[np.int64]]:
        """PREDICT's answer, and how often each class was returned on its n noisy copies."""
        bounds.check_alpha(alpha)
        if n < 1:
            raise ConfigError(f"n, the number of samples, must be at least 1, found {n}")
        x = check_image(image)
        counts = self.count(x, n, "prediction", index)
        # the law of n counts is within n tau of the ideal one in total variation: alpha is lowered by that
        return predicted(counts, alpha - n * tau(self.noise, self.sigma, x.numel())), counts

    def count(
        self, image: Tensor, n: int, stage: Stage, index: int, first: int = 0
    ) -> NDArray[np.int64]:
        """How often each class is returned on the noisy copies `first` to n-1 of a checked image."""
        counts: NDArray[np.int64] = self.count_many([image], [Request(0, index, stage, first, n)])[
            0
        ]
        return counts

    def count_many(
        self, images: Sequence[Tensor], requests: Sequence[Request]
    ) -> NDArray[np.int64]:
        """Counts [requests, classes] of checked images."""
        return self._count(self._counter(images), requests)

    def prepare(self, image: Image) -> Prepared:
        """The network that is sampled from, for images like this one; made and checked anew when the model has changed.

        A change of weights, hooks and plain attributes is seen; of other objects that the forward uses, it is not: make
        a new SmoothedClassifier then.
        """
        prepared = self._network(check_image(image))[1].prepared
        if not all(math.isfinite(value) for row in prepared.behaviour for value in row):
            raise ModelError(
                "the network's largest logit is infinite: check its normalisation and its weights"
            )
        return prepared

    @property
    def rechecked(self) -> tuple[int, int]:
        """How many answers were evaluated once more in other batches so far, and how many of them differed."""
        audit = self._ready[2].audit if self._ready else None
        return (audit.rows, audit.differing) if audit else (0, 0)

    def _network(self, image: Tensor) -> tuple[int, Network]:
        """The seed of the noise, and the network for images like this one."""
        shape = tuple(image.shape)
        initialise(self.model, shape)
        with launch_on(self.device):
            if self._ready is None or self._ready[0] != (shape, state_of(self.model)):
                about = (
                    weights_name(self.model) if self.seed is None else "",
                    repr(self.sigma),
                    self.noise,
                )
                seed = noise_seed(self.seed, *about)
                settings: dict[str, Any] = {
                    "noise": self.noise,
                    "precision": self.precision,
                    "kernels": self.kernels,
                }
                ready = ready_network(
                    self.model,
                    image.to(self.device),
                    self.classes,
                    sigma=self.sigma,
                    seed=seed,
                    **settings,
                )
                self._ready = (shape, state_of(self.model)), seed, ready
        return self._ready[1:]

    def _counter(self, images: Sequence[Tensor]) -> Counter:
        seed, net = self._network(images[0])
        prepared = net.prepared
        if self.batch_size is None:
            with launch_on(self.device):
                self.batch_size = prepared.batch_size or choose_batch_size(
                    net.forward, prepared.inputs, self.device
                )
        settings: dict[str, Any] = {"sigma": self.sigma, "mode": self.noise, "seed": seed}
        if len({(x.dtype, x.device) for x in images}) == 1 and images[0].numel() < _LARGE:
            images = torch.stack(list(images)).to(self.device).unbind()  # one transfer
        else:
            images = [x.to(self.device) for x in images]
        return counter_for(self.noise, self.device)(images, net, **settings)

    @torch.inference_mode()
    def _count(self, counter: Counter, requests: Sequence[Request]) -> NDArray[np.int64]:
        assert self.batch_size is not None
        assert self._ready is not None
        with launch_on(self.device):
            counts, self.batch_size = count_within_memory(counter, requests, self.batch_size)
            self._ready[2].require_unchanged()
        return counts
