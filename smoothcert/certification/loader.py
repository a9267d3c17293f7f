"""certify_loader(): the images of a PyTorch DataLoader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from smoothcert.certification.certify import certify_dataset
from smoothcert.config import CertifyConfig
from smoothcert.data import from_torch
from smoothcert.errors import DataError
from smoothcert.runs.store import ResultStore

_RANDOM = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def certify_loader(
    model: nn.Module,
    loader: DataLoader[Any],
    out: Path | str,
    config: CertifyConfig,
    *,
    classes: int,
    name: str = "loader",
    split: str = "test",
    **settings: Any,
) -> ResultStore:
    """`certify_dataset` for the batches of a loader: (images [B, C, H, W], labels [B]), or images alone.

    >>> import torch
    >>> from smoothcert import CertifyConfig, certify_loader, load_model
    >>> pairs = torch.utils.data.TensorDataset(torch.zeros(2, 1, 28, 28), torch.tensor([0, 1]))
    >>> loader, config = torch.utils.data.DataLoader(pairs), CertifyConfig(sigma=0.5, n=100)
    >>> store = certify_loader(load_model("mini"), loader, "mini/black", config, classes=10, quiet=True)
    >>> len(store.done())
    2

    Images are in [0, 1] as ToTensor makes them; what the network expects beyond, such as a normalisation, belongs into
    the network, so that sigma and radii are in units of the image. All images are kept in memory.
    """
    if isinstance(getattr(loader, "sampler", None), _RANDOM):
        raise DataError(
            "expected a loader in a fixed order, since results are numbered by it: make it with shuffle=False"
        )
    items: list[Any] = []
    for batch in loader:
        parts = batch if isinstance(batch, tuple | list) else (batch,)
        if len({len(part) for part in parts}) > 1:
            raise DataError(
                f"expected batches of images and labels, one each, found {[len(part) for part in parts]}"
            )
        items += list(zip(*parts, strict=True)) if len(parts) > 1 else list(parts[0])
    data = from_torch(items, name, classes, split)  # type: ignore[arg-type]
    return certify_dataset(model, data, out, config, **settings)
