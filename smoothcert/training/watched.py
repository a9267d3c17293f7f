"""Progress that notes what a loss asks of it."""

from __future__ import annotations

from typing import Any

from smoothcert.methods.base import Progress


class WatchedProgress(Progress):
    """As long as all that was asked has the same answers, a step that was captured is the step that is wanted."""

    _asked: dict[tuple[Any, ...], object]  # (name, argument, ...): answer

    def __init__(self, epoch: int, epochs: int) -> None:
        super().__init__(epoch, epochs)
        object.__setattr__(self, "_asked", {})

    def later(self, progress: Progress) -> WatchedProgress | None:
        """The same for another epoch; None if it answers otherwise."""
        if any(_answer(progress, *question) != answer for question, answer in self._asked.items()):
            return None
        found = WatchedProgress(progress.epoch, progress.epochs)
        found._asked.update(self._asked)
        return found

    def ramp(self, warmup: int) -> float:
        return float(self._noted("ramp", warmup))

    def reached(self, epoch: int) -> bool:
        return bool(self._noted("reached", epoch))

    def __getattribute__(self, name: str) -> Any:
        # losses also read these as they are, and a subclass of a dataclass cannot make properties of them
        return self._noted(name) if name in ("epoch", "epochs") else super().__getattribute__(name)

    def _noted(self, *question: Any) -> Any:
        fields = super().__getattribute__
        answer = self._asked[question] = _answer(Progress(fields("epoch"), fields("epochs")), *question)
        return answer


def _answer(progress: Progress, name: str, *arguments: Any) -> Any:
    found = getattr(progress, name)
    return found(*arguments) if arguments else found
