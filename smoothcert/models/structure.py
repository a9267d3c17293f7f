"""The layers of a network and their settings, in words that are the same under every version of PyTorch."""

from __future__ import annotations

from hashlib import sha256

from torch import nn

SCHEME = "layers-1"
"""Names what is hashed here; structures of different schemes do not compare."""

# Settings of PyTorch's layers that change their answers and are not seen in the shapes of weights. PyTorch's own words
# for a layer change now and then (BatchNorm tells of its `bias` since 2.13): no store would be of that network then.
_SETTINGS = (
    "original_name kernel_size stride padding output_padding dilation groups padding_mode ceil_mode count_include_pad "
    "divisor_override output_size output_ratio norm_type num_groups normalized_shape eps track_running_stats k "
    "negative_slope alpha beta lambd threshold value min_val max_val lower upper approximate dim start_dim end_dim "
    "unflattened_size size scale_factor mode align_corners upscale_factor downscale_factor bidirectional num_layers "
    "nonlinearity batch_first"
)


def structure_hash(model: nn.Module) -> str:
    """Of networks with the same weights, those with other layers have another one."""
    return f"{SCHEME}:{sha256(structure(model).encode()).hexdigest()}"


def structure(model: nn.Module) -> str:
    """A line for each layer: its name, its class, and its settings if it is PyTorch's, else what it says of itself."""
    return "\n".join(
        f"{name}: {type(module).__name__}({_settings(module) if _is_torchs(module) else module.extra_repr()})"
        for name, module in model.named_modules(remove_duplicate=False)
    )


def _is_torchs(module: nn.Module) -> bool:
    """Whether PyTorch chose the words for it; of a network that says nothing of itself, attributes are not read."""
    said = type(module).extra_repr
    return said is not nn.Module.extra_repr and said.__module__.partition(".")[0] == "torch"


def _settings(module: nn.Module) -> str:
    found = ((name, getattr(module, name, None)) for name in _SETTINGS.split())
    return ", ".join(f"{name}={_plain(value)!r}" for name, value in found if _is_plain(value))


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str)


def _plain(value: object) -> object:
    return tuple(map(_plain, value)) if isinstance(value, tuple | list) else value
