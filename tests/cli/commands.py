"""Commands given as a user gives them, in this process."""

import io
import re
from contextlib import redirect_stdout

from smoothcert.cli import main


def run(capsys, *arguments):
    """What a command prints."""
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def ends(capsys, *arguments):
    """The exit status of a command, and what it said."""
    capsys.readouterr()
    status = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    return status, capsys.readouterr()


def fails(capsys, *arguments):
    """What a command says that is refused."""
    status, said = ends(capsys, *arguments)
    assert status == 2
    return said.err


def options_of(command):
    """Every option of a command as its help has them: its names, and the rest of the line."""
    with redirect_stdout(io.StringIO()) as printed:
        main([command, "--help-all"])
    lines = re.findall(
        r"^  (--[a-z0-9-]+(?: --[a-z0-9-]+)*) +(.*)$", printed.getvalue(), re.MULTILINE
    )
    return {name: rest for names, rest in lines for name in names.split()}


def given(words, *more):
    """The words, without the values of options that are given again."""
    kept, gone = [], False
    for word in words:
        if str(word).startswith("--"):
            gone = word in more
        if not gone:
            kept.append(word)
    return [*kept, *more]
