"""Networks from elsewhere: the user's own by dotted path or file, timm's and torchvision's by name."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

from torch import nn

from smoothcert.errors import MissingExtra, ModelError, unknown_name
from smoothcert.imports import find_code, import_name
from smoothcert.models.normalise import InputForm

Factory = Callable[
    ..., Any
]  # called with the number of classes, if it takes one, and the options of the model

SOURCES = ("timm", "torchvision", "hf")
"""What may stand before a colon; anything else there is a module or a file of the user's."""


@dataclass(frozen=True, eq=False)
class Found:
    """What can be said of a network before it is known which images it is for."""

    architecture: str
    network: nn.Module | None = None  # trained; None: built when the number of classes is known
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # beside the number of classes, to build it again
    form: InputForm = field(default_factory=InputForm)
    class_names: tuple[str, ...] = ()
    classes: int | None = None
    channels: int = 3

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """The images that it was trained on, where that is known."""
        return None if self.form.size is None else (self.channels, *self.form.size)


_OR_WEIGHTS = "; give a file of weights, or let it reach the network once"
_CLASSES = ("classes", "num_classes", "n_classes", "num_labels")
_FETCHED = re.compile(
    r"pretrained(?!_window).*|use_pretrained_backbone|checkpoint_path|cache_dir|weights(_backbone)?"
    r"|backbone(_kwargs)?|auto_map|attribute_map"  # the last gives others another name
)
"""Options by which timm, torchvision and transformers fetch weights, configurations or code."""
_WORDS = re.compile(r"architecture|_?(attn|experts)_implementation(_internal)?")
"""Options that hold a word; with a colon or a slash, it is a place to fetch from."""


