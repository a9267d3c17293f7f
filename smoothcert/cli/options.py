"""Options that several commands share, most of them derived from the dataclasses of config/; and plain tables."""

from __future__ import annotations

import json
import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser

from smoothcert import __version__
from smoothcert.config import check_choice, option_of, settings_of
from smoothcert.errors import ConfigError
from smoothcert.runs.remote import is_remote, shown
from smoothcert.runs.selection import Selection

Options = Any  # jsonargparse's Namespace
T = TypeVar("T")

_LONGEST_NAME = 200  # file systems take 255 bytes, and files beside the store add to it


def whole_number(text: str) -> int:
    """Also 1e5, since that is exact."""
    with suppress(ValueError, OverflowError):
        number = int(float(text))
        if abs(number) >= 2**53:  # beyond, a float does not have every digit
            return int(text)
        if number == float(text):
            return number
    raise ValueError(text)


def whole_numbers(text: str | list[int]) -> list[int]:
    """1,2,3 or [1, 2, 3]; a list, which the parser gives to check what it has read, as it is."""
    if isinstance(text, list):
        return text
    return [whole_number(part) for part in text.strip("[] ").split(",") if part.strip()]


def number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def truth(text: str | bool) -> bool:
    """As YAML has it; a bool, which the parser gives to check what it has read, as it is."""
    word = str(text).lower()
    if word not in ("true", "yes", "on", "false", "no", "off"):
        raise ValueError(text)
    return word in ("true", "yes", "on")


def place(text: str | Path) -> str | Path:
    """A path, or the address of a folder on a server, which must stay text: a path has no double slash."""
    return text if is_remote(text) else Path(text)


def on_disk(text: str | Path) -> Path:
    """A path, where an address will not do."""
    if is_remote(text):
        raise ArgumentTypeError(
            f"expected a path on this machine, found {text}: copy it here, or upload it after"
        )
    return Path(text)


_READ: dict[Any, tuple[Callable[[Any], Any], str, str]] = {
    bool: (truth, "true or false", "true"),
    int: (whole_number, "a whole number", "100"),
    float: (number, "a number", "0.25"),
    list[int]: (whole_numbers, "whole numbers with commas between them", "30,60"),
}
"""How values of these types are read from the command line, what they are called, and an example.

Paths are read by `on_disk`, and other types by jsonargparse.
"""


def option(
    parser: ArgumentParser, flag: str, kind: Any, default: Any, text: str, *, required: bool = False
) -> None:
    shown = text if default is None else f"{text} (default: {default})"
    words = (
        ("true", "false") if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()
    )
    known = next((entry for entry in _READ if kind in (entry, entry | None)), None)
    if known is not None:
        read: Any = partial(_read, flag, *_READ[known])
    elif words:
        read = partial(check_choice, flag, choices=kind)
    else:
        read = on_disk if kind is Path else kind | None if default is None else kind
    named = "{" + ",".join(words) + "}" if words else None
    bare: dict[str, Any] = {"nargs": "?", "const": True} if kind is bool else {}  # --flag is true
    parser.add_argument(
        flag, type=read, default=default, required=required, help=shown, metavar=named, **bare
    )


def _read(flag: str, read: Callable[[Any], T], expected: str, example: str, found: Any) -> T:
    try:
        return read(found)
    except ValueError:
        raise ConfigError(
            f"{flag} takes {expected}, found '{found}'; write for example {flag} {example}"
        ) from None


def add_overrides(parser: ArgumentParser, kind: type[Any], but: Sequence[str] = ()) -> None:
    """An option for each setting, without its default: what is not given, a recipe says."""
    hints = get_type_hints(kind)
    for entry in settings_of(kind):
        if entry.name not in but:
            what = dict[str, Any] if entry.metadata["nested"] else hints[entry.name]
            option(parser, option_of(entry), what, None, entry.metadata["help"])


def given_overrides(options: Options, kind: type[Any]) -> dict[str, Any]:
    """Those settings that the command line names."""
    return {
        entry.name: options[entry.name]
        for entry in settings_of(kind)
        if options.get(entry.name) is not None
    }


def add_settings(
    parser: ArgumentParser, kind: type[Any], only: Sequence[str] | None = None, **defaults: object
) -> None:
    """An option for each setting, or for some of them, with its default or another one.

    A setting without a default may be left out, since the run folder says it; radii may not.
    """
    hints = get_type_hints(kind)
    for entry in settings_of(kind):
        if only is not None and entry.name not in only:
            continue
        default = defaults.get(entry.name, entry.default)
        required = not isinstance(default, str | int | float | None)  # dataclasses.MISSING
        flag, text = option_of(entry), entry.metadata["help"]
        if entry.name == "radii":
            add_numbers(parser, (flag,), text, required=required)
        elif default is False:
            parser.add_argument(flag, action="store_true", help=text)
        else:
            option(parser, flag, hints[entry.name], None if required else default, text)


