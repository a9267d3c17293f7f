"""Denoised: a denoiser before a classifier that was never trained on noise."""

from __future__ import annotations

from torch import Tensor, nn

from smoothcert.models.normalise import Resize


class Denoised(nn.Module):
    """x -> classifier(denoiser(x)), for images in [0, 1] with noise (Salman et al. 2020, arXiv:2003.01908).

    What is smoothed is this whole function: it is a base classifier like any other, so CERTIFY's guarantee holds for it
    unchanged, with sigma and radius measured where the noise is added, at the input of the denoiser. Nothing is assumed
    of either part but that its answer depends on the image alone: a bad denoiser costs radius, never soundness.

    Both parts take images in [0, 1]; the classifier normalises for itself. With `size`, (height, width), it is given
    the denoised image resized to that.
    """

    def __init__(
        self, denoiser: nn.Module, classifier: nn.Module, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__()
        self.denoiser = denoiser
        self.resize = nn.Identity() if size is None else Resize(size)
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.resize(self.denoiser(x)))
        return logits