def accepted(factory: Factory, classes: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments to call a factory with: the number of classes by the name that it has there, if it takes one."""
    if (name := classes_argument(factory)) is None or name in options:
        return dict(options)
    return {name: classes, **options}


def classes_argument(factory: Factory) -> str | None:
    """What a factory calls the number of classes; None if it takes no such argument."""
    if isinstance(factory, type) and factory.__init__ is nn.Module.__init__:  # type: ignore[misc]
        return None  # its signature takes anything, and refuses it
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:  # written in C
        return "classes"
    named = next((name for name in _CLASSES if name in parameters), None)
    anything = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    return named or ("classes" if anything else None)


def default_classes(factory: Factory) -> int | None:
    """The number of classes of the network that a factory makes when it is not told one; None if it must be told."""
    name = classes_argument(factory)
    parameter = None if name is None else inspect.signature(factory).parameters.get(name)
    default = None if parameter is None else parameter.default
    return default if isinstance(default, int) else None


def own_network(path: str) -> Factory:
    """The class or function at ``mypkg.nets.MyNet``, ``mypkg.nets:make`` or ``folder/nets.py:make``."""
    find_code(path)  # as it is now: later, the file may be another
    network: Factory = import_name(path, "model")
    if isinstance(network, nn.Module):
        raise ModelError(
            f"model '{path}': expected a class or function, found a {type(network).__name__} that is built already: "
            "name its class, or a function that returns it"
        )
    if not callable(network):
        raise ModelError(
            f"model '{path}': expected a class or function, found a {type(network).__name__}; "
            "it is called, with the number of classes if it takes one, and returns a torch.nn.Module"
        )
    return network


def timm_network(name: str) -> Factory:
    timm = _optional("timm")
    if not timm.is_model(name):
        raise unknown_name("timm model", name, timm.list_models())
    return lambda classes, **options: timm.create_model(
        name, num_classes=classes, **nothing_fetched(options)
    )


def timm_pretrained(name: str, trained: bool) -> Found:
    """A network of timm, of its hub or of ``local-dir:FOLDER``, with the normalisation and size that it names."""
    timm = _optional("timm")
    try:
        network = timm.create_model(name, pretrained=trained)
        about = timm.data.resolve_model_data_config(network)
        options = _timm_options(name)
    except Exception as error:  # no such network, no weights, nothing reachable
        raise ModelError(f"timm:{name} cannot be had: {first_line(error)}{_OR_WEIGHTS}") from error
    channels, *size = about["input_size"]
    channels, size = options.get("in_chans", channels), options.get("img_size", size)
    height, width = (size, size) if isinstance(size, int) else size
    mean, std = (tuple(map(float, about[key])) for key in ("mean", "std"))
    if channels != len(mean):  # the constants are those of colour images
        mean, std = (fmean(mean),), (fmean(std),)
    form = InputForm(mean, std, size=(height, width))
    architecture = f"timm:{network.pretrained_cfg.get('architecture') or name}"
    if not trained:  # the weights decide the number of classes
        return Found(architecture, None, options, form, channels=channels)
    names = tuple(network.pretrained_cfg.get("label_names") or ())
    return Found(architecture, network, options, form, names, network.num_classes, channels)


def _timm_options(name: str) -> dict[str, Any]:
    """What a folder of timm's says beside the architecture, to build its network again without the folder."""
    folder = name.removeprefix("local-dir:")
    if folder == name:
        return {}
    found = json.loads((Path(folder) / "config.json").read_text()).get("model_args") or {}
    return {str(key): value for key, value in found.items()}


def torchvision_network(name: str) -> Factory:
    models = _optional("torchvision").models
    known = models.list_models(module=models)  # the classifiers alone
    if name not in known:
        raise unknown_name("torchvision model", name, known)
    return lambda classes, **options: models.get_model(
        name, num_classes=classes, **nothing_fetched(options)
    )


def nothing_fetched(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse options, nested ones too, that name a place of weights, configurations or code, since
    whoever wrote a model.json would choose what is opened, by pickle in older releases, or run.
    """
    for keys, value in _nested(options):
        place = _WORDS.fullmatch(keys[-1]) and re.search("[:/]", str(value))
        if place or (value and _FETCHED.fullmatch(keys[-1])):
            raise ModelError(
                f"the options of a network say how it is built, found {'.'.join(keys)!r}, by which "
                "weights, a configuration or code would be fetched from elsewhere: leave it out"
            )
    return options


def _nested(options: Any, *above: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each option and those in it, with the keys that lead there."""
    if isinstance(options, list):
        options = dict(enumerate(options))
    if isinstance(options, Mapping) and not {"label2id", "label_descriptions"}.intersection(above):
        # their keys are names of classes
        for key, value in options.items():
            yield (*above, str(key)), value
            yield from _nested(value, *above, str(key))


def torchvision_pretrained(name: str, trained: bool) -> Found:
    """A network of torchvision, with its newest weights, and the normalisation and size that belong to them."""
    torchvision_network(name)  # a clear error for an unknown name
    models = _optional("torchvision").models
    weights = models.get_model_weights(name).DEFAULT
    seen = weights.transforms()
    side = seen.crop_size[0]
    form = InputForm(tuple(seen.mean), tuple(seen.std), size=(side, side))
    if not trained:
        return Found(f"torchvision:{name}", None, {}, form)
    try:
        network = models.get_model(name, weights=weights)
    except Exception as error:  # nothing reachable
        raise ModelError(
            f"torchvision:{name} cannot be had: {first_line(error)}{_OR_WEIGHTS}"
        ) from error
    names = tuple(weights.meta["categories"])
    return Found(f"torchvision:{name}", network, {}, form, names, len(names))


def first_line(error: Exception) -> str:
    """An error of another library, in one line."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


def transformers() -> ModuleType:
    """The package, which fails in odd ways beside a torchvision that does not import."""
    found = _optional("transformers", "hf")
    if find_spec("torchvision") is not None:
        _optional("torchvision")
    return found


def _optional(package: str, extra: str = "") -> ModuleType:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise ModelError(
                f"{package} needs the module '{error.name}', which is not installed"
            ) from error
        name = extra or package
        raise MissingExtra(package, name, f"the model '{name}:NAME'") from None
    except Exception as error:  # torchvision fails so beside a torch it was not compiled for
        raise ModelError(
            f"{package} is installed but does not import ({type(error).__name__}: {error}): "
            "install it anew, and torchvision in the release that belongs to the installed torch"
        ) from error