def read_settings(options: Options, kind: type[T], **known: object) -> T:
    """The settings as given on the command line, but for those that are `known` and not given."""
    values = {
        entry.name: options.get(option_of(entry)[2:].replace("-", "_"))
        for entry in settings_of(kind)
    }
    if "radii" in values:
        values["radii"] = read_numbers(values["radii"], "--radius")
    given = {name: value for name, value in values.items() if value is not None}
    return kind(**{**known, **given})


def add_numbers(
    parser: ArgumentParser, flags: Sequence[str], text: str, *, required: bool = False
) -> None:
    """An option that takes several numbers, with spaces or commas between them, for one of the next two functions."""
    parser.add_argument(*flags, type=str, nargs="+", required=required, default=None, help=text)


def read_numbers(words: Sequence[str] | None, flag: str) -> tuple[float, ...] | None:
    return _read_each(words, _number, f"{flag} takes numbers, for example 0 0.5 1 or 2/255")


def _number(text: str) -> float:
    """`0.5`, or `2/255` as radii of l-infinity are given."""
    top, slash, bottom = text.partition("/")
    if slash and float(bottom) == 0:
        raise ValueError("division by zero")
    return float(top) / float(bottom) if slash else float(top)


def read_whole_numbers(words: Sequence[str] | None, flag: str) -> tuple[int, ...]:
    return _read_each(words, whole_number, f"{flag} takes whole numbers, for example 0 1 2") or ()


def _read_each(
    words: Sequence[str] | None, read: Callable[[str], T], expected: str
) -> tuple[T, ...] | None:
    if words is None:
        return None
    try:
        return tuple(read(part) for word in words for part in word.split(",") if part.strip())
    except ValueError as error:
        raise ConfigError(f"{expected}, found {' '.join(words)!r}") from error


def add_run(parser: ArgumentParser, several: bool = False) -> None:
    """Run folders to load models from."""
    if several:
        parser.add_argument(
            "runs", type=on_disk, nargs="+", help="run folders with finished models of one data set"
        )
    else:
        parser.add_argument("run", type=on_disk, help="run folder with a finished model")
    add_trust(parser)


def add_trust(parser: ArgumentParser) -> None:
    text = (
        "run the Python code that a run folder names as its network, if it is none of smoothcert's"
    )
    parser.add_argument("--trust-code", action="store_true", help=text)


def add_inputs(parser: ArgumentParser) -> None:
    """Which images, and which of them this process takes."""
    option(parser, "--split", Literal["test", "train"], "test", "which images")
    add_settings(parser, Selection)
    text = "i/N: this process takes part i (from 0) of N; auto: what no other process at the same store has taken"
    option(parser, "--shard", str, "0/1", text)


def read_selection(options: Options) -> Selection:
    if options.shard == "auto":
        return read_settings(options, Selection, shard=None)
    shard, slash, shards = options.shard.partition("/")
    if not (slash and shard.isdecimal() and shards.isdecimal()):
        raise ConfigError(f"--shard takes auto or i/N, for example 0/4, found {options.shard!r}")
    return read_settings(options, Selection, shard=int(shard), shards=int(shards))


def add_machine(parser: ArgumentParser, data: bool = True) -> None:
    if data:
        option(parser, "--data-dir", Path, None, "where data sets are; else $SMOOTHCERT_DATA")
    option(parser, "--device", str, "auto", "auto, cpu, cuda or cuda:N")


def check_name(name: str) -> str:
    if Path(name).name != name or name.startswith("."):
        raise ConfigError(f"--name is the name of one folder, found {name!r}")
    if len(name.encode()) > _LONGEST_NAME or not name.isprintable():
        raise ConfigError(
            f"--name has at most {_LONGEST_NAME} bytes and no control characters, found {name[:40]!r}"
        )
    return name


def add_json(parser: ArgumentParser) -> None:
    text = "print one JSON document and nothing else; notes and progress go to standard error"
    parser.add_argument("--json", action="store_true", help=text)


def print_json(document: Mapping[str, Any]) -> None:
    """The one document of a command with `--json`, in ASCII, which no terminal and no encoding takes amiss."""
    print(json.dumps({"smoothcert": __version__, **_plain(document)}, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """What JSON has: null for a number that is none, text for a path, lists for arrays and tuples."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, str | Path):
        return shown(value.as_posix() if isinstance(value, Path) else value)
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of cells as columns of a plain text table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def no_options(parser: ArgumentParser) -> None:
    """For commands that only list what there is."""


def as_words(settings: Mapping[str, Any]) -> list[str]:
    """Command-line words of settings that are text or JSON."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }
    return [word for name, text in texts.items() for word in (f"--{name}", text)]
