"""What is printed: text that nobody's file can make speak to the terminal; and progress with rate and time left."""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from types import TracebackType
from typing import Any, Self, TextIO

_SECONDS_BETWEEN_LINES = 15.0  # without a terminal, where no bar can be drawn


def printable(text: str, kept: str = "") -> str:
    """Text that anyone may have written, where it is shown.

    Control characters, ends of lines and marks that turn the direction of text are spelt out, as
    \\x1b, but for those that are `kept`.
    """

    def shown(found: re.Match[str]) -> str:
        c = found[0]
        plain = c in kept or unicodedata.category(c) not in (
            "Cc",
            "Cf",
            "Cs",
            "Co",
            "Cn",
            "Zl",
            "Zp",
        )
        return c if plain else c.encode("unicode_escape").decode()

    return re.sub("[^ -~]", shown, text)


class Printable:
    """A stream that everything is printed to as `printable`; what we style ourselves goes to the stream behind it."""

    def __init__(self, stream: TextIO) -> None:
        self.styled = stream

    def write(self, text: str) -> int:
        bar = text[:1] == "\r"  # of another package, which draws its line again
        self.styled.write(text[:bar] + printable(text[bar:], "\n\t"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.styled, name)


@contextmanager
def printing() -> Iterator[None]:
    """Within, all that is printed is `printable`: commands print text of anyone's files."""
    with ExitStack() as streams:
        streams.enter_context(redirect_stdout(Printable(sys.stdout)))
        streams.enter_context(redirect_stderr(Printable(sys.stderr)))
        yield


def styled(stream: TextIO) -> TextIO:
    """Where colours and bars may go, whose words must be `printable` already: to a terminal, and nowhere else."""
    behind: TextIO = getattr(stream, "styled", stream)
    return behind if behind.isatty() else stream


def time_left(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def about(seconds: float) -> str:
    """A duration to plan with: two digits are more than is known."""
    units = (("days", 86400), ("hours", 3600), ("minutes", 60))
    unit, length = next(
        ((name, size) for name, size in units if seconds >= 2 * size), ("seconds", 1)
    )
    number = float(f"{seconds / length:.2g}")
    return f"{number:g} {'second' if number == 1 else unit}"


def noun(count: int, one: str, many: str = "") -> str:
    """The word that stands after this number: epoch or epochs."""
    return one if count == 1 else many or f"{one}s"


def all_of(count: int, one: str) -> str:
    return f"1 of 1 {one}" if count == 1 else f"all {count} {one}s"


class ProgressBar:
    """``with ProgressBar("certify", total=500, unit="images") as bar: bar.advance()``. Silent when `quiet`."""

    def __init__(
        self, what: str, total: int, unit: str, *, done: int = 0, quiet: bool = False
    ) -> None:
        self._what, self._total, self._unit, self._quiet = printable(what), total, unit, quiet
        self._done = self._before = (
            done  # a resumed run starts part of the way; its rate counts new work only
        )
        self._started = self._printed = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.markup import escape
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TextColumn("[dim]{task.fields[note]}"),
            )
            self._bar = Bar(*columns, console=Console(file=styled(sys.stderr)))
            self._task = self._bar.add_task(
                escape(self._what), total=self._total, completed=self._done, rate="", note=""
            )
            self._bar.start()
        return self

    def advance(self, count: int = 1, note: str = "") -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=self.rate(), note=note)
        elif not self._quiet:
            now = time.monotonic()
            if now - self._printed >= _SECONDS_BETWEEN_LINES or self._done >= self._total:
                self._printed = now
                unit = noun(self._total, self._unit.removesuffix("s"))
                line = f"{self._what}: {self._done}/{self._total} {unit}, {self.rate()} {note}"
                print(line.rstrip(), file=sys.stderr, flush=True)

    def rate(self) -> str:
        seconds = time.monotonic() - self._started
        fresh = self._done - self._before
        if fresh <= 0 or seconds <= 0:
            return ""
        speed = fresh / seconds
        text = (
            f"{speed:.1f} {self._unit}/s"
            if speed >= 1
            else f"{1 / speed:.1f} s/{self._unit.rstrip('s')}"
        )
        return f"{text}, {time_left((self._total - self._done) / speed)} left"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
