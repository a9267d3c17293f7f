"""Diffusion models of Hugging Face's diffusers: the U-Net of a folder, and again from its configuration alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from smoothcert.errors import MissingExtra, ModelError
from smoothcert.models.diffusion import OneShotDiffusion
from smoothcert.models.external import first_line

_SCHEDULES = {"linear": "linear", "scaled_linear": "scaled-linear", "squaredcos_cap_v2": "cosine"}
_PREDICTIONS = {"epsilon": "noise", "sample": "image", "v_prediction": "velocity"}


class DiffusersUNet(nn.Module):
    """A UNet2DModel that returns its prediction alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        found: Tensor = self.network(x, t, return_dict=False)[0]
        return found


def diffusers_network(config: Mapping[str, Any]) -> nn.Module:
    """The U-Net that a configuration describes; nothing is looked up, and no code but that of diffusers runs."""
    try:
        return DiffusersUNet(_diffusers().UNet2DModel.from_config(dict(config)))
    except MissingExtra:
        raise
    except Exception as error:  # a configuration may be of another release
        raise ModelError(
            f"diffusers cannot build the U-Net of this configuration: {first_line(error)}"
        ) from error


def diffusers_denoiser(folder: Path, sigma: float) -> tuple[nn.Module, dict[str, Any]]:
    """The model in a folder as a denoiser of noise sigma, and the options of the architecture "diffusion" for it.

    The folder is that of a pipeline, with unet/ and scheduler/, or of a U-Net with scheduler_config.json beside it.
    """
    diffusers = _diffusers()
    place = folder / "unet" if (folder / "unet").is_dir() else folder
    scheduler = next(
        (
            path
            for path in (folder / "scheduler", folder)
            if (path / "scheduler_config.json").is_file()
        ),
        None,
    )
    if scheduler is None or not (place / "config.json").is_file():
        raise ModelError(
            f"diffusers:{folder}: expected unet/config.json, its weights and scheduler/scheduler_config.json in that "
            "folder, as save_pretrained of a pipeline writes them; found no such files"
        )
    settings = schedule_settings(_read(scheduler / "scheduler_config.json"))
    try:
        network = diffusers.UNet2DModel.from_pretrained(place, local_files_only=True).float()
        config = {
            name: value
            for name, value in json.loads(network.to_json_string()).items()
            if name[0] != "_"
        }
    except (
        Exception
    ) as error:  # missing weights, not this class of network: it raises nearly anything
        raise ModelError(
            f"diffusers:{folder}: expected a UNet2DModel and its weights, found this: {first_line(error)}"
        ) from error
    unet = {
        "architecture": "diffusers",
        "classes": 0,
        "normalisation": "none",
        "options": {"config": config},
    }
    return OneShotDiffusion(DiffusersUNet(network), sigma, **settings), {
        "unet": unet,
        "sigma": sigma,
        **settings,
    }


def schedule_settings(scheduler: Mapping[str, Any]) -> dict[str, Any]:
    """The schedule of a scheduler's configuration, as settings of `OneShotDiffusion`."""
    known = (
        ("beta_schedule", scheduler.get("beta_schedule", "linear"), _SCHEDULES),
        ("prediction_type", scheduler.get("prediction_type", "epsilon"), _PREDICTIONS),
    )
    for name, found, choices in known:
        if found not in choices:
            raise ModelError(
                f"scheduler_config.json: expected {name} {', '.join(choices)}, found {found!r}"
            )
    for name in ("trained_betas", "rescale_betas_zero_snr"):
        if scheduler.get(name):
            raise ModelError(
                f"scheduler_config.json: expected a schedule by its name, found {name}, unknown here"
            )
    return {
        "schedule": _SCHEDULES[known[0][1]],
        "steps": int(scheduler.get("num_train_timesteps", 1000)),
        "beta": [float(scheduler.get("beta_start", 1e-4)), float(scheduler.get("beta_end", 0.02))],
        "predicts": _PREDICTIONS[known[1][1]],
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{path}: expected a JSON object, found this: {error}") from error


def _diffusers() -> Any:
    try:
        return import_module("diffusers")
    except ModuleNotFoundError as error:
        if error.name != "diffusers":
            raise ModelError(
                f"diffusers needs the module '{error.name}', which is not installed"
            ) from error
        raise MissingExtra("diffusers", "diffusers", "the denoiser 'diffusers:FOLDER'") from None
