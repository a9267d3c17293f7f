"""The frame of the command line, and the only file that knows cyclopts: a typed function becomes a command.

Its parameters are the arguments and options, its docstring is the help, and a parameter that is annotated with
`Options(SomeConfig)` stands for all settings of that dataclass: it gets those that were given, as a dict.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import cyclopts
from cyclopts import App, Group, Parameter
from cyclopts.help import HelpPanel, PlainFormatter

import smoothcert
from smoothcert.cli.values import Place as Place
from smoothcert.cli.values import plain, read
from smoothcert.config.read import explained, option_of, reads_itself
from smoothcert.errors import ConfigError, unknown_name

GROUPS = ("Start", "Make", "Look", "Check and share", "The papers")
ABOUT = (
    "Train image classifiers whose answers come with a proof, certify them, report the proofs.\n\n"
    "smoothcert COMMAND --help shows the usual options, --help-all every option."
)

AtMostOne = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=(0, 1))]
"""An option that may stand alone: then it is empty."""
Words = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""Options of another command, in quotes."""
Recipe = Annotated[str, Parameter(completer=lambda _: _recipes())]
Device = Annotated[str, "auto, cpu, cuda or cuda:N"]
DataDir = Annotated[Path | None, "where data sets are; else $SMOOTHCERT_DATA"]
Trust = Annotated[
    bool,
    "run the Python code that a run folder names as its network, if it is none of smoothcert's",
]
Json = Annotated[
    bool, "print one JSON document and nothing else; notes and progress go to standard error"
]


def _recipes() -> list[str]:
    from smoothcert.recipes import recipe_names

    return recipe_names()


@dataclass(frozen=True)
class Options:
    """As an annotation: the settings of this dataclass as options, or only some of them, by their names.

    Some may be needed. `over` something that has all of them already, such as a recipe, flags can be turned off too.
    """

    kind: type[Any]
    only: str = ""
    needs: str = ""
    over: bool = False


@dataclass(frozen=True)
class Command:
    function: Callable[..., None]
    group: str
    usual: tuple[str, ...]


def command(group: str, usual: str = "") -> Callable[[Callable[..., None]], Command]:
    """Make a function a command of its file; --help shows its `usual` options, or all."""
    return lambda function: Command(function, group, tuple(map(option_of, usual.split())))


def names() -> dict[str, str]:
    """The module of every command: `import` of import_."""
    package = import_module("smoothcert.cli")
    found = sorted(module.name for module in iter_modules(package.__path__))
    return {name.strip("_").replace("_", "-"): f"{package.__name__}.{name}" for name in found}


def commands(only: Sequence[str] = ()) -> dict[str, Command]:
    """Every command by its name, or only one of these if it is one."""
    known = names()
    chosen = [name for name in only[:1] if name in known] or known
    loaded = {name: _command_of(import_module(known[name])) for name in chosen}
    return {name: found for name, found in loaded.items() if found}


def _command_of(module: ModuleType) -> Command | None:
    return next((entry for entry in vars(module).values() if isinstance(entry, Command)), None)


def application(words: Sequence[str] = (), width: int | None = None) -> App:
    """All commands, or only the one that is named by the first word, which is faster."""
    from rich.console import Console

    # of plain text: what is printed by commands is theirs, and no file can make it speak to the terminal
    console = Console(
        width=width, color_system=None, force_terminal=False, highlight=False, markup=False
    )
    everything = "--help-all" in words
    app = App(
        name="smoothcert",
        help=ABOUT,
        version=f"smoothcert {smoothcert.__version__}",
        help_flags=("--help", "-h", "--help-all"),
        help_format="plaintext",
        help_formatter=_Help((), everything),
        console=console,
        error_console=console,
        group_parameters=Group("Options"),
        group_commands=Group("Options", sort_key=9),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    groups = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}
    for name, found in commands(words).items():
        shown = _Help(found.usual, everything)
        app.command(
            _typed(found.function), name=name, group=groups[found.group], help_formatter=shown
        )
    text = "install completion for this shell: commands, options and their words"
    app.register_install_completion_command(help=text)
    return app


