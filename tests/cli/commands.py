"""Commands given as a user gives them, in this process."""

import pytest

from smoothcert.cli import main


def run(capsys, *arguments):
    """What a command prints."""
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def fails(capsys, *arguments):
    """What a command says that is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    return capsys.readouterr().err
