"""SmoothedClassifier: PREDICT and CERTIFY of Cohen, Rosenfeld and Kolter (2019) for any PyTorch image classifier."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.certification.batch_size import choose_batch_size
from smoothcert.certification.counting import Counter, Request, count_within_memory, counter_for
from smoothcert.certification.images import Image, check_image, check_images
from smoothcert.certification.network import Network, ready_network
from smoothcert.config import CertifyConfig
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
from smoothcert.statistics.procedure import Certificate, Procedure, certificates, predicted

# values of an image from which on threads are woken to copy it, which takes longer than a transfer
_LARGE = 2**15


class SmoothedClassifier:
    """g(x) = the class that a model returns most often on x + N(0, sigma^2 I).

    The model is any module or function that takes images in [0, 1] and returns logits; an image is [C, H, W], uint8 or
    floats in [0, 1].

    >>> from smoothcert import CertifyConfig, SmoothedClassifier, load_dataset, load_model
    >>> smoothed = SmoothedClassifier(load_model("mini"), CertifyConfig(sigma=0.5, n=1_000))
    >>> certificate = smoothed.certify(load_dataset("mnist-mini", "test").image(0))
    >>> certificate.predict, certificate.radius > 0.5
    (7, True)

    The model is put into eval mode and prepared for sampling (kernels/prepare.py): the certificate is about the
    prepared network, in the `precision` of the settings (auto: float16 on CUDA, float32 on the CPU). Its classes are
    counted from its logits, and must be `classes`, if that is given. Noise is a function of (`seed`, `index`): give
    each image its own index, and the answer is reproducible whatever the batch size. Without a seed, it is derived from
    the weights. The guarantee is over the noise, so never pick a seed by its result.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Tensor], Any],
        config: CertifyConfig,
        *,
        classes: int | None = None,
        device: str | torch.device | None = None,
        batch_size: int | None = None,
    ) -> None:
        network = as_module(model)
        if not isinstance(config, CertifyConfig):
            raise ConfigError(
                "expected the settings of a certification, such as CertifyConfig(sigma=0.5), found "
                f"{config!r:.60}"
            )
        if config.simultaneous:
            raise ConfigError(
                "simultaneous shares alpha among the images of a set: certify_dataset knows how many there are"
            )
        if classes is not None and operator.index(classes) < 2:
            raise ConfigError(f"a classifier has at least 2 classes, found classes={classes}")
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, found {batch_size}")
        first = next(network.parameters(), None)
        self.device = torch.device(device or (first.device if first is not None else "cpu"))
        self.model = network.to(self.device)
        self.config, self.classes, self.batch_size = config, classes, batch_size
        check_precision(config.precision, self.device)
        self._ready: tuple[object, int, Network] | None = None  # state of the model, seed, network
        self._plans: dict[tuple[CertifyConfig, int], Procedure] = {}

    def certify(self, image: Image, index: int = 0) -> Certificate:
        """CERTIFY: guess the class from n0 noisy copies, then bound its probability with n fresh ones.

        With `radii` in the settings, the answer is the largest of them that n copies, or fewer, can certify. With
        `tolerance`, sampling stops when going on could not raise the radius by more.
        """
        return replace(self.certify_many([image], [index])[0], image=_pixels(image))

    def certify_many(
        self,
        images: Sequence[Image],
        indices: Sequence[int],
        labels: Sequence[int] | None = None,
    ) -> list[Certificate]:
        """The certificates of images of one shape, together: only so a small network keeps a GPU busy.

        With `skip_wrong` in the settings, nothing is sampled or claimed where the guess is not the label.
        """
        xs = check_images(images, indices)
        if self.config.skip_wrong and labels is None:
            raise DataError(
                "skip_wrong leaves out what is not its label: expected labels, found none"
            )
        if labels is not None and len(labels) != len(xs):
            raise DataError(f"expected a label for each of {len(xs)} images, found {len(labels)}")
        wanted = labels if self.config.skip_wrong else None
        certified = self._certify(xs, indices, self.plan(xs[0].shape), wanted)
        return [replace(each, noise=self.config.noise) for each in certified]

    def plan(self, shape: Sequence[int]) -> Procedure:
        """Checks the settings, and works out once what all images of a size share."""
        config, values = self.config, math.prod(shape)
        if (config, values) not in self._plans:
            distance = tau(config.noise, config.sigma, values)
            self._plans[config, values] = Procedure.of(config, distance)
        return self._plans[config, values]

    def _certify(
        self,
        xs: Sequence[Tensor],
        indices: Sequence[int],
        procedure: Procedure,
        skip_unless: Sequence[int] | None,
    ) -> list[Certificate]:
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

    def predict(self, image: Image, index: int = 0) -> int:
        """PREDICT: the smoothed class, wrong with probability at most alpha, or -1 to abstain."""
        return self.predict_counted(image, index)[0]

    def predict_counted(self, image: Image, index: int) -> tuple[int, NDArray[np.int64]]:
        """PREDICT's answer, and how often each class was returned on its n noisy copies."""
        config, x = self.config, check_image(image)
        bounds.check_alpha(config.alpha)
        if config.n < 1:
            raise ConfigError(f"n, the number of samples, must be at least 1, found {config.n}")
        counts = self.count(x, config.n, "prediction", index)
        # the law of n counts is within n tau of the ideal one in total variation: alpha is lowered by that
        distance = config.n * tau(config.noise, config.sigma, x.numel())
        return predicted(counts, config.alpha - distance), counts

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
        config = self.config
        with launch_on(self.device):
            asked = shape, config
            if self._ready is None or self._ready[0] != (asked, state_of(self.model)):
                about = (
                    weights_name(self.model) if config.seed is None else "",
                    repr(config.sigma),
                    config.noise,
                )
                seed = noise_seed(config.seed, *about)
                ready = ready_network(
                    self.model, image.to(self.device), config, seed, classes=self.classes
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
        settings: dict[str, Any] = {
            "sigma": self.config.sigma,
            "mode": self.config.noise,
            "seed": seed,
        }
        if len({(x.dtype, x.device) for x in images}) == 1 and images[0].numel() < _LARGE:
            images = torch.stack(list(images)).to(self.device).unbind()  # one transfer
        else:
            images = [x.to(self.device) for x in images]
        return counter_for(self.config.noise, self.device)(images, net, **settings)

    @torch.inference_mode()
    def _count(self, counter: Counter, requests: Sequence[Request]) -> NDArray[np.int64]:
        assert self.batch_size is not None
        assert self._ready is not None
        with launch_on(self.device):
            counts, self.batch_size = count_within_memory(counter, requests, self.batch_size)
            self._ready[2].require_unchanged()
        return counts


def _pixels(image: Image) -> NDArray[np.generic]:
    x = check_image(image)
    return (x if x.dtype == torch.uint8 else x.float()).numpy(force=True)
