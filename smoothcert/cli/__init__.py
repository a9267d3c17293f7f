"""The command line: one file per command, each a typed function whose docstring is its help.

Adding a command adds one file. Commands call the library and print; only those that compute import PyTorch.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from smoothcert.cli import frame
from smoothcert.cli.output import print_json
from smoothcert.errors import ConfigError, ProcessLost, SmoothcertError
from smoothcert.progress import printing
from smoothcert.runs.remote import shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors of ours become one line and exit status 2, with --json also a document."""
    words = sys.argv[1:] if arguments is None else [*arguments]
    with printing():
        try:
            _check_words(words)
            with _names_in_words():
                if call := frame.parsed(words):
                    call()
        except SmoothcertError as error:
            if any(word.partition("=")[0] == "--json" for word in words):
                print_json({"error": str(error)})
            told = re.sub(
                r"\n(?!  )", "\n  ", shown(str(error))
            )  # no name begins a line of its own
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
