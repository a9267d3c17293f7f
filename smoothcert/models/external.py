"""Networks from elsewhere: the user's own by dotted path, timm's and torchvision's by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from smoothcert.errors import MissingExtra, ModelError, unknown_name
from smoothcert.imports import import_name

Factory = Callable[..., Any]  # called with classes=... and the options of the model


def own_network(path: str) -> Factory:
    """The class or function at a dotted path such as ``mypkg.nets.MyNet``."""
    network: Factory = import_name(path, "model")
    if not callable(network):
        raise ModelError(
            f"model '{path}': expected a class or function, found a {type(network).__name__}; "
            "it is called with classes=... and returns a torch.nn.Module"
        )
    return network


def timm_network(name: str) -> Factory:
    timm = _optional("timm")
    if not timm.is_model(name):
        raise unknown_name("timm model", name, timm.list_models())
    return lambda classes, **options: timm.create_model(name, num_classes=classes, **options)


def torchvision_network(name: str) -> Factory:
    models = _optional("torchvision").models
    known = models.list_models(module=models)  # the classifiers alone
    if name not in known:
        raise unknown_name("torchvision model", name, known)
    return lambda classes, **options: models.get_model(name, num_classes=classes, **options)


def _optional(package: str) -> ModuleType:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise ModelError(f"{package} needs the module '{error.name}', which is not installed") from error
        raise MissingExtra(package, package, f"the model '{package}:NAME'") from None
    except Exception as error:  # torchvision fails so beside a torch it was not compiled for
        raise ModelError(
            f"{package} is installed but does not import ({type(error).__name__}: {error}); "
            "install the release of it that belongs to the installed torch"
        ) from error
