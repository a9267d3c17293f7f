"""Commands given as a user gives them, in this process."""

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
