"""One family of errors. Each message says what was expected, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SmoothcertError(Exception):
    """Base of every error that smoothcert raises on purpose; the command line prints it without a traceback.

    >>> from smoothcert import SmoothcertError, load_dataset
    >>> try:
    ...     load_dataset("mnits-mini")
    ... except SmoothcertError as error:
    ...     print(error)
    unknown dataset 'mnits-mini': did you mean mnist-mini or mnist?
    """


class ConfigError(SmoothcertError):
    """A setting, a recipe or a name is not usable."""


class DataError(SmoothcertError):
    """A data set, an image or a label is missing, damaged or out of range."""


class ModelError(SmoothcertError):
    """A network, its weights or its output is not usable."""


class NoFunctionError(ModelError):
    """The network is no function of one image: it looks at the rest of a batch, tosses coins or changes itself."""


class StoreError(SmoothcertError):
    """A run folder or a certificate store is missing, damaged, busy or of another configuration."""


class TrainingDiverged(SmoothcertError):
    """The loss is no longer a number; nothing certifiable came out of the run."""


class ProcessLost(SmoothcertError):
    """Another of the processes that train together has ended or does not answer."""


COLLAPSED = 0.9
"""A classifier that gives one answer to more inputs than this has collapsed, though its ACR may still look fair."""


class MissingExtra(SmoothcertError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package '{package}', which is not installed: pip install 'smoothcert[{extra}]'"
        )


def none_of(what: str, found: str, words: Iterable[str]) -> ConfigError:
    """The error for a word that is none of a few: all of them, and the nearest if one is near."""
    known = list(words)
    near = get_close_matches(found, known, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}?" if near else "choose one of them"
    return ConfigError(f"{what} is one of {', '.join(known)}, found '{found}'; {advice}")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a misspelt name of a catalogue, too long to be listed where known names are near."""
    options = sorted(known)
    near = get_close_matches(name, options, n=3, cutoff=0.5)
    shown = [
        f"'{option}'" if "," in option else option for option in near or options
    ]  # a name may have a comma
    hint = f"did you mean {' or '.join(shown)}?" if near else f"known: {', '.join(shown) or 'none'}"
    return ConfigError(f"unknown {kind} '{name}': {hint}")
