"""Real processes for tests: killed at a chosen moment, limited in what they may write, or the ranks of one training.

They are forked from one process that has imported PyTorch and what its optimisers import later: each starts at once.
"""

import contextlib
import functools
import itertools
import multiprocessing
import os
import signal
import sys
import time
import traceback

import torch
from torch.distributed import TCPStore

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.training.tiny", "tests.results", "torch._dynamo"])
PATIENCE = 600  # seconds after which a process that says nothing is a failure


@contextlib.contextmanager
def threads(count):
    """So many of PyTorch's threads in this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def untraced(function):
    """The function, which no debugger and no coverage watches."""

    @functools.wraps(function)
    def run(*arguments, **settings):
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*arguments, **settings)
        finally:
            sys.settrace(trace)

    return run


class Child:
    """A process that calls ``function(report, *arguments)``; what it reports, returns or raises comes back here.

    It waits in the report whose number is `waits_at` until it is told to go on: however fast it is, and however long
    this process is kept from looking, it has not come further.
    """

    def __init__(self, function, *arguments, environment=None, waits_at=0):
        self._messages, theirs = CONTEXT.Pipe(duplex=False)
        word, self._word = CONTEXT.Pipe(duplex=False)
        about = (theirs, word, function, arguments, environment or {}, waits_at)
        self._process = CONTEXT.Process(target=_serve, args=about)
        self._process.start()
        theirs.close()
        word.close()

    def _receive(self, wanted):
        assert self._messages.poll(PATIENCE), "the process said nothing for long"
        kind, value = self._messages.recv()  # an EOFError is a process that ended without a word
        assert kind == wanted, value
        return value

    @property
    def alive(self):
        return self._process.is_alive()

    def next_report(self):
        return self._receive("report")

    def go_on(self):
        with contextlib.suppress(OSError):  # it may have ended
            self._word.send("go on")

    def _close(self):
        self._process.join()
        self._messages.close()
        self._word.close()

    def kill(self):
        """kill -9, which no process can prepare for; tells whether it came before the end."""
        self._process.kill()
        self._close()
        return self._process.exitcode == -signal.SIGKILL

    def interrupt(self, number):
        """Send a signal; returns the exit status, and how many reports had not been received."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)
        self.go_on()
        reports = 0
        with contextlib.suppress(EOFError):  # the end of the process
            while self._messages.recv()[0] == "report":
                reports += 1
        self._close()
        return self._process.exitcode, reports

    def result(self):
        value = self._receive("returned")
        self._close()
        return value


def _serve(messages, word, function, arguments, environment, waits_at):
    torch.set_num_threads(1)
    os.environ.update(environment)
    reports = itertools.count(1)

    def report(value=None):
        messages.send(("report", value))
        if next(reports) == waits_at:
            word.recv()

    try:
        value = function(report, *arguments)
        messages.send(("returned", value))
    except BaseException:
        messages.send(("raised", traceback.format_exc()))


def kill_at(moments, function, *arguments):
    """Start the function anew for each (reports, delay), and kill -9 it that many seconds after so many reports.

    It goes on meanwhile, but not beyond its next report.
    """
    for reports, delay in moments:
        child = Child(function, *arguments, waits_at=reports + 1)
        for _ in range(reports):
            child.next_report()
        time.sleep(delay)
        assert child.kill()


class Launcher:
    """Starts processes that know each other as torchrun's do. Like torchrun's its store outlives them."""

    def __init__(self):
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def start(self, function, *arguments, size=2):
        shared = {
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._store.port),
        }
        shared["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        return [
            Child(
                function,
                *arguments,
                environment={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(size)
        ]


def run_ranks(function, *arguments, size=2):
    """What each of `size` processes returns that know each other as torchrun's do."""
    launcher = Launcher()
    return [rank.result() for rank in launcher.start(function, *arguments, size=size)]
