"""RayWorkers: the processes of a Ray cluster make the rows of a store, and this one alone writes them.

Each worker is an actor with a certifier of its own, made of what was sent to all of them once. A worker, or its whole
machine, may die at any moment: others do what it had. As many are started as the cluster has GPUs (or cores), and
again when machines join.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import smoothcert
from smoothcert.certification.ray_cluster import joined, packed
from smoothcert.certification.workers import Make, Read, Workers
from smoothcert.devices.memory import NO_MEMORY
from smoothcert.errors import ConfigError, ModelError, SmoothcertError, StoreError
from smoothcert.progress import noun
from smoothcert.runs.executor import Made, Row
from smoothcert.runs.identity import require_same, written_out

# the more workers, the longer a group, so that one process can serve them all
_GROUP_SECONDS, _PER_WORKER = 3.0, 0.02
_QUEUED = 2  # groups per worker: one that it works on, and one that waits for it
_TRIES = 3  # workers that may fail at a group before the command ends
_LOOK_SECONDS = 2.0  # between two looks at what the cluster has
_REST_SECONDS = (
    10.0  # before another start after a worker that died while it started; longer after several
)
_WAIT_SECONDS = 0.5
_PATIENCE = (
    60.0  # after which it is said that there is no worker, or a group is given to a second one
)
_SAME = ("smoothcert", "torch")  # versions that all workers of a store share


def group_seconds(workers: int) -> float:
    """How long a group shall take."""
    return max(_GROUP_SECONDS, _PER_WORKER * workers)


class Unfit(Exception):
    """A worker cannot be used, through no fault of the network: others may be."""


class Worker:
    """The actor, in a process of Ray's."""

    def start(
        self, version: str, content: Sequence[Any], device: str
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Make the certifier; returns its identity and environment. `content` holds a reference, to be read here."""
        if smoothcert.__version__ != version:
            raise Unfit(f"it has smoothcert {smoothcert.__version__}, and the command {version}")
        import ray
        import torch

        if device == "cuda" and not torch.cuda.is_available():
            raise Unfit("its PyTorch sees no GPU")
        if device == "cpu":
            torch.set_num_threads(1)  # there is a worker for each core
        make: Make = ray.cloudpickle.loads(ray.get(content[0]))
        with _memory_is_its_own():
            self._certifier = make(device=device)
        return self._certifier.identity, self._certifier.environment

    def rows(self, *inputs: Any) -> tuple[list[Row], float, tuple[int, int]]:
        started = time.perf_counter()
        with _memory_is_its_own():
            rows = list(self._certifier.rows(*inputs))
        return rows, time.perf_counter() - started, self._certifier.rechecked


@contextmanager
def _memory_is_its_own() -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        if str(error) == NO_MEMORY:  # somebody else may use that GPU
            raise Unfit(NO_MEMORY) from None
        raise


def _death(error: Exception) -> str:
    """What Ray says of the end of a worker, which is a page, in a line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    because = re.search(r"The actor is dead because (.*?)\.(?:\s|$)", str(error))
    facts = re.findall(r"^\s*((?:pid|ip): \S+)$", str(error), re.MULTILINE)
    return (because[1] if because else lines[-1].strip()[:300]) + (
        f" ({', '.join(facts)})" if facts else ""
    )


@dataclass(eq=False)
class _Group:
    names: Sequence[int]
    failures: int = 0
    since: float = 0.0  # when it was given to a worker
    made: bool = False


@dataclass(eq=False)
class _Member:
    """A worker as seen from here. One that is not fit keeps its place, so that no other is started there."""

    actor: Any
    starting: Any
    ready: bool = False
    groups: dict[Any, _Group] = field(default_factory=dict)  # in the order in which it does them
    rechecked: tuple[int, int] = (0, 0)


class RayWorkers(Workers):
    group_seconds = _GROUP_SECONDS

    def __init__(
        self,
        make: Make,
        read: Read,
        device: str | None,
        address: str | None,
        *,
        quiet: bool = False,
    ) -> None:
        if device not in (None, "auto", "cpu", "cuda"):
            raise ConfigError(
                f"with Ray, device is auto, cpu or cuda, found {device}: Ray gives each worker its GPU"
            )
        self._read, self._quiet = read, quiet
        self._members: list[_Member] = []
        self._waiting: list[_Group] = []  # given back by workers that died
        self._gone = (0, 0)  # what workers that are gone had looked at again
        # workers that died while they started, one after the other
        self._crashed, self._reason = 0, ""
        self._next_look = self._longest = 0.0
        self._last_ready, self._said = time.monotonic(), False
        self.identity = self.environment = {}
        with ExitStack() as held:
            self._ray = held.enter_context(joined(address))
            self._content = self._ray.put(packed(make))
            self._device = (
                device if device in ("cpu", "cuda") else "cuda" if self._has("GPU") else "cpu"
            )
            while not self.identity:
                self._attend()
                refused = self._members and all(member.starting is None for member in self._members)
                if not self.identity and (refused or self._crashed >= _TRIES):
                    raise StoreError(f"no worker of the Ray cluster can be used: {self._reason}")
            self._held = held.pop_all()

    def __exit__(self, *_: object) -> None:
        self._held.close()  # the workers are this job's, and end with it

    @property
    def rechecked(self) -> tuple[int, int]:
        counts = [self._gone, *(member.rechecked for member in self._members)]
        return sum(rows for rows, _ in counts), sum(differing for _, differing in counts)

    @property
    def note(self) -> str:
        count = sum(member.ready for member in self._members)
        return f"{count} {noun(count, 'worker')}"

    @property
    def idle(self) -> bool:
        return not self._waiting and self._freest() is not None

    def submit(self, names: Sequence[int]) -> None:
        self._waiting.append(_Group(names))
        self._hand_out()

    def collect(self) -> Sequence[Made]:
        self._hand_out()
        return self._attend()

    def next_group(self, made: Made, claiming: float = 0.0) -> int:
        self.group_seconds = group_seconds(len(self._members))
        return super().next_group(made, claiming)

    def _freest(self, but: _Group | None = None) -> _Member | None:
        free = [
            m
            for m in self._members
            if m.ready and len(m.groups) < _QUEUED and but not in m.groups.values()
        ]
        return min(free, key=lambda member: len(member.groups), default=None)

    def _hand_out(self) -> None:
        while self._waiting and (member := self._freest()):
            self._give(self._waiting.pop(0), member)
        if not self._waiting:  # a worker that hangs holds nobody up: another one does its group too
            late = time.monotonic() - max(_PATIENCE, 2 * _QUEUED * self._longest)
            overdue = {
                id(g): g
                for m in self._members
                for g in m.groups.values()
                if g.since < late and not g.made
            }
            for group in overdue.values():
                if member := self._freest(but=group):
                    self._give(group, member)

    def _give(self, group: _Group, member: _Member) -> None:
        group.since = time.monotonic()
        member.groups[member.actor.rows.remote(*self._read(group.names))] = group

    def _attend(self) -> list[Made]:
        """Start workers where there is room, and take what workers have finished; waits for that, but not for long."""
        self._look_for_room()
        now = time.monotonic()
        if any(member.ready for member in self._members):
            self._last_ready, self._said = now, False
        elif now - self._last_ready > _PATIENCE and not self._said:
            self._say("no worker is there: waiting until the cluster has one")
            self._said = True
        expected = {m.starting: m for m in self._members if m.starting is not None}
        expected |= {reference: member for member in self._members for reference in member.groups}
        if not expected:
            time.sleep(_WAIT_SECONDS)
            return []
        references = list(expected)
        if not self._ray.wait(references, timeout=_WAIT_SECONDS)[0]:
            return []
        finished = set(self._ray.wait(references, num_returns=len(references), timeout=0)[0])
        made = [
            self._take(expected[reference], reference)
            for reference in references
            if reference in finished
        ]
        return [group for group in made if group is not None]

    def _take(self, member: _Member, reference: Any) -> Made | None:
        if member not in self._members:
            return None  # it was given up a moment ago, and its groups are with others
        starting = reference is member.starting
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, SmoothcertError):
                raise error.cause from None  # about the network or the data: no other worker would do better
            reason = f"{type(error.cause).__name__}: {error.cause}"
            if starting:
                self._refuse(member, str(error.cause) if isinstance(error.cause, Unfit) else reason)
            else:
                self._lose(member, reason)
        except errors.RayError as error:  # its process or its machine is gone
            if starting:
                self._crashed += 1
                self._next_look = time.monotonic() + min(_REST_SECONDS * self._crashed, _PATIENCE)
            self._lose(member, _death(error))
        else:
            if not starting:
                return self._made(member, reference, *answer)
            self._welcome(member, *answer)
        return None

    def _welcome(
        self, member: _Member, identity: Mapping[str, Any], environment: Mapping[str, Any]
    ) -> None:
        if not self.identity:
            self.identity, self.environment = identity, environment
        versions, theirs = (
            {name: of[name] for name in _SAME} for of in (self.environment, environment)
        )
        try:
            require_same(
                {**written_out(self.identity), **versions},
                {**written_out(identity), **theirs},
                holds="it would make other rows than the first worker",
                advice="all workers of a store have the same versions and the same kind of device",
            )
        except StoreError as error:
            self._refuse(member, f"{environment['host']}: {error}")
        else:
            member.starting, member.ready, self._crashed = None, True, 0

    def _made(
        self,
        member: _Member,
        reference: Any,
        rows: Sequence[Row],
        seconds: float,
        rechecked: tuple[int, int],
    ) -> Made | None:
        group = member.groups.pop(reference)
        member.rechecked, self._longest = rechecked, max(self._longest, seconds)
        if group.made:
            return None
        group.made = True
        return Made(group.names, rows, seconds)

    def _refuse(self, member: _Member, reason: str) -> None:
        member.starting, self._reason = None, reason
        self._say(f"a worker is not used: {reason}")

    def _lose(self, member: _Member, reason: str) -> None:
        """Give its groups to others, the first of which it was working on."""
        self._members.remove(member)
        self._ray.kill(member.actor)
        self._gone = (self._gone[0] + member.rechecked[0], self._gone[1] + member.rechecked[1])
        self._reason = reason
        for place, group in enumerate(member.groups.values()):
            group.failures += place == 0
            if group.failures >= _TRIES and not group.made:
                raise ModelError(
                    f"input{'s'[: len(group.names) > 1]} {', '.join(map(str, group.names))} could not be certified: "
                    f"{_TRIES} workers failed at it, the last one with {reason}. What the others made is kept"
                )
            elsewhere = any(group in other.groups.values() for other in self._members)
            if not (group.made or elsewhere or group in self._waiting):
                self._waiting.append(group)
        self._say(f"a worker is gone, others do what it had: {reason}")

    def _look_for_room(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_SECONDS
        for _ in range(self._has("GPU" if self._device == "cuda" else "CPU") - len(self._members)):
            self._members.append(self._start())

    def _start(self) -> _Member:
        place = {"num_gpus": 1, "num_cpus": 0} if self._device == "cuda" else {"num_cpus": 1}
        actor = self._ray.remote(max_restarts=0, max_task_retries=0, **place)(Worker).remote()
        return _Member(
            actor, actor.start.remote(smoothcert.__version__, [self._content], self._device)
        )

    def _has(self, kind: str) -> int:
        return int(self._ray.cluster_resources().get(kind, 0))

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"note: {text}", file=sys.stderr, flush=True)
