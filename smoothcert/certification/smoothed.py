"""SmoothedClassifier: PREDICT and CERTIFY of Cohen, Rosenfeld and Kolter (2019) for any PyTorch image classifier."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.certification.batch_size import choose_batch_size
from smoothcert.certification.counting import Counter, Request, count_within_memory, counter_for
from smoothcert.certification.images import Image, check_image, check_images
from smoothcert.certification.network import Network, ready_network
from smoothcert.certification.plan import Plan
from smoothcert.config import AttackConfig, CertifyConfig, Kernels, NoiseMode, Precision
from smoothcert.devices.launching import launch_on
from smoothcert.errors import ConfigError, DataError, ModelError
from smoothcert.kernels.prepare import Prepared, check_precision
from smoothcert.kernels.state import state_of
from smoothcert.models.build import initialise
from smoothcert.models.called import as_module
from smoothcert.models.weights import weights_name
from smoothcert.noise.exact import Stage
from smoothcert.noise.streams import law_of, total_variation
from smoothcert.runs.seeds import noise_seed
from smoothcert.statistics import bounds
from smoothcert.statistics.certificate import Certificate, from_claim, from_counts, predicted
from smoothcert.statistics.sequential import NO_CLAIM, Claim, Procedure, procedure

# values of an image from which on threads are woken to copy it, which takes longer than a transfer
_LARGE = 2**15


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
        noise: NoiseMode = CertifyConfig.noise,
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
        n0: int = CertifyConfig.n0,
        n: int = CertifyConfig.n,
        alpha: float = CertifyConfig.alpha,
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
        n0: int = CertifyConfig.n0,
        n: int = CertifyConfig.n,
        alpha: float = CertifyConfig.alpha,
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
        plan: Plan,
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
    ) -> Plan:
        """Checks the settings, and works out once what all images of a shape share."""
        radii = None if radii is None else tuple(radii)
        CertifyConfig(self.sigma, n0=n0, n=n, alpha=alpha, radii=radii, tolerance=tolerance)
        bounds.check_samples(n0, n, alpha)
        values = math.prod(shape)
        slack, law = total_variation(self.noise, self.sigma, values), law_of(self.noise)
        test = procedure(
            n, alpha, self.sigma, radii=radii, tolerance=tolerance, slack=slack, law=law
        )
        return Plan(self.sigma, self.noise, n0, n, alpha, values, slack, law, test)

    def _certify(
        self,
        xs: Sequence[Tensor],
        indices: Sequence[int],
        plan: Plan,
        skip_unless: Sequence[int] | None,
    ) -> list[Certificate]:
        if skip_unless is not None and len(skip_unless) != len(xs):
            raise DataError(
                f"expected a label for each of {len(xs)} images, found {len(skip_unless)}"
            )
        if xs[0].numel() != plan.values:
            raise DataError(
                f"expected images of {plan.values} values, as planned, found {xs[0].numel()}"
            )
        if (plan.sigma, plan.noise) != (self.sigma, self.noise):
            raise ConfigError(
                f"the plan is for {plan.noise} noise of sigma {plan.sigma:g}, found {self.noise} noise of sigma "
                f"{self.sigma:g}: make a plan with this classifier"
            )
        claim: dict[str, Any] = {"sigma": self.sigma, "alpha": plan.alpha, "law": plan.law}
        counter = self._counter(xs)
        selection = [Request(i, index, "selection", 0, plan.n0) for i, index in enumerate(indices)]
        estimation = [Request(i, index, "estimation", 0, plan.n) for i, index in enumerate(indices)]
        if plan.test is None and skip_unless is None:
            # what is sampled does not depend on the class selected: one trip to the device for both stages
            both = self._count(counter, [*selection, *estimation])
            return from_counts(both[: len(xs)], both[len(xs) :], slack=plan.slack, **claim)
        counts0 = self._count(counter, selection)
        selected = counts0.argmax(1)
        wanted = [
            r
            for r in estimation
            if skip_unless is None or selected[r.image] == skip_unless[r.image]
        ]
        counts, claims = np.zeros_like(counts0), [NO_CLAIM] * len(xs)
        if plan.test is not None:
            self._sample_until_finished(plan.test, counter, wanted, selected, counts, claims)
        found = [from_claim(*of, **claim) for of in zip(counts0, counts, claims, strict=True)]
        if plan.test is None and wanted:
            chosen = [r.image for r in wanted]
            counts[chosen] = self._count(counter, wanted)
            certified = from_counts(counts0[chosen], counts[chosen], slack=plan.slack, **claim)
            for place, certificate in zip(chosen, certified, strict=True):
                found[place] = certificate
        return found

    def _sample_until_finished(
        self,
        test: Procedure,
        counter: Counter,
        requests: list[Request],
        selected: NDArray[np.int64],
        counts: NDArray[np.int64],
        claims: list[Claim],
    ) -> None:
        """Draw the estimation samples of each image, in the order of a fixed n, until `test` is finished with it."""
        states, before = {r.image: test.start for r in requests}, 0
        for look, last in enumerate(test.looks):
            if not requests:
                break
            pieces = [Request(r.image, r.index, r.stage, before, last) for r in requests]
            for r, piece in zip(requests, self._count(counter, pieces), strict=True):
                counts[r.image] += piece
                states[r.image] = test.advance(
                    states[r.image], look, int(counts[r.image, selected[r.image]])
                )
                claims[r.image] = test.claim(states[r.image])
            requests = [r for r in requests if not test.finished(states[r.image])]
            before = last

    def predict(
        self, image: Image, *, n: int = 1000, alpha: float = CertifyConfig.alpha, index: int = 0
    ) -> int:
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
        # the law of n counts is within n * slack of the ideal one in total variation: alpha is lowered by that
        return predicted(
            counts, alpha - n * total_variation(self.noise, self.sigma, x.numel())
        ), counts

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
            asked = shape, self.sigma, self.noise, self.seed, self.precision, self.kernels
            if self._ready is None or self._ready[0] != (asked, state_of(self.model)):
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
                self._ready = (asked, state_of(self.model)), seed, ready
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
