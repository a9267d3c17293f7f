"""Image classifiers of Hugging Face's transformers: by name or folder, and again from their configuration alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.models.external import Found, first_line, nothing_fetched, transformers
from smoothcert.models.normalise import InputForm

_FOREIGN_CODE = False
"""Said each time: unsaid, transformers asks on the terminal whether to download and run the code that a file names."""


class HuggingFace(nn.Module):
    """A classifier of transformers that returns its logits alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(pixel_values=x, return_dict=True).logits
        return logits


def hf_network(classes: int, config: dict[str, Any]) -> nn.Module:
    """The network that a configuration describes.

    Nothing is looked up, and no code but that of transformers runs.
    """
    library: Any = transformers()
    config = _to_build(config)
    try:
        described = library.AutoConfig.for_model(**config)
        if described.num_labels != classes:
            described.num_labels = classes
        # whatever type it was stored in, it is trained and compared in float32
        found = library.AutoModelForImageClassification.from_config(
            described, trust_remote_code=_FOREIGN_CODE
        )
        return HuggingFace(found.float())
    except Exception as error:  # a configuration may be of any model, and of another release
        raise ModelError(
            f"transformers {library.__version__} cannot build the image classifier of this configuration "
            f"(model_type {config.get('model_type')!r}): {first_line(error)}"
        ) from error


def _to_build(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a configuration a network is built by: not where its weights and its code once came
    from, which honest ones say too. No part may name code: transformers would ask about it.
    """
    kept = {name: config[name] for name in config if name not in ("pretrained_cfg", "auto_map")}
    return dict(nothing_fetched(kept))


def hf_pretrained(name: str) -> Found:
    """A trained classifier, with the normalisation and size that its processor names.

    `name` is a folder, or a name on the hub, which is looked for in the cache, then downloaded.
    """
    library: Any = transformers()
    try:
        # as it is written, since making an object of it may fetch what it names
        _to_build(library.PreTrainedConfig.get_config_dict(name)[0])
        loaders = (library.AutoModelForImageClassification, library.AutoImageProcessor)
        network, processor = (
            loader.from_pretrained(name, trust_remote_code=_FOREIGN_CODE) for loader in loaders
        )
        network, processor = network.float(), processor.to_dict()
    except (
        Exception
    ) as error:  # missing files, no network, not an image classifier: it raises nearly anything
        where = "in that folder" if Path(name).is_dir() else "in the cache of the hub, or there"
        raise ModelError(
            f"hf:{name}: expected an image classifier and its processor (config.json, weights and "
            f"preprocessor_config.json) {where}, found this: {first_line(error)}"
        ) from error
    config = json.loads(network.config.to_json_string(use_diff=False))
    labels = network.config.id2label
    names = tuple(str(labels[place]) for place in sorted(labels))
    unnamed = names == tuple(f"LABEL_{place}" for place in range(len(names)))
    form, channels = processor_form(processor), config.get("num_channels", 3)
    about = {"config": config}
    return Found(
        f"hf:{name}",
        HuggingFace(network),
        about,
        form,
        () if unnamed else names,
        len(names),
        channels,
    )


def processor_form(processor: dict[str, Any]) -> InputForm:
    """What a processor does to images of 0..255, as a form of images in [0, 1]."""
    if data := processor.get("data_config"):  # of timm
        mean, std = (tuple(map(float, data[name])) for name in ("mean", "std"))
        return InputForm(mean, std, size=_size(data["input_size"][1]))
    scale = (
        float(processor.get("rescale_factor", 1 / 255))
        if processor.get("do_rescale", True)
        else 1.0
    )
    if processor.get("do_flip_channel_order"):
        raise ModelError(
            "its processor turns red, green, blue into blue, green, red, which no option says: wrap the network in a "
            "function of yours that does it, and name that as the model, FILE.py:NAME"
        )
    low = -1.0 if processor.get("rescale_offset") else 0.0
    high = 255 * scale + low  # where white goes
    normalised = processor.get("do_normalize", True)
    mean, std = (
        tuple(map(float, processor.get(f"image_{name}") or ())) if normalised else ()
        for name in ("mean", "std")
    )
    if processor.get("include_top"):  # EfficientNet's divides by std once more
        std = tuple(value**2 for value in std)
    size = processor.get("crop_size") if processor.get("do_center_crop") else None
    size = _size(size or (processor.get("size") if processor.get("do_resize", True) else None))
    return InputForm(mean, std, (low, 1.0 if abs(high - 1) < 1e-9 else high), size)


def _size(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        return int(size["height"]), int(size["width"])
    if isinstance(size, dict) and "shortest_edge" in size:
        return int(size["shortest_edge"]), int(size["shortest_edge"])
    return None