def parsed(words: Sequence[str]) -> partial[None] | None:
    """The call that is asked for, or None if help was, and is printed; words that are wrong are a ConfigError."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    try:
        call: partial[None] | None
        call = application(words)(words, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        raise ConfigError(_sentence(error, words[0])) from error
    return call if isinstance(call, partial) else None


def reference() -> str:
    """Every option of every command, in Markdown."""
    pages = ["# Commands\n\nWritten by `make docs/commands.md`; a test compares it.\n"]
    for name in ("", *commands()):
        words = [name, "--help-all"] if name else ["--help"]
        with redirect_stdout(StringIO()) as printed:
            application(words, width=100)(words)
        pages.append(
            f"## smoothcert {name}".rstrip() + f"\n\n```text\n{printed.getvalue().strip()}\n```\n"
        )
    return "\n".join(pages)


def _typed(function: Callable[..., None]) -> Callable[..., partial[None]]:
    """The function as cyclopts reads it: each setting is an option of its own, and each value has our reader."""
    hints, made = get_type_hints(function, include_extras=True), list[inspect.Parameter]()
    settings: dict[
        str, dict[str, str]
    ] = {}  # of each parameter with options: their names, by names that differ
    for name, parameter in inspect.signature(function).parameters.items():
        hint, *extras = (
            get_args(hints[name]) if get_origin(hints[name]) is Annotated else [hints[name]]
        )
        group = next((extra for extra in extras if isinstance(extra, Options)), None)
        if group is not None:
            options = {f"{name}__{option.name}": option for option in _settings(group)}
            settings[name] = {key: option.name for key, option in options.items()}
            made += [option.replace(name=key) for key, option in options.items()]
        else:
            flag = option_of(name) if parameter.kind is parameter.KEYWORD_ONLY else ""
            text = next((extra for extra in extras if isinstance(extra, str)), None)
            more = [extra for extra in extras if isinstance(extra, Parameter)]
            about = {} if text is None else {"help": text}  # else that of the docstring
            kind = _option(flag, flag or name.upper(), hint, *more, negative="", **about)
            made.append(parameter.replace(annotation=kind))

    def called(*arguments: Any, **given: Any) -> partial[None]:
        for name, options in settings.items():
            given[name] = {options[key]: given.pop(key) for key in options if key in given}
        return partial(function, *arguments, **given)

    called.__doc__ = function.__doc__
    called.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    return called


def _settings(group: Options) -> Iterator[inspect.Parameter]:
    texts, hints = explained(group.kind), get_type_hints(group.kind)
    for entry in fields(group.kind):
        name = entry.name
        if name not in (group.only.split() or texts):
            continue
        shown = not group.over and entry.default not in (MISSING, None, False)
        text = f"{texts[name]} (default: {entry.default})" if shown else texts[name]
        about = {"help": text, "required": name in group.needs.split()}
        if not (group.over and hints[name] is bool):
            about["negative"] = ""
        hint = _option(option_of(name), option_of(name), hints[name], **about)
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=None)


def _option(flag: str, called: str, hint: Any, *more: Parameter, **about: Any) -> Any:
    """A type whose words are read by us, and called as on the command line where they are wrong."""
    kind = plain(hint)
    if flag:
        about["name"] = flag
    if get_origin(kind) in (list, tuple):
        about["consume_multiple"] = (1, None)
    if kind is not bool:
        about["converter"] = lambda _, tokens: read(called, hint, tokens)
    return Annotated[dict[str, Any] if reads_itself(kind) else hint, Parameter(**about), *more]


def _sentence(error: cyclopts.CycloptsError, name: str) -> str:
    """What is wrong with the words of a command, and what to do."""
    more = f"see `smoothcert {name} --help`"
    match error:
        case cyclopts.UnknownCommandError():
            return str(unknown_name("command", name, commands()))
        case cyclopts.UnknownOptionError():
            word = (error.token.keyword or error.token.value).partition("=")[0]
            known = {
                flag.lstrip("-"): flag for each in error.argument_collection for flag in each.names
            }
            if near := get_close_matches(word.lstrip("-"), known, n=1):
                more = f"did you mean {known[near[0]]}?"
            elif "method" in known:
                more = f"a hyperparameter of the method is given as --method.{word.lstrip('-')}"
            return f"{name} has no option {word}: {more}"
        case cyclopts.RepeatArgumentError():
            return f"{error.token.keyword} is given twice: leave one out"
        case cyclopts.ConsumeMultipleError() if error.actual_count:
            return f"{error.keyword} takes one value, found {error.actual_count}: {more}"
        case cyclopts.MissingArgumentError() if error.argument is not None:
            flag = error.keyword or error.argument.name
            if error.argument.tokens or error.keyword:
                return f"{flag} takes a value, found none: {more}"
            return f"{name} needs {flag}: {more}"
        case cyclopts.UnusedCliTokensError():
            return f"{name} has no place for {' '.join(error.unused_tokens or ())!r}: {more}"
        case cyclopts.CoercionError() if error.token is not None:
            named = f"{error.token.keyword} takes no value, found {error.token.value!r}"
            return f"{named}; give it alone to turn it on, or leave it out"
    error.verbose = False
    return f"{' '.join(str(error).split())}: {more}"


class _Help(PlainFormatter):
    """A line for each option: of a command with many only the usual ones, unless all are asked for."""

    def __init__(self, usual: Sequence[str], everything: bool) -> None:
        super().__init__()
        self.usual, self.everything = {*usual}, everything

    def __call__(self, console: Any, options: Any, panel: HelpPanel) -> None:
        from rich.table import Table

        table, hidden = Table.grid("", "", padding=(0, 2, 0, 0)), 0
        for entry in panel.entries:
            if {"--help", "--version"} & {*entry.names}:
                continue
            few = self.usual and not self.everything and entry.names and not entry.required
            if few and not self.usual & {*entry.names}:
                hidden += 1
                continue
            choices = f" ({', '.join(entry.choices)})" if entry.choices else ""
            default = (
                f" (default: {entry.default})" if entry.default not in (None, "False", "()") else ""
            )
            words = "  " + " ".join(entry.display_labels_with_metavar)
            table.add_row(words, _together(entry.description, f"{choices}{default}"))
        with console.capture() as captured:
            console.print(table)
        lines = [line.rstrip() for line in captured.get().splitlines()] if table.row_count else []
        more = [f"and {hidden} more: --help-all"] if hidden else []
        if lines or more:
            console.print(
                *([f"{panel.title}:"] if lines else []), *lines, *more, "", sep="\n", soft_wrap=True
            )


def _together(description: Any, more: str) -> Any:
    from rich.text import Text

    text = getattr(description, "primary_renderable", description)
    return Text.assemble(getattr(text, "plain", str(text or "")).rstrip(), more)
