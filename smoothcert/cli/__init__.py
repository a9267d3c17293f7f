"""The command line: one file per command, with its options and what it does side by side.

A command is a module of this package with `ABOUT`, `add_options(parser)` and `run(options)`, and has the name of its
file: adding a command adds one file. Commands call the library and print; only those that compute import PyTorch.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from argparse import HelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import NoReturn

from jsonargparse import ArgumentParser

import smoothcert
from smoothcert.cli.options import print_json
from smoothcert.errors import ConfigError, ProcessLost, SmoothcertError
from smoothcert.progress import printing
from smoothcert.runs.remote import shown

_FIRST = (
    "demo",
    "train",
    "doctor",
    "certify",
    "predict",
    "report",
    "status",
)  # for a newcomer; the others by name


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors of ours become one line and exit status 2, with --json also a document."""
    with printing():
        _run(sys.argv[1:] if arguments is None else arguments)


def _run(words: Sequence[str]) -> None:
    known = commands()
    try:
        _check_words(words)
        parsed = build_parser(known, words).parse_args(words)
        options = parsed[parsed.subcommand]
        if (place := options.get("data_dir")) and not place.expanduser().is_dir():
            raise ConfigError(
                f"--data-dir is a folder with data sets, found none at {place}: make it first"
            )
        with _names_in_words():
            known[parsed.subcommand].run(options)
    except SmoothcertError as error:
        if any(word.partition("=")[0] == "--json" for word in words):
            print_json({"error": str(error)})
        told = re.sub(r"\n(?!  )", "\n  ", shown(str(error)))  # no name begins a line of its own
        print(f"error: {told}", file=sys.stderr, flush=True)
        if isinstance(error, ProcessLost):
            os._exit(2)  # PyTorch would wait for what was sent to the process that is gone
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError as error:
            raise ConfigError(f"no file can have the name {word!r}: choose another one") from error


@contextmanager
def _names_in_words() -> Iterator[None]:
    """A name that is too long is met wherever a path is first asked for."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise ConfigError(
            f"no file can have so long a name as '{str(error.filename)[:60]}...': choose another one"
        ) from error
    except RuntimeError as error:  # of Path.resolve, before Python 3.13
        if not str(error).startswith("Symlink loop"):
            raise
        raise ConfigError(f"{error}: name another place") from error


def commands() -> dict[str, ModuleType]:
    """Every command by its name, `import` from import_.py and `soft-labels` from soft_labels.py."""
    modules = {
        module.name: import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)
    }
    found = {
        name.strip("_").replace("_", "-"): module
        for name, module in modules.items()
        if hasattr(module, "run")
    }
    return {name: found[name] for name in (*_FIRST, *sorted(found.keys() - set(_FIRST)))}


class Parser(ArgumentParser):
    """Calls what is missing by the name that it is typed with, and says what to do about words that are unknown."""

    commands: Mapping[str, Parser] = {}

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        flag, valued, found = message.removeprefix("argument ").partition(
            ": ignored explicit argument "
        )
        if valued:
            raise ConfigError(
                f"{flag} takes no value, found {found}; give it alone to turn it on, or leave it out"
            )
        begin, required, rest = message.partition("required: ")
        missing = [name.partition(".") for name in rest.split(", ")]
        if required and (command := self.commands.get(missing[0][0])):  # whose usage is shown then
            command.error(
                begin + required + ", ".join(command.typed(name) for _, _, name in missing), ex
            )
        unknown = message.partition("unrecognized arguments: ")[2].split()
        near = [
            match
            for word in unknown
            for match in get_close_matches(word.partition("=")[0], self.flags(), n=1)
        ]
        advice = [f"did you mean {' and '.join(near)}?"] if near else []
        super().error("\n  ".join([message, *advice]), ex)
        raise AssertionError("an error ends the program")

    def typed(self, name: str) -> str:
        """What stands for this argument in the usage."""
        return flag if (flag := f"--{name.replace('_', '-')}") in self.flags() else name

    def flags(self) -> list[str]:
        return re.findall(r"--[\w.-]+", self.format_usage())


def build_parser(
    known: dict[str, ModuleType] | None = None, words: Sequence[str] | None = None
) -> ArgumentParser:
    """A parser of all commands; with the `words` of a command line, of the options that these can mean."""
    parser = Parser(
        prog="smoothcert",
        description="Train image classifiers whose answers come with a proof, certify them, report the proofs.",
        version=smoothcert.__version__,
        allow_abbrev=False,
        formatter_class=HelpFormatter,
    )
    subcommands = parser.add_subcommands(required=True)
    for name, module in (commands() if known is None else known).items():
        command = Parser(
            description=module.ABOUT, allow_abbrev=False, formatter_class=HelpFormatter
        )
        if words is None or name in words:
            module.add_options(command)
        subcommands.add_subcommand(name, command, help=module.ABOUT)
        parser.commands = {**parser.commands, name: command}
    return parser
